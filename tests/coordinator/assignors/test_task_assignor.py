"""Properties of the task assignor of streams groups. Equality with Kafka's is tested by compat_tests/assignors."""

from __future__ import annotations

from collections import Counter

import pytest

from kwire.chunks import at_once
from kwire.coordinator.group.assignors.java_queue import PriorityQueue
from kwire.coordinator.group.assignors.sticky_tasks import Subtasks, TaskAssignmentInput, TaskMember, assign_sticky
from kwire.coordinator.group.streams.tasks import NO_TARGET, Tasks, TaskSets
from tests.coordinator.assignors.drawn_streams_groups import TaskRound, drawn_task_rounds

SEEDS = range(150)


@pytest.fixture(scope="module")
def rounds() -> list[TaskRound]:
    return [it for seed in SEEDS for it in drawn_task_rounds(seed)]


def listed(tasks: TaskSets) -> set[tuple[str, int]]:
    return {(subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions}


def fresh(members: int, threads: int, tasks: int, replicas: int) -> TaskAssignmentInput:
    """Return a group without targets, of processes with some threads each."""
    return TaskAssignmentInput(
        members={
            f"member-{number}": TaskMember(f"process-{number // threads}", NO_TARGET) for number in range(members)
        },
        subtopologies=[Subtasks("0", tasks, is_stateful=True)],
        standby_replicas=replicas,
    )


def test_each_task_has_one_active_owner(rounds: list[TaskRound]) -> None:
    for it in rounds:
        owned = Counter(task for tasks in it.result.values() for task in listed(tasks.active))
        expected = {
            (each.subtopology, partition) for each in it.group.subtopologies for partition in range(each.task_count)
        }
        assert owned == Counter(dict.fromkeys(expected, 1))
        assert it.result.keys() == it.group.members.keys()


def test_a_process_has_a_task_once_and_no_set_is_empty(rounds: list[TaskRound]) -> None:
    for it in rounds:
        held = Counter(
            (it.group.members[member_id].process_id, task)
            for member_id, tasks in it.result.items()
            for role in (tasks.active, tasks.standby)
            for task in listed(role)
        )
        assert not held or max(held.values()) == 1
        assert all(partitions for tasks in it.result.values() for role in tasks for partitions in role.values())


def test_standby_tasks_of_stateful_subtopologies_are_as_many_as_the_processes_allow(rounds: list[TaskRound]) -> None:
    for it in rounds:
        processes = len({member.process_id for member in it.group.members.values()})
        replicas = min(it.group.standby_replicas, processes - 1)
        counts = Counter(task for tasks in it.result.values() for task in listed(tasks.standby))
        expected = {
            (each.subtopology, partition): replicas
            for each in it.group.subtopologies
            for partition in range(each.task_count)
            if each.is_stateful and replicas
        }
        assert counts == Counter(expected)


def test_a_second_run_changes_nothing_without_standby_tasks(rounds: list[TaskRound]) -> None:
    for it in rounds:
        if it.group.standby_replicas:
            continue
        members = {
            member_id: TaskMember(member.process_id, it.result[member_id])
            for member_id, member in it.group.members.items()
        }
        again = TaskAssignmentInput(members=members, subtopologies=it.group.subtopologies, standby_replicas=0)
        quota = -(-sum(each.task_count for each in it.group.subtopologies) // len(members))
        if all(len(listed(tasks.active)) <= quota for tasks in it.result.values()):
            assert at_once(assign_sticky(again)) == it.result


def test_tasks_are_spread_by_process_and_then_by_member() -> None:
    result = at_once(assign_sticky(fresh(6, 2, 12, 1)))
    assert [len(listed(tasks.active)) for tasks in result.values()] == [2] * 6
    assert sum(len(listed(tasks.standby)) for tasks in result.values()) == 12


def test_a_standby_task_becomes_active_where_its_state_is() -> None:
    group = TaskAssignmentInput(
        members={
            "a": TaskMember("p", Tasks({}, {"0": frozenset({1})})),
            "b": TaskMember("q", Tasks({"0": frozenset({0})})),
        },
        subtopologies=[Subtasks("0", 2, is_stateful=True)],
        standby_replicas=0,
    )
    result = at_once(assign_sticky(group))
    assert result == {"a": Tasks({"0": frozenset({1})}), "b": Tasks({"0": frozenset({0})})}


def test_a_group_without_members_has_no_tasks() -> None:
    assert at_once(assign_sticky(fresh(0, 1, 3, 1))) == {}


def test_work_is_in_many_steps() -> None:
    steps = [sum(1 for _ in assign_sticky(fresh(50, 2, tasks, 1))) for tasks in (10, 1000, 3000)]
    assert steps == sorted(steps)
    assert steps[-1] >= 20


def test_equal_keys_leave_the_queue_in_the_order_of_java() -> None:
    """The order is that of java.util.PriorityQueue of a JDK, for elements with these keys."""
    queue: PriorityQueue[str] = PriorityQueue()
    for name, key in zip("abcdefgh", (1, 1, 0, 1, 1, 0, 1, 1), strict=True):
        queue.add(name, key)
    assert "".join(queue.poll() for _ in range(len(queue))) == "cfgaedhb"
