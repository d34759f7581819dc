"""Large target assignments, which a shard computes in many turns of the event loop.

The last target holds meanwhile. The group may change between two turns; the caller decides what is still valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from kwire.chunks import Pieces
from kwire.coordinator.group.modern.assignor import AssignmentInput
from kwire.coordinator.group.modern.target_assignment import Partitions
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.shard import Step, Write
from kwire.coordinator.timers import Timers

Store = Callable[[str, int, AssignmentInput, Mapping[str, Partitions]], Write[GroupRecord, None] | None]
"""Returns the change that stores a result, given group id, epoch, input and result; None if the result is outdated."""

SMALL: Final = 2_000
"""Members and partitions of an assignment that is computed within the request: about 5 ms."""


def is_large(given: AssignmentInput) -> bool:
    """Return True if an assignment takes too long for one step of the event loop."""
    return len(given.members) + sum(given.partition_counts.values()) > SMALL


class BackgroundAssignments:
    """Assignments that are being computed, at most one for each group."""

    def __init__(self, timers: Timers[Step[GroupRecord]], store: Store) -> None:
        self._timers = timers
        self._store = store
        self._running: dict[str, Pieces[dict[str, Partitions]]] = {}

    def is_running(self, group_id: str) -> bool:
        return group_id in self._running

    def begin(self, group_id: str, epoch: int, given: AssignmentInput, pieces: Pieces[dict[str, Partitions]]) -> None:
        """Compute an assignment for this epoch of the group, and store it."""
        assert group_id not in self._running, "a group has one assignment in progress"
        self._running[group_id] = pieces
        self._schedule(group_id, epoch, given)

    def _schedule(self, group_id: str, epoch: int, given: AssignmentInput) -> None:
        self._timers.schedule(("assignment", group_id), 0, partial(self._step, group_id, epoch, given))

    def _step(self, group_id: str, epoch: int, given: AssignmentInput) -> Write[GroupRecord, None] | None:
        try:
            next(self._running[group_id])
        except StopIteration as finished:
            del self._running[group_id]
            return self._store(group_id, epoch, given, finished.value)
        self._schedule(group_id, epoch, given)
        return None
