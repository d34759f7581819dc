"""kwire's task assignor of streams groups computes the same assignments as Apache Kafka's own class.

No broker runs: one Java process assigns the tasks of random groups (TaskAssignors.java). GROUPS=1000 tests 1000 groups,
from seed SEED=7 on. A group has several rounds, and each starts from the targets of the round before.
"""

import os
from functools import partial

import pytest

from compat_tests.assignors.task_judging import kafkas_tasks
from compat_tests.harness.seeds import check_no_differences
from tests.coordinator.assignors.drawn_streams_groups import drawn_task_rounds

COUNT = int(os.environ.get("GROUPS", "5000"))
SHORT_COUNT = 300
FIRST_SEED = int(os.environ.get("SEED", "1"))
CHUNK = 1000


def differences(seeds, directory):
    """Yield (seed, difference) for the groups of these seeds."""
    rounds = [(seed, it) for seed in seeds for it in drawn_task_rounds(seed)]
    answers = kafkas_tasks([it.group for _, it in rounds], directory)
    for (seed, it), answer in zip(rounds, answers, strict=True):
        if isinstance(answer, str):
            yield seed, answer
            continue
        results = {member_id: (dict(tasks.active), dict(tasks.standby)) for member_id, tasks in it.result.items()}
        different = [member_id for member_id in answer if answer[member_id] != results[member_id]]
        if different:
            member_id = different[0]
            numbers = f"{len(different)} of {len(answer)} members"
            yield seed, f"{numbers}; kwire {results[member_id]}, Kafka {answer[member_id]}"


def compare(count, directory):
    check_no_differences(partial(differences, directory=directory), FIRST_SEED, count, "task assignments", chunk=CHUNK)


@pytest.mark.short
def test_a_few_task_assignments_match_kafkas(tmp_path):
    compare(SHORT_COUNT, tmp_path)


def test_task_assignments_match_kafkas(tmp_path):
    compare(COUNT, tmp_path)
