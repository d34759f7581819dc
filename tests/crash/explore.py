"""Exploration of the states that a power cut during a workload, or during a recovery, may leave.

A path of steps, each `operation:choices`, leads to a state. The power cut happened before that operation of the
workload (in further steps, of the recovery); the numbers select the data that was left. The letter f after the
operation means that entries of a directory were lost in any order.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tests.crash.disk import Operation, RecordingDisk, Tree
from tests.crash.journal import Choices, Journal

DEPTH_MAX = 3
"""Number of power cuts: one in the workload, one during the recovery, and one during the recovery from that."""
VIOLATIONS_MAX = 5
STATES_PER_OPERATION = 8
"""Number of states for each explored operation, if it has as many. With few states in total, operations are skipped."""
FREE_LEVELS = 2
"""Depth of directories with free order: the root and the log directory. A partition's directory keeps the order of its
names, as supported file systems do: a later segment does not exist without the earlier ones.
"""


class Workload(Protocol):
    """Recorded operations on a disk, with a check of each state."""

    @property
    def start(self) -> Tree: ...

    @property
    def operations(self) -> Sequence[Operation]: ...

    def check(self, disk: RecordingDisk, at: int, probe: int) -> list[str]:
        """Recover on this disk after a power cut before operation `at` and return the violations. It must record
        nothing.
        """


class Step(NamedTuple):
    """A power cut."""

    at: int
    choices: tuple[int, ...]
    free_order: int = 0

    def __str__(self) -> str:
        return f"{self.at}{'f' * self.free_order}:{'.'.join(map(str, self.choices))}"


def parse_path(text: str) -> list[Step]:
    steps = []
    for part in text.split("/"):
        at, _, choices = part.partition(":")
        numbers = tuple(int(number) for number in choices.split(".") if number)
        steps.append(Step(int(at.rstrip("f")), numbers, at.count("f")))
    return steps


def path_text(path: Sequence[Step]) -> str:
    return "/".join(map(str, path))


class Violation(NamedTuple):
    path: str
    problem: str


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Result of an exploration."""

    operations: int = 0
    states: int = 0
    """Number of distinct states over all operations; each was recovered and checked."""
    exhausted: int = 0
    """Number of operations whose states were all tried."""
    violations: list[Violation] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.operations += other.operations
        self.states += other.states
        self.exhausted += other.exhausted
        self.violations += other.violations


@contextmanager
def quiet() -> Iterator[None]:
    """Disable the log messages of recovery, which would be many."""
    logger = logging.getLogger("kwire")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def explore(workload: Workload, *, states: int, seed: int) -> Outcome:
    """Explore about this many states, spread over all operations, with up to DEPTH_MAX power cuts in sequence."""
    outcome = Outcome(operations=len(workload.operations))
    with quiet():
        _explore(workload, outcome, states, random.Random(seed))
    return outcome


def _explore(workload: Workload, outcome: Outcome, states: int, random_source: random.Random) -> None:
    journal = Journal(workload.start)
    count = len(workload.operations)
    for at in range(count + 1):
        # Power cuts during the recovery need about as many states again.
        affordable = max(0, states - outcome.states) / (count + 1 - at) / 2
        limit = max(STATES_PER_OPERATION, int(affordable))
        if random_source.random() * STATES_PER_OPERATION > affordable:
            journal.replay(workload.operations[at : at + 1])
            continue
        free_order = FREE_LEVELS * (random_source.randrange(4) == 0)
        seen: set[object] = set()
        tried = 0
        for choices, tree in journal.states(limit=limit, seed=random_source.getrandbits(32), free_order=free_order):
            tried += 1
            key = frozen(tree)
            if key in seen:
                continue
            seen.add(key)
            path = [Step(at, tuple(choices), free_order)]
            _descend(workload, outcome, path, tree, random_source)
            if len(outcome.violations) >= VIOLATIONS_MAX:
                return
        outcome.exhausted += tried < limit
        journal.replay(workload.operations[at : at + 1])


def _descend(workload: Workload, outcome: Outcome, path: list[Step], tree: Tree, random_source: random.Random) -> None:
    """Check a state, then a state that a power cut during its recovery leaves."""
    while True:
        disk = RecordingDisk(tree)
        outcome.states += 1
        problems = checked(workload, disk, path[0].at, probe=outcome.states)
        outcome.violations += [Violation(path_text(path), problem) for problem in problems]
        if problems or not disk.operations or len(path) == DEPTH_MAX:
            return
        at = random_source.randrange(len(disk.operations) + 1)
        journal = Journal(tree)
        journal.replay(disk.operations[:at])
        choices = Choices(random_source=random_source)
        tree = journal.state(choices)
        path = [*path, Step(at, tuple(choices.taken))]


def checked(workload: Workload, disk: RecordingDisk, at: int, *, probe: int) -> list[str]:
    try:
        return workload.check(disk, at, probe)
    except Exception as error:  # noqa: BLE001 whatever recovery raises is what is looked for
        return [f"recovery raised {type(error).__name__}: {error}"]


def frozen(tree: Tree) -> object:
    """Return a hashable copy of a tree."""
    return tuple((name, frozen(what) if isinstance(what, dict) else what) for name, what in sorted(tree.items()))


def replayed(workload: Workload, path: Sequence[Step]) -> tuple[Tree, list[str]]:
    """Return the state at the end of a path and its violations."""
    tree, operations = workload.start, workload.operations
    for index, step in enumerate(path):
        journal = Journal(tree)
        journal.replay(operations[: step.at])
        tree = journal.state(Choices(step.choices), free_order=step.free_order)
        if index + 1 < len(path):
            disk = RecordingDisk(tree)
            workload.check(disk, path[0].at, 0)
            operations = disk.operations
    return tree, checked(workload, RecordingDisk(tree), path[0].at, probe=0)
