"""Workloads by name, and functions that explore them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tests.crash import node_workloads, partition_workloads
from tests.crash.compaction_workload import CompactionScript
from tests.crash.explore import Outcome, Workload, explore
from tests.crash.node_workloads import NodeScript
from tests.crash.partition_workloads import Script
from tests.crash.transaction_workload import TransactionScript

WORKLOADS: dict[str, Callable[[int], Workload]] = {
    **{name: partial(Script, name) for name in partition_workloads.WEIGHTS},
    "compaction": CompactionScript,
    "coordinator": TransactionScript,
    **{name: partial(NodeScript, name) for name in node_workloads.WEIGHTS},
}
"""Function by name that creates the workload of a seed."""

STATES_PER_SEED = 500
"""Approximate number of states for each seed of a workload, before the next seed."""


class Found(NamedTuple):
    """Violation with all data to replay it."""

    workload: str
    seed: int
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.problem}\n    python -m tests.crash.replay {self.workload} {self.seed} {self.path}"


def go_through(name: str, *, states: int, first_seed: int) -> tuple[Outcome, list[Found], int]:
    """Explore seeds in order until enough states were tried; return the result and the next seed."""
    total, seed = Outcome(), first_seed
    found: list[Found] = []
    while total.states < states and not found:
        outcome = explore(_drawn(name, seed), states=min(STATES_PER_SEED, states - total.states), seed=seed)
        found += [Found(name, seed, *violation) for violation in outcome.violations]
        total.add(outcome)
        seed += 1
    return total, found, seed


def _drawn(name: str, seed: int) -> Workload:
    try:
        return WORKLOADS[name](seed)
    except Exception as error:  # exceptions of any type, which may be impossible to send from a worker process
        raise AssertionError(f"the workload {name} of seed {seed} does not run: {error}") from error


def shares(states: int) -> list[tuple[str, int]]:
    """Return (workload, states) with equal shares."""
    return [(name, -(-states // len(WORKLOADS))) for name in WORKLOADS]
