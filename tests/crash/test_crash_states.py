"""Crash states for each commit: a small part; `make test-long` and tests/campaign/states.py continue after it."""

from __future__ import annotations

import pytest

from tests.crash.explore import Step, parse_path, path_text, replayed
from tests.crash.workloads import WORKLOADS, go_through, shares

STATES = 4000
FIRST_SEED = 1
LONG_STATES = 16_000
FIRST_LONG_SEED = 501


@pytest.mark.parametrize(("name", "states"), shares(STATES))
def test_no_crash_breaks_an_invariant(name: str, states: int) -> None:
    check_states(name, states, FIRST_SEED)


@pytest.mark.long
@pytest.mark.parametrize(("name", "states"), shares(LONG_STATES))
def test_none_of_many_crashes_breaks_an_invariant(name: str, states: int) -> None:
    check_states(name, states, FIRST_LONG_SEED)


def check_states(name: str, states: int, first_seed: int) -> None:
    outcome, found, _ = go_through(name, states=states, first_seed=first_seed)
    assert not found, "\n".join(map(str, found))
    assert outcome.states >= states


@pytest.mark.parametrize("seed", [11023, 12051])
def test_a_producer_with_only_markers_left_may_restart_its_sequences(seed: int) -> None:
    assert any(operation.kind == "write" for operation in WORKLOADS["everything"](seed).operations)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_each_time(name: str) -> None:
    assert list(WORKLOADS[name](5).operations) == list(WORKLOADS[name](5).operations)


def test_a_crash_path_is_parsed_from_its_text() -> None:
    path = [Step(12, (3, 0, 1), 2), Step(4, ())]
    assert path_text(path) == "12ff:3.0.1/4:"
    assert parse_path(path_text(path)) == path


def test_replaying_a_crash_path_gives_its_state() -> None:
    workload = WORKLOADS["appends"](1)
    everything, problems = replayed(workload, [Step(len(workload.operations), ())])
    assert not problems
    nothing, problems = replayed(workload, [Step(0, ())])
    assert not problems
    assert nothing == workload.start != everything
