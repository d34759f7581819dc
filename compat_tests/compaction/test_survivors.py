"""Compaction of the same segments keeps the same records on both brokers."""

import pytest

from compat_tests.compaction.log_in_hand import SEGMENT_BYTES, LogInHand
from compat_tests.harness.waiting import eventually

SECONDS = 60
BATCHES = 170

CONFIGS = {
    "cleanup_policy": "compact",
    "segment_bytes": SEGMENT_BYTES,
    "min_cleanable_dirty_ratio": 0.01,
}


def logs_of(each, topic, **configs):
    logs = [LogInHand(one, topic) for one in each]
    for log in logs:
        log.peer.create_topic(topic, **(CONFIGS | configs))
    return logs


def fill(logs, seed, *, producers=False):
    for log in logs:
        log.fill(seed, BATCHES, log.new_producer_id() if producers else -1)


def survivors(logs, is_done=lambda found: True):
    """Wait until each log is fully compacted; return the remaining records of each."""
    results = []
    for log in logs:
        found = []

        def compacted(log=log, found=found):
            found[:] = log.read()
            return log.is_compacted(found) and is_done(found)

        eventually(compacted, f"the compaction of {log.topic}", SECONDS)
        results.append(found)
    return results


def assert_same(results):
    for found in results[1:]:
        assert [record[:2] for record in found] == [record[:2] for record in results[0]]
        assert found == results[0]


@pytest.mark.parametrize("producers", [False, True], ids=["plain", "idempotent"])
def test_the_last_value_of_each_key_survives_and_tombstones_stay(each, topic, producers):
    logs = logs_of(each, topic)
    fill(logs, 1, producers=producers)
    results = survivors(logs)
    assert_same(results)
    closed = logs[0].surely_closed
    assert any(offset < closed and value is None for offset, _, value, *_ in results[0])


def test_a_second_round_builds_on_the_first(each, topic):
    logs = logs_of(each, topic)
    fill(logs, 2)
    first = survivors(logs)
    fill(logs, 3)
    second = survivors(logs)
    assert_same(second)
    assert {record[0] for record in second[0] if record[0] < logs[0].sizes[BATCHES][0]} < {
        record[0] for record in first[0]
    }


def test_tombstones_go_when_their_time_is_over(each, topic):
    logs = logs_of(each, topic, delete_retention_ms=0)
    fill(logs, 4)
    survivors(logs)
    fill(logs, 5)
    boundary = logs[0].sizes[BATCHES][0]

    def no_old_tombstones(found):
        return not any(offset < boundary and value is None for offset, _, value, *_ in found)

    results = survivors(logs, no_old_tombstones)
    assert_same([[record for record in found if record[0] < boundary] for found in results])


def test_compact_and_delete_together_take_old_segments_too(each, topic):
    logs = logs_of(each, topic, cleanup_policy="compact,delete", retention_ms=-1)
    fill(logs, 6)
    assert_same(survivors(logs))
