"""Target assignments of streams groups: computed within a heartbeat, after a delay, or in steps for a large group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from kwire.chunks import Pieces, at_once
from kwire.coordinator.group.assignors.sticky_tasks import Subtasks, TaskAssignmentInput, TaskMember, assign_sticky
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.streams import records
from kwire.coordinator.group.streams.configured_topology import ConfiguredTopology
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.member_update import MemberUpdate
from kwire.coordinator.group.streams.settings import StreamsGroupSettings
from kwire.coordinator.group.streams.statuses import Status
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.group.streams.tasks import NO_TARGET, Tasks
from kwire.coordinator.group.streams.timeouts import StreamsTimeouts
from kwire.coordinator.group.streams.topology_updates import STANDBY_REPLICAS
from kwire.coordinator.group.wall_time import is_over
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import KafkaError

logger = logging.getLogger(__name__)

STORED_AT_ONCE = 100
"""Members whose targets are stored in one step: a few milliseconds."""

Change = Write[GroupRecord, None]
Assigned = Pieces[dict[str, Tasks]]
SMALL_ASSIGNMENT = 1_000
"""Members, active tasks and standby tasks of an assignment that is computed within the request: about 5 ms."""


class TaskAssignments:
    """Target assignments of one shard's streams groups."""

    def __init__(self, environment: GroupEnvironment, timeouts: StreamsTimeouts) -> None:
        self._environment = environment
        self._timeouts = timeouts
        self._in_progress: set[str] = set()
        """Groups whose large assignment is being computed."""

    def assign(self, update: MemberUpdate, configured: ConfiguredTopology, standby_replicas: int) -> tuple[int, Tasks]:
        """Compute the target assignment if it is older than the group; return its epoch, and the member's target.

        If it is delayed, or computed in the background, the last target holds, and a status says so.
        """
        group, member_id = update.group, update.after.member_id
        if group.is_empty:
            self._timeouts.delay_assignment(group.group_id, partial(self._assign_after_delay, group.group_id))
        if self._timeouts.is_assignment_delayed(group.group_id):
            self._report_delay(update, "Assignment delayed due to the configured initial rebalance delay.")
            return group.target_epoch, NO_TARGET
        last = group.target_epoch, group.target_of(member_id)
        if group.target_epoch >= update.epoch:
            return last
        if not self._is_interval_over(group):
            self._report_delay(update, "Assignment delayed due to the configured assignment interval.")
            return last
        members = {**group.members, member_id: update.after}
        computed = self._computed(group, members, configured, standby_replicas)
        if computed is None:
            self._report_delay(update, "Assignment delayed because it is still being computed.")
            return last
        update.records += self._target_records(group, update.epoch, members, computed)
        return update.epoch, computed[member_id]

    def _report_delay(self, update: MemberUpdate, detail: str) -> None:
        update.statuses.append(Status.ASSIGNMENT_DELAYED.with_detail(detail))

    def _is_interval_over(self, group: StreamsGroup) -> bool:
        """Return True if the last assignment is old enough (KIP-1263)."""
        interval_ms = self._environment.configs.of(group.group_id, StreamsGroupSettings).assignment_interval_ms
        return is_over(interval_ms, since_ms=group.target_timestamp_ms, now_ms=self._environment.clock.wall_ms())

    def _assign_after_delay(self, group_id: str) -> Change | None:
        """Assign the tasks when the delay of a group's first assignment is over."""
        group = self._environment.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty or group.epoch <= group.target_epoch:
            return None
        # After a single heartbeat the topology is not configured yet: the next heartbeat assigns the tasks.
        if group.configured is None or not self._is_interval_over(group):
            return None
        computed = self._computed(group, group.members, group.configured.topology, _standby_replicas(group))
        if computed is None:
            return None
        return Write(answer=None, records=self._target_records(group, group.epoch, group.members, computed))

    # --- computation

    def _computed(
        self,
        group: StreamsGroup,
        members: Mapping[str, StreamsMember],
        configured: ConfiguredTopology,
        standby_replicas: int,
    ) -> dict[str, Tasks] | None:
        """Return the tasks of each member, or None if they are computed in the background."""
        if not configured.is_ready:
            return dict.fromkeys(members, NO_TARGET)
        if group.group_id in self._in_progress:
            return None
        given = _assignment_input(group, members, configured, standby_replicas)
        tasks = sum(each.task_count * (1 + each.is_stateful * standby_replicas) for each in given.subtopologies)
        if len(members) + tasks <= SMALL_ASSIGNMENT:
            return at_once(assign_sticky(given))
        self._in_progress.add(group.group_id)
        self._schedule(group.group_id, partial(self._start, group.group_id))
        return None

    def _target_records(
        self, group: StreamsGroup, epoch: int, members: Mapping[str, StreamsMember], computed: Mapping[str, Tasks]
    ) -> list[GroupRecord]:
        return [*_changed_targets(group, members, computed), self._metadata_record(group, epoch)]

    def _metadata_record(self, group: StreamsGroup, epoch: int) -> GroupRecord:
        return records.target_metadata_record(group.group_id, epoch, self._environment.clock.wall_ms())

    # --- in the background

    def _schedule(self, group_id: str, step: Callable[[], Change | None]) -> None:
        self._environment.timers.schedule(("task assignment", group_id), 0, step)

    def _start(self, group_id: str) -> None:
        """Begin with the group as it is stored: the change of the heartbeat that needs the assignment may fail."""
        group = self._environment.groups.get(group_id)
        if (
            not isinstance(group, StreamsGroup)
            or group.is_empty
            or group.epoch <= group.target_epoch
            or group.configured is None
            or not group.configured.topology.is_ready
        ):
            self._in_progress.discard(group_id)
            return
        given = _assignment_input(group, group.members, group.configured.topology, _standby_replicas(group))
        steps, member_ids = assign_sticky(given), list(group.members)
        self._schedule(group_id, partial(self._step, group, group.epoch, member_ids, steps))

    def _step(self, group: StreamsGroup, epoch: int, members: Sequence[str], steps: Assigned) -> Change | None:
        try:
            next(steps)
        except StopIteration as finished:
            return self._store(group, epoch, members, finished.value)
        self._schedule(group.group_id, partial(self._step, group, epoch, members, steps))
        return None

    def _store(
        self, group: StreamsGroup, epoch: int, members: Sequence[str], computed: Mapping[str, Tasks]
    ) -> Change | None:
        """Store the targets of some members; the last step also stores the epoch, with which they take effect.

        Members that have left since have no records any more. A new one gets its target with the next epoch.
        """
        group_id = group.group_id
        present = self._environment.groups.get(group_id)
        if present is not group or not group.target_epoch < epoch <= group.epoch:
            self._in_progress.discard(group_id)
            return None
        some, rest = members[:STORED_AT_ONCE], members[STORED_AT_ONCE:]
        written = _changed_targets(group, [each for each in some if each in group.members], computed)
        if rest:
            self._schedule(group_id, partial(self._store, group, epoch, rest, computed))
        else:
            self._in_progress.remove(group_id)
            written.append(self._metadata_record(group, epoch))
            logger.info("group %s: the tasks for epoch %d are assigned", group_id, epoch)
        return Write(answer=None, records=written, outcome=partial(self._stored, group_id))

    def _stored(self, group_id: str, error: KafkaError | None) -> None:
        """Abandon an assignment that could not be stored: a later heartbeat computes it again."""
        if error is not None:
            logger.warning("group %s: its assignment is not stored: %s", group_id, error)
            self._in_progress.discard(group_id)
            self._environment.timers.cancel(("task assignment", group_id))


def _standby_replicas(group: StreamsGroup) -> int:
    """Return the number of standby replicas with which the group's epoch was bumped."""
    return int(group.assignment_configs.get(STANDBY_REPLICAS, "0"))


def _assignment_input(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    standby_replicas: int,
) -> TaskAssignmentInput:
    return TaskAssignmentInput(
        members={
            member_id: TaskMember(member.process_id, group.target_of(member_id))
            for member_id, member in members.items()
        },
        subtopologies=[
            Subtasks(subtopology_id, each.task_count, each.is_stateful)
            for subtopology_id, each in (configured.subtopologies or {}).items()
        ],
        standby_replicas=standby_replicas,
    )


def _changed_targets(group: StreamsGroup, members: Iterable[str], computed: Mapping[str, Tasks]) -> list[GroupRecord]:
    return [
        records.target_record(group.group_id, member_id, computed[member_id])
        for member_id in members
        if group.targets.get(member_id) != computed[member_id]
    ]
