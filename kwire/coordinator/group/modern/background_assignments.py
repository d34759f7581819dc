"""Large target assignments, which a shard computes in many turns of the event loop.

The last target holds meanwhile. An assignment starts from the group as it is stored: the change of the heartbeat that
asks for it may fail. The group may change between two turns, so the result is compared with it before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from kwire.chunks import Pieces
from kwire.cluster.metadata.image import TopicImage
from kwire.coordinator.group.modern.target_assignment import Partitions, TargetAssignment
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.shard import Step, Write
from kwire.coordinator.timers import Timers

SMALL: Final = 2_000
"""Members and partitions of an assignment that is computed within the request: about 5 ms."""


class ModernGroup(Protocol):
    """Consumer group or share group."""

    @property
    def group_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def target(self) -> TargetAssignment: ...

    @property
    def members(self) -> Mapping[str, Any]: ...


G = TypeVar("G", bound=ModernGroup)


def is_large(member_count: int, topics: Iterable[str], images: Mapping[str, TopicImage]) -> bool:
    """Return True if an assignment of these topics takes too long for one step of the event loop."""
    return member_count + sum(len(images[name].partitions) for name in topics if name in images) > SMALL


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Assignment in progress."""

    group: ModernGroup
    epoch: int
    """Group epoch for which it is computed."""
    member_ids: tuple[str, ...]
    pieces: Pieces[dict[str, Partitions]]

    def is_outdated(self, present: ModernGroup | None) -> bool:
        """Return True if the result does not fit the present group.

        The members of an epoch may change: a static member returns with another member id and its target, without a
        new epoch. A later epoch has its own assignment, which follows; until then the result is the newest one. It
        must cover all members that have targets, or partitions would be in two targets. (Members that have left have
        no targets any more, and new members none yet.)
        """
        group = self.group
        if present is not group or not group.target.epoch < self.epoch <= group.epoch:
            return True
        if not group.target.by_member.keys() <= set(self.member_ids):
            return True
        return group.epoch == self.epoch and group.members.keys() != set(self.member_ids)


class BackgroundAssignments(Generic[G]):
    """Assignments that are being computed, at most one for each group."""

    def __init__(
        self,
        timers: Timers[Step[GroupRecord]],
        *,
        find: Callable[[str], G | None],
        compute: Callable[[G], Pieces[dict[str, Partitions]]],
        target_records: Callable[[G, int, Iterable[str], Mapping[str, Partitions]], list[GroupRecord]],
    ) -> None:
        """Create a list without assignments.

        `find` returns a group as it is stored, `compute` computes its targets, and `target_records` returns the records
        that store those of some members for an epoch.
        """
        self._timers = timers
        self._find = find
        self._compute = compute
        self._target_records = target_records
        self._running: set[str] = set()

    def is_running(self, group_id: str) -> bool:
        return group_id in self._running

    def begin(self, group_id: str) -> None:
        """Compute and store an assignment of a group, after the present request."""
        assert group_id not in self._running, "a group has one assignment in progress"
        self._running.add(group_id)
        self._schedule(group_id, partial(self._start, group_id))

    def _schedule(self, group_id: str, step: Step[GroupRecord]) -> None:
        self._timers.schedule(("assignment", self, group_id), 0, step)

    def _start(self, group_id: str) -> None:
        self._running.remove(group_id)
        group = self._find(group_id)
        if group is None or not group.members or group.epoch <= group.target.epoch:
            return
        assignment = _Assignment(group, group.epoch, tuple(group.members), self._compute(group))
        self._running.add(group_id)  # unless the group's assignor does not exist
        self._schedule(group_id, partial(self._step, group_id, assignment))

    def _step(self, group_id: str, assignment: _Assignment) -> Write[GroupRecord, None] | None:
        try:
            next(assignment.pieces)
        except StopIteration as finished:
            self._running.discard(group_id)
            group = self._find(group_id)
            if group is None or assignment.is_outdated(group):
                return None
            # Members that have left since have no records any more; a new one gets its target with the next epoch.
            present = [member_id for member_id in assignment.member_ids if member_id in group.members]
            return Write(answer=None, records=self._target_records(group, assignment.epoch, present, finished.value))
        self._schedule(group_id, partial(self._step, group_id, assignment))
        return None
