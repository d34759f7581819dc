"""Tasks of streams groups (KIP-1071): sets of tasks by role.

A task is one partition of a subtopology, and is named by the subtopology's id and the partition. A member processes the
records of its active tasks. Standby tasks only copy the state of an active task; warm-up tasks do so before they become
active.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

TaskSets = Mapping[str, AbstractSet[int]]
"""Partitions by subtopology id. No inner set is empty."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""Partitions by subtopology id, each with the member epoch at which it was assigned. No inner mapping is empty."""

NO_TASKS: TaskSets = MappingProxyType({})
NO_TASK_EPOCHS: TaskEpochs = MappingProxyType({})
_NO_PARTITIONS: frozenset[int] = frozenset()


class Tasks(NamedTuple):
    """Tasks by role: a target, or what a client reports to own."""

    active: TaskSets = NO_TASKS
    standby: TaskSets = NO_TASKS
    warmup: TaskSets = NO_TASKS

    def overlaps(self, other: AssignedTasks) -> bool:
        """Return True if a task has the same role in both."""
        return (
            _overlap(self.active, other.active)
            or _overlap(self.standby, other.standby)
            or _overlap(self.warmup, other.warmup)
        )

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class AssignedTasks(NamedTuple):
    """Tasks by role that a member has, or must still revoke; active ones with the epoch of their assignment."""

    active: TaskEpochs = NO_TASK_EPOCHS
    standby: TaskSets = NO_TASKS
    warmup: TaskSets = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def total(self) -> int:
        """Return the number of tasks."""
        return sum(len(partitions) for role in self for partitions in role.values())


NO_TARGET = Tasks()
NOTHING_ASSIGNED = AssignedTasks()


def _overlap(some: TaskSets, others: TaskSets | TaskEpochs) -> bool:
    return any(
        partition in others.get(subtopology, _NO_PARTITIONS)
        for subtopology, partitions in some.items()
        for partition in partitions
    )
