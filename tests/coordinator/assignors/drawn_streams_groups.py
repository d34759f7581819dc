"""Random streams groups for the task assignor: members, processes and subtopologies change over several rounds.

Each round starts from the targets that kwire computed in the round before. A seed always gives the same group.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple
from uuid import UUID

from kwire.chunks import at_once
from kwire.coordinator.group.assignors.sticky_tasks import Subtasks, TaskAssignmentInput, TaskMember, assign_sticky
from kwire.coordinator.group.streams.tasks import NO_TARGET, Tasks

MEMBERS_MAX = 80
TASKS_MAX = 60


class TaskRound(NamedTuple):
    """Input and result of the task assignor."""

    group: TaskAssignmentInput
    result: dict[str, Tasks]


class DrawnStreamsGroup:
    """Random group, made from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self._process_of: dict[str, str] = {}
        self._targets: dict[str, Tasks] = {}
        self._id_style = random.randrange(3)
        self._threads_max = random.choice((1, 1, 2, 4, 12))
        self._tasks_max = random.choice((1, 3, 10, TASKS_MAX))
        self._standby_replicas = random.choice((0, 0, 1, 1, 2, 4))
        self._subtopologies: dict[str, tuple[int, bool]] = {}
        self._stateful_share = random.choice((0.0, 0.5, 1.0, 1.0))
        for _ in range(random.randint(1, random.choice((1, 2, 5, 15)))):
            self._add_subtopology()
        for _ in range(random.randint(1, random.choice((1, 3, 8, 30)))):
            self._start_process()

    def rounds(self) -> Iterator[TaskRound]:
        for _ in range(self._random.randint(2, 7)):
            group = TaskAssignmentInput(
                members={
                    member_id: TaskMember(process_id, self._targets.get(member_id, NO_TARGET))
                    for member_id, process_id in self._process_of.items()
                },
                subtopologies=[
                    Subtasks(name, *self._subtopologies[name])
                    for name in sorted(self._subtopologies, key=lambda name: name.encode("utf-16-be"))
                ],
                standby_replicas=self._standby_replicas,
            )
            result = at_once(assign_sticky(group))
            yield TaskRound(group, result)
            self._targets = result
            for _ in range(self._random.choice((0, 1, 1, 2, 5))):
                self._change()

    def _change(self) -> None:
        changes = (
            self._start_process,
            self._stop_process,
            self._stop_members,
            self._add_subtopology,
            self._grow,
            self._change_replicas,
            self._scatter,
            self._move_member,
        )
        self._random.choices(changes, (5, 4, 4, 1, 2, 2, 2, 1))[0]()

    def _start_process(self) -> None:
        process_id = str(UUID(int=self._random.getrandbits(128)))
        for _ in range(self._random.randint(1, self._threads_max)):
            if len(self._process_of) < MEMBERS_MAX:
                self._process_of[self._draw_id()] = process_id

    def _stop_process(self) -> None:
        stopped = self._random.choice(list(self._process_of.values()))
        self._keep([each for each in self._process_of if self._process_of[each] != stopped])

    def _stop_members(self) -> None:
        left = self._random.randint(1, len(self._process_of))
        self._keep(
            [each for each in self._process_of if each in set(self._random.sample(list(self._process_of), left))]
        )

    def _keep(self, members: list[str]) -> None:
        """Keep some members; at least one stays."""
        kept = members or list(self._process_of)[:1]
        self._process_of = {each: self._process_of[each] for each in kept}
        self._targets = {each: self._targets[each] for each in kept if each in self._targets}

    def _move_member(self) -> None:
        """Let a member belong to the process of another one."""
        members = list(self._process_of)
        self._process_of[self._random.choice(members)] = self._process_of[self._random.choice(members)]

    def _add_subtopology(self) -> None:
        name = self._random.choice((str(len(self._subtopologies)), f"é{self._random.random()}", "\U0001f600", "\uffff"))
        is_stateful = self._random.random() < self._stateful_share
        self._subtopologies[name] = (self._random.randint(1, self._tasks_max), is_stateful)

    def _grow(self) -> None:
        name = self._random.choice(list(self._subtopologies))
        count, is_stateful = self._subtopologies[name]
        self._subtopologies[name] = (max(count + self._random.randint(-3, 8), 1), is_stateful)

    def _change_replicas(self) -> None:
        self._standby_replicas = self._random.randrange(4)

    def _scatter(self) -> None:
        """Replace the targets by random ones, in which several members may even have the same task."""
        members, random = list(self._process_of), self._random
        active: dict[str, dict[str, set[int]]] = {each: {} for each in members}
        standby: dict[str, dict[str, set[int]]] = {each: {} for each in members}
        some = members[: random.randint(1, len(members))]
        for name, (count, _) in self._subtopologies.items():
            for partition in range(count):
                active[random.choice(some)].setdefault(name, set()).add(partition)
                for _ in range(random.randrange(4)):
                    standby[random.choice(some)].setdefault(name, set()).add(partition)
        self._targets = {
            each: Tasks(
                {name: frozenset(numbers) for name, numbers in active[each].items()},
                {name: frozenset(numbers) for name, numbers in standby[each].items()},
            )
            for each in members
        }

    def _draw_id(self) -> str:
        random = self._random
        if self._id_style == 0:
            return "".join(random.choices(("Aa", "BB", "é", "\U0001f600", "\ufffd", "x"), k=12))  # equal hash codes
        return str(UUID(int=random.getrandbits(128)))


def drawn_task_rounds(seed: int) -> Iterator[TaskRound]:
    """Yield the rounds of one group."""
    yield from DrawnStreamsGroup(seed).rounds()
