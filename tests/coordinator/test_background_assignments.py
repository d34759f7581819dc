"""Assignments in the background of groups whose members change meanwhile, or whose changes cannot be stored."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kwire.coordinator.group.modern import background_assignments
from kwire.coordinator.group.modern.background_assignments import BackgroundAssignments
from kwire.coordinator.group.modern.target_assignment import Partitions, TargetAssignment
from tests.coordinator.test_scripts import run_script

A_JOIN_FAILS = """
> setting group.consumer.assignment.interval.ms=0
> beat a topics=t
a: epoch 1 nothing
> beat a
a: epoch 2 t-0,t-1
# The next member gets the epoch that the failed one would have had.
> reject-appends; beat x topics=t; allow-appends; beat b topics=t
x: COORDINATOR_NOT_AVAILABLE
b: epoch 2 nothing
> beat a
a: epoch 2 t-0
> beat a
a: epoch 3
> beat b
b: epoch 3 t-1
> consumers
Stable epoch=3 target=3
  a epoch=3 t-0
  b epoch=3 t-1
"""
A_STATIC_MEMBER_RETURNS = """
> setting group.consumer.assignment.interval.ms=0
> beat a topics=t instance=i
a: epoch 1 nothing
> beat a
a: epoch 2 t-0,t-1
> leave-group a epoch=-2
a: epoch -2
# Its next instance has another member id, and the epoch stays.
> beat b topics=t; beat c topics=t instance=i
b: epoch 2 nothing
c: epoch 2 t-0,t-1
> beat c
c: epoch 2 t-0
> beat c
c: epoch 3
> beat b
b: epoch 3 t-1
> consumers
Stable epoch=3 target=3
  b epoch=3 t-1
  c epoch=3 t-0
"""
AN_UPGRADE_DURING_THE_FIRST_REBALANCE = """
> config initial_rebalance_delay_ms=3000
> setting group.consumer.assignment.interval.ms=0
> join x version=3
# The classic group is still at generation 0.
> beat b topics=t
b: epoch 1 nothing
x join: REBALANCE_IN_PROGRESS member=x#1
> beat b
b: epoch 2 t-0
> join x version=3
x join: generation 2 range leader= member=x#1
> consumers
Stable epoch=2 target=2
  x#1 classic epoch=2 t-1
  b epoch=2 t-0
"""
A_STREAMS_JOIN_FAILS = """
> setting group.streams.initial.rebalance.delay.ms=0 group.streams.assignment.interval.ms=0
> create-topic big=1500
> topology 0=big
> beat a owned=-
a: epoch 1 nothing
  ASSIGNMENT_DELAYED: Assignment delayed because it is still being computed.
# The second heartbeat configures the topology.
> beat a owned=-
a: epoch 1
  ASSIGNMENT_DELAYED: Assignment delayed because it is still being computed.
> wait 100
> beat a owned=-
a: epoch 2 many
> reject-appends; beat x owned=-; allow-appends; beat b owned=-
x: COORDINATOR_NOT_AVAILABLE
b: epoch 2 nothing
  ASSIGNMENT_DELAYED: Assignment delayed because it is still being computed.
> wait 100
> beat a
a: epoch 2 many
> beat a
a: epoch 3
> beat b
b: epoch 3 many
> streams-counts
Stable epoch=3 target=3
  a epoch=3 has 750 of 750 tasks
  b epoch=3 has 750 of 750 tasks
"""


@pytest.mark.parametrize("script", [A_JOIN_FAILS, A_STATIC_MEMBER_RETURNS, AN_UPGRADE_DURING_THE_FIRST_REBALANCE])
def test_each_partition_gets_a_member_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(background_assignments, "SMALL", 2)
    assert run_script("consumer", script, tmp_path) == script


def test_each_task_gets_a_member_that_is_there(tmp_path: Path) -> None:
    assert run_script("streams", A_STREAMS_JOIN_FAILS, tmp_path) == A_STREAMS_JOIN_FAILS


# --- changes while an assignment is computed

ALL: Partitions = {UUID(int=1): frozenset({0, 1})}


class Timers:
    """Timer that a test triggers."""

    def __init__(self) -> None:
        self.step: Callable[[], Any] | None = None

    def schedule(self, _name: object, _delay_ms: float, step: Callable[[], Any]) -> None:
        self.step = step

    def fire(self) -> Any:
        step, self.step = self.step, None
        assert step is not None
        return step()


class World:
    """Group whose assignment takes three steps: to start, to compute, to finish."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.group: Any = new_group()
        self.stored: list[tuple[int, list[str]]] = []
        self.assignments: BackgroundAssignments[Any] = BackgroundAssignments(
            cast("Any", self.timers),
            find=lambda _: self.group,
            compute=self._compute,
            target_records=self._target_records,
        )

    def _compute(self, group: Any) -> Generator[None, None, dict[str, Partitions]]:
        members = list(group.members)
        yield
        return dict.fromkeys(members, ALL)

    def _target_records(self, _group: Any, epoch: int, member_ids: Iterable[str], _computed: Mapping[str, Any]) -> Any:
        self.stored.append((epoch, list(member_ids)))
        return []


def new_group() -> Any:
    return SimpleNamespace(group_id="g", epoch=2, target=TargetAssignment(), members={"a": 1, "b": 1})


def leave(world: World) -> None:
    del world.group.members["a"]
    world.group.epoch += 1


def replace(world: World) -> None:
    del world.group.members["a"]
    world.group.members["c"] = 1


def rename_and_leave(world: World) -> None:
    """Let a static member with a target return with another member id, and then let another member leave."""
    world.group.target.put("c", ALL)
    del world.group.members["a"]
    world.group.members["c"] = 1
    del world.group.members["b"]
    world.group.epoch += 1


def join(world: World) -> None:
    world.group.members["c"] = 1
    world.group.epoch += 1


def recreate(world: World) -> None:
    world.group = new_group()


def delete(world: World) -> None:
    world.group = None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: None, [(2, ["a", "b"])]),
        (leave, [(2, ["b"])]),
        (replace, []),
        (rename_and_leave, []),
        (join, [(2, ["a", "b"])]),
        (recreate, []),
        (delete, []),
    ],
)
def test_only_a_result_that_fits_the_group_is_stored(
    change: Callable[[World], None], expected: list[tuple[int, list[str]]]
) -> None:
    world = World()
    world.assignments.begin("g")
    world.timers.fire()
    world.timers.fire()
    change(world)
    assert world.assignments.is_running("g")
    world.timers.fire()
    assert world.stored == expected
    assert not world.assignments.is_running("g")


def leave_all(world: World) -> None:
    world.group.members.clear()


def finish(world: World) -> None:
    world.group.target.replace_metadata(world.group.epoch, 0)


@pytest.mark.parametrize("change", [delete, leave_all, finish])
def test_nothing_is_computed_for_a_group_that_needs_nothing(change: Callable[[World], None]) -> None:
    world = World()
    world.assignments.begin("g")
    change(world)
    world.timers.fire()
    assert world.timers.step is None
    assert not world.assignments.is_running("g")


def test_an_assignor_that_is_missing_leaves_no_assignment_in_progress() -> None:
    """The group was loaded from a log of a broker with another assignor."""
    world = World()

    def compute(_: Any) -> Any:
        raise ValueError("custom is not an assignor")

    world.assignments._compute = compute
    world.assignments.begin("g")
    with pytest.raises(ValueError, match="custom"):
        world.timers.fire()
    assert not world.assignments.is_running("g")
