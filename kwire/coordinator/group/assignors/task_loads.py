"""Load of processes and their members while tasks are assigned: how many tasks each has already received."""

from __future__ import annotations

from kwire.coordinator.group.assignors.java_order import strings_in_order
from kwire.coordinator.group.assignors.java_queue import PriorityQueue

Task = tuple[str, int]
"""Subtopology id and partition."""


class MemberLoad:
    """Tasks that a member has received."""

    __slots__ = ("active", "count", "member_id", "process", "standby")

    def __init__(self, member_id: str, process: ProcessLoad) -> None:
        self.member_id = member_id
        self.process = process
        self.count = 0
        self.active: dict[str, set[int]] = {}
        self.standby: dict[str, set[int]] = {}


class ProcessLoad:
    """Tasks that the members of one process have received. Its capacity is its number of members."""

    __slots__ = ("_least_loaded", "members", "task_count", "tasks")

    def __init__(self) -> None:
        self.members: dict[str, MemberLoad] = {}
        self.tasks: set[Task] = set()
        self.task_count = 0
        self._least_loaded: PriorityQueue[MemberLoad] | None = None
        """Members by number of tasks. Kafka keeps it until a task is assigned to a chosen member."""

    @property
    def load(self) -> float:
        """Number of tasks by capacity."""
        return self.task_count / len(self.members)

    def add_member(self, member_id: str) -> MemberLoad:
        member = self.members[member_id] = MemberLoad(member_id, self)
        return member

    def assign(self, member: MemberLoad, task: Task, *, is_active: bool) -> int:
        """Assign a task to a member, and return the member's number of tasks."""
        self._least_loaded = None
        return self._add(member, task, is_active=is_active)

    def assign_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Assign a task to the member with the fewest tasks, and return its number of tasks."""
        if len(self.members) == 1:
            return self._add(next(iter(self.members.values())), task, is_active=is_active)
        if self._least_loaded is None:
            self._least_loaded = PriorityQueue()
            for member_id in strings_in_order(self.members):
                self._least_loaded.add(self.members[member_id], self.members[member_id].count)
        member = self._least_loaded.poll()
        count = self._add(member, task, is_active=is_active)
        self._least_loaded.add(member, count)
        return count

    def _add(self, member: MemberLoad, task: Task, *, is_active: bool) -> int:
        self.task_count += 1
        self.tasks.add(task)
        subtopology, partition = task
        (member.active if is_active else member.standby).setdefault(subtopology, set()).add(partition)
        member.count += 1
        return member.count


class Quota:
    """Number of tasks that a member may have before others must get theirs; it falls as members reach it."""

    __slots__ = ("_members", "_tasks", "per_member")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = 0
        self._compute()

    def count(self, tasks: int) -> None:
        """Count a member's new number of tasks: a member that has reached the quota no longer shares the rest."""
        if tasks == self.per_member:
            self._members -= 1
            self._tasks -= tasks
            self._compute()

    def _compute(self) -> None:
        self.per_member = -(-self._tasks // self._members) if self._members else 0
