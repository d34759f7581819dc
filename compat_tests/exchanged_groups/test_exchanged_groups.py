"""A directory with live groups of all kinds goes from Apache Kafka to the tested broker and back, and the other way.

The members continue. The control is a directory that only Kafka serves: its answers and records must be the same.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from compat_tests.exchanged_groups.story import tell
from compat_tests.harness.answers import apart

ENDS = pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])


def check(control, home, kinds, *, clean):
    with ThreadPoolExecutor(1) as pool:
        wanted = pool.submit(control, clean=clean)
        answers = tell(home, kinds, clean=clean)
        expected = wanted.result()
    assert len(answers) > 100
    differences = [f"{label}{line}" for label in expected | answers for line in apart_at(label, answers, expected)]
    assert differences == []


def apart_at(label, answers, expected):
    return apart(answers.get(label), expected.get(label))


@pytest.mark.short
@ENDS
def test_from_kafka_to_the_tested_broker_and_back(control, tested, tmp_path, clean):
    check(control, tmp_path / "home", ("kafka", tested, "kafka"), clean=clean)


@ENDS
def test_from_the_tested_broker_to_kafka_and_back(control, tested, tmp_path, clean):
    check(control, tmp_path / "home", (tested, "kafka", tested), clean=clean)
