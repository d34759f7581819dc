"""kwire's assignors compute the same target assignments as Apache Kafka's own classes.

No broker runs: one Java process computes the assignments of random groups (Assignors.java). GROUPS=1000 tests 1000
groups, from seed SEED=7 on. A group has several rounds, and each starts from the targets of the round before.
"""

import os
from functools import partial

import pytest

from compat_tests.assignors.judging import kafkas_assignments
from compat_tests.harness.seeds import check_no_differences
from tests.coordinator.assignors.drawn_groups import drawn_rounds

COUNT = int(os.environ.get("GROUPS", "5000"))
SHORT_COUNT = 300
FIRST_SEED = int(os.environ.get("SEED", "1"))
CHUNK = 1000
FILLED_EARLY = "failed: java.util.NoSuchElementException"
"""Kafka's error if members of a share group hold partitions that may no longer be assigned."""


def differences(seeds, directory):
    """Yield (seed, difference) for the groups of these seeds."""
    rounds = [(seed, it) for seed in seeds for it in drawn_rounds(seed)]
    answers = kafkas_assignments([it for _, it in rounds], directory)
    for (seed, it), answer in zip(rounds, answers, strict=True):
        if isinstance(answer, str):
            if answer != FILLED_EARLY or it.group.assignable is None:
                yield seed, answer
        elif it.name == "simple" and not it.group.is_homogeneous:
            yield from compared(seed, it, {member_id: subscribed(it, parts) for member_id, parts in answer.items()})
        else:
            yield from compared(seed, it, answer)


def subscribed(it, partitions):
    """Return the partitions without topics to which no member subscribes: kwire does not keep them."""
    topic_ids = {topic_id for member in it.group.members.values() for topic_id in member.topic_ids}
    return {topic_id: numbers for topic_id, numbers in partitions.items() if topic_id in topic_ids}


def compared(seed, it, answer):
    different = [member_id for member_id, partitions in answer.items() if it.result[member_id] != partitions]
    if different:
        member_id = different[0]
        kind = f"{it.name} {'homogeneous' if it.group.is_homogeneous else 'heterogeneous'}"
        numbers = f"{len(different)} of {len(answer)} members"
        yield seed, f"{kind}, {numbers}; kwire {it.result[member_id]}, Kafka {answer[member_id]}"


def compare(count, directory):
    check_no_differences(partial(differences, directory=directory), FIRST_SEED, count, "assignments", chunk=CHUNK)


@pytest.mark.short
def test_a_few_assignments_match_kafkas(tmp_path):
    compare(SHORT_COUNT, tmp_path)


def test_assignments_match_kafkas(tmp_path):
    compare(COUNT, tmp_path)
