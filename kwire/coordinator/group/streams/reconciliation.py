"""Reconciliation of a streams group's member: the next step from its tasks to the target assignment (KIP-1071).

A member first revokes what it must give up, and then moves to the target's epoch. It receives an active task when no
other process has it any more, and when its own process does not have the task in another role. So an active task never
has two owners, and the two roles never share a state directory.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.coordinator.group.streams.member import MemberState, StreamsMember
from kwire.coordinator.group.streams.task_processes import TaskProcesses
from kwire.coordinator.group.streams.tasks import NOTHING_ASSIGNED, AssignedTasks, Tasks, TaskSets
from kwire.protocol.error_codes import ErrorCode, KafkaError

NO_SET: frozenset[int] = frozenset()
IsOccupied = Callable[[str, int], bool]


class Reconciliation:
    """Next step of one member towards a target assignment."""

    def __init__(
        self,
        member: StreamsMember,
        *,
        target_epoch: int,
        target: Tasks,
        processes: TaskProcesses,
        owned: Tasks | None,
    ) -> None:
        """Create the step; `owned` are the tasks that the client reports, None if it does not report them."""
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._processes = processes
        self._owned = owned

    def next_member(self) -> StreamsMember:
        """Return the member's next state, which may be the current one.

        Raises FENCED_MEMBER_EPOCH for a member in a state of a newer version that still owns tasks.
        """
        member, owned = self._member, self._owned
        if member.state is MemberState.STABLE:
            return member if member.member_epoch == self._target_epoch else self._next_assignment(member.member_epoch)
        if member.state is MemberState.UNREVOKED_TASKS:
            if owned is None or owned.overlaps(member.pending_revocation):
                return member
            return self._next_assignment(member.member_epoch + 1)
        if member.state is MemberState.UNRELEASED_TASKS:
            return self._next_assignment(member.member_epoch)
        if owned is None or not owned.is_empty:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
            )
        return self._next_assignment(self._target_epoch)

    def _next_assignment(self, member_epoch: int) -> StreamsMember:
        """Return the member after revocation, or else with those of its target's tasks that are free."""
        member, target, assigned = self._member, self._target, self._member.assigned
        active = _ActiveDifference(assigned, target, self._is_active_occupied)
        standby = _Difference(assigned.standby, target.standby, self._is_copy_occupied)
        warmup = _Difference(assigned.warmup, target.warmup, self._is_copy_occupied)
        revoked = AssignedTasks(active.revoked, standby.revoked, warmup.revoked)
        if not revoked.is_empty and (self._owned is None or self._owned.overlaps(revoked)):
            kept = AssignedTasks(active.kept, standby.kept, warmup.kept)
            return member.with_assignment(member_epoch, kept, revoked, MemberState.UNREVOKED_TASKS)
        received = AssignedTasks(
            active.with_added(self._target_epoch),
            _merged(standby.kept, standby.added),
            _merged(warmup.kept, warmup.added),
        )
        is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
        state = MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE
        return member.with_assignment(self._target_epoch, received, NOTHING_ASSIGNED, state)

    def _is_active_occupied(self, subtopology: str, partition: int) -> bool:
        """Return True if a process has the active task, or this process has it in another role."""
        return self._processes.active_owner(subtopology, partition) is not None or self._processes.copies_state(
            subtopology, partition, self._member.process_id
        )

    def _is_copy_occupied(self, subtopology: str, partition: int) -> bool:
        """Return True if this process has the task in any role."""
        process_id = self._member.process_id
        return self._processes.active_owner(subtopology, partition) == process_id or self._processes.copies_state(
            subtopology, partition, process_id
        )


class _Difference:
    """Difference between the tasks of a role that a member has and those of its target."""

    def __init__(self, current: TaskSets, target: TaskSets, is_occupied: IsOccupied) -> None:
        self.kept: dict[str, frozenset[int]] = {}
        self.revoked: dict[str, frozenset[int]] = {}
        self.added: dict[str, frozenset[int]] = {}
        """Tasks that are free."""
        self.is_waiting = False
        """True if a task of the target is not free."""
        for subtopology in sorted(current.keys() | target.keys()):
            has, wants = frozenset(current.get(subtopology, NO_SET)), frozenset(target.get(subtopology, NO_SET))
            free = frozenset(partition for partition in wants - has if not is_occupied(subtopology, partition))
            self.is_waiting = self.is_waiting or len(free) < len(wants - has)
            for found, partitions in ((self.kept, has & wants), (self.revoked, has - wants), (self.added, free)):
                if partitions:
                    found[subtopology] = partitions


class _ActiveDifference:
    """Difference between the active tasks that a member has and those of its target, with epochs."""

    def __init__(self, assigned: AssignedTasks, target: Tasks, is_occupied: IsOccupied) -> None:
        current = assigned.active
        sets = _Difference({each: frozenset(current[each]) for each in current}, target.active, is_occupied)
        self.kept = {each: {index: current[each][index] for index in sets.kept[each]} for each in sets.kept}
        self.revoked = {each: {index: current[each][index] for index in sets.revoked[each]} for each in sets.revoked}
        self.is_waiting = sets.is_waiting
        self._added = sets.added

    def with_added(self, epoch: int) -> dict[str, dict[int, int]]:
        """Return the tasks that stay, and those that are added at an epoch."""
        merged = {each: dict(epochs) for each, epochs in self.kept.items()}
        for subtopology, partitions in self._added.items():
            merged.setdefault(subtopology, {}).update(dict.fromkeys(partitions, epoch))
        return merged


def _merged(some: TaskSets, others: TaskSets) -> dict[str, frozenset[int]]:
    return {
        subtopology: frozenset(some.get(subtopology, NO_SET) | others.get(subtopology, NO_SET))
        for subtopology in (*some, *(each for each in others if each not in some))
    }
