"""Task assignor of streams groups ("sticky"): the same assignments as Kafka's StickyTaskAssignor.

Active tasks:

1. A task returns to the member that has it, if the member is below its quota.
2. A task goes to a member that has it as a standby task: to the one with the least load, if below its quota.
3. The other tasks go one by one to the process with the least load, and there to the member with the fewest tasks.

Standby tasks of stateful subtopologies follow in the same way, in descending order. A process never has a task twice.
If there are too few processes, some standby tasks are not assigned.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kwire.chunks import Pieces
from kwire.coordinator.group.assignors.java_order import size_for, strings_in_order
from kwire.coordinator.group.assignors.java_queue import PriorityQueue
from kwire.coordinator.group.assignors.pace import Pace
from kwire.coordinator.group.assignors.task_loads import MemberLoad, ProcessLoad, Quota, Task
from kwire.coordinator.group.streams.tasks import Tasks

logger = logging.getLogger(__name__)

_UNITS_OF_TASK = 4
"""Units of work to assign one task."""


class TaskMember(NamedTuple):
    """Member to which tasks are assigned."""

    process_id: str
    target: Tasks
    """Present target."""


class Subtasks(NamedTuple):
    """Tasks of one subtopology."""

    subtopology: str
    task_count: int
    is_stateful: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignmentInput:
    """Group for which tasks are assigned."""

    members: Mapping[str, TaskMember]
    subtopologies: Sequence[Subtasks]
    """Subtopologies by id, ascending."""
    standby_replicas: int


def assign_sticky(given: TaskAssignmentInput) -> Pieces[dict[str, Tasks]]:
    """Return the tasks of each member; work in steps of a few milliseconds."""
    if not given.members:
        return {}
    assignment = _StickyAssignment(given)
    yield from assignment.add_members()
    yield from assignment.assign_active()
    if given.standby_replicas > 0:
        yield from assignment.assign_standby()
    return (yield from assignment.result())


class _StickyAssignment:
    """Assignment in progress."""

    def __init__(self, given: TaskAssignmentInput) -> None:
        self._given = given
        self._pace = Pace()
        self._processes: dict[str, ProcessLoad] = {}
        self._members: dict[str, MemberLoad] = {}
        self._previous_active: dict[Task, MemberLoad] = {}
        self._previous_standby: dict[Task, list[MemberLoad]] = {}
        active = sum(each.task_count for each in given.subtopologies)
        stateful = sum(each.task_count for each in given.subtopologies if each.is_stateful)
        self._active_quota = Quota(active, len(given.members))
        self._quota = Quota(active + stateful * given.standby_replicas, len(given.members))

    def add_members(self) -> Pieces[None]:
        """Add the members, and what they have, in the order of Kafka's HashMap."""
        given = self._given
        for member_id in strings_in_order(given.members):
            process_id, target = given.members[member_id].process_id, given.members[member_id].target
            process = self._processes.get(process_id)
            if process is None:
                process = self._processes[process_id] = ProcessLoad()
            member = self._members[member_id] = process.add_member(member_id)
            units = _UNITS_OF_TASK
            for subtopology, partitions in target.active.items():
                self._previous_active.update(((subtopology, partition), member) for partition in partitions)
                units += len(partitions)
            for subtopology, partitions in target.standby.items():
                for partition in partitions:
                    self._previous_standby.setdefault((subtopology, partition), []).append(member)
                units += len(partitions)
            if self._pace.is_full(units):
                yield

    # --- active tasks

    def assign_active(self) -> Pieces[None]:
        left: list[Task] = []
        for task in self._by_partition(self._given.subtopologies):
            previous = self._previous_active.get(task)
            if previous is None or not self._return_active(previous, task):
                left.append(task)
            if self._pace.is_full(_UNITS_OF_TASK):
                yield
        rest: set[Task] = set()
        for task in left:
            standby = self._previous_standby.get(task)
            if standby is None or not self._return_active(_least_loaded(standby), task):
                rest.add(task)
            if self._pace.is_full(_UNITS_OF_TASK):
                yield
        queue = self._processes_by_load()
        for each in self._given.subtopologies:
            for partition in range(each.task_count):
                if (each.subtopology, partition) in rest:
                    process = queue.poll()
                    self._count_active(process.assign_to_least_loaded((each.subtopology, partition), is_active=True))
                    queue.add(process, process.load)
                if self._pace.is_full(_UNITS_OF_TASK):
                    yield

    def _return_active(self, member: MemberLoad, task: Task) -> bool:
        """Assign an active task to a member that had it before, unless the member has reached its quota."""
        if member.count >= self._active_quota.per_member:
            return False
        self._count_active(member.process.assign(member, task, is_active=True))
        return True

    def _count_active(self, tasks: int) -> None:
        self._active_quota.count(tasks)
        self._quota.count(tasks)

    # --- standby tasks

    def assign_standby(self) -> Pieces[None]:
        replicas = self._given.standby_replicas
        stateful = [each for each in self._given.subtopologies if each.is_stateful]
        left: dict[Task, int] = {}
        for task in self._by_partition(stateful, descending=True):
            for number in range(replicas):
                if not self._return_standby(task):
                    left[task] = replicas - number
                    break
            if self._pace.is_full(_UNITS_OF_TASK):
                yield
        queue = self._processes_by_load()
        for each in reversed(stateful):
            for partition in reversed(range(each.task_count)):
                task = (each.subtopology, partition)
                wanted = left.get(task, 0)
                found = 0
                while found < wanted and self._assign_standby_to_least_loaded(queue, task):
                    found += 1
                if found < wanted:
                    logger.debug("%d of %d standby tasks of %s_%d are not assigned", wanted - found, replicas, *task)
                if self._pace.is_full(_UNITS_OF_TASK):
                    yield

    def _return_standby(self, task: Task) -> bool:
        """Assign a standby task to a member that had the task before, active or standby, if the member may have it."""
        active = self._previous_active.get(task)
        if active is not None and task not in active.process.tasks and active.count < self._quota.per_member:
            self._quota.count(active.process.assign(active, task, is_active=False))
            return True
        standby = self._previous_standby.get(task)
        if standby is None:
            return False
        member = _least_loaded_without(standby, task)
        if member is None or member.count >= self._quota.per_member:
            return False
        self._quota.count(member.process.assign(member, task, is_active=False))
        return True

    def _assign_standby_to_least_loaded(self, queue: PriorityQueue[ProcessLoad], task: Task) -> bool:
        """Assign a standby task to the process with the least load that does not have it; return False if all do."""
        polled: list[ProcessLoad] = []
        is_assigned = False
        while queue and not is_assigned:
            process = queue.poll()
            polled.append(process)
            if task not in process.tasks:
                self._quota.count(process.assign_to_least_loaded(task, is_active=False))
                is_assigned = True
        for process in reversed(polled):
            queue.add(process, process.load)
        return is_assigned

    # --- order and result

    def _processes_by_load(self) -> PriorityQueue[ProcessLoad]:
        queue: PriorityQueue[ProcessLoad] = PriorityQueue()
        for process_id in strings_in_order(self._processes, size_for(len(self._given.members))):
            queue.add(self._processes[process_id], self._processes[process_id].load)
        return queue

    @staticmethod
    def _by_partition(subtopologies: Sequence[Subtasks], *, descending: bool = False) -> Iterator[Task]:
        """Yield all tasks by partition, then by subtopology."""
        most = max((each.task_count for each in subtopologies), default=0)
        ordered = subtopologies[::-1] if descending else subtopologies
        for partition in reversed(range(most)) if descending else range(most):
            for each in ordered:
                if partition < each.task_count:
                    yield each.subtopology, partition

    def result(self) -> Pieces[dict[str, Tasks]]:
        tasks: dict[str, Tasks] = {}
        for member_id, member in self._members.items():
            tasks[member_id] = Tasks(
                {subtopology: frozenset(partitions) for subtopology, partitions in member.active.items()},
                {subtopology: frozenset(partitions) for subtopology, partitions in member.standby.items()},
            )
            if self._pace.is_full(_UNITS_OF_TASK + member.count // 8):
                yield
        return tasks


def _least_loaded(members: Sequence[MemberLoad]) -> MemberLoad:
    """Return the member of the process with the least load, if it also has fewer tasks than those before it."""
    found = members[0]
    load, count = found.process.load, found.count
    for member in members[1:]:
        if member.process.load < load and member.count < count:
            found, load, count = member, member.process.load, member.count
    return found


def _least_loaded_without(members: Sequence[MemberLoad], task: Task) -> MemberLoad | None:
    """Return a member for a standby task, as _least_loaded does, from processes that do not have the task.

    As in Kafka, there is none if the first member's process has the task.
    """
    found = members[0]
    load, count = found.process.load, found.count
    for member in members[1:]:
        if member.process.load < load and task not in member.process.tasks and member.count < count:
            found, load, count = member, member.process.load, member.count
    return None if task in members[0].process.tasks else found
