"""Seeks and offset lookups: inside batches, by timestamp, at both ends."""

import pytest
from kafka import TopicPartition
from kafka.admin import OffsetSpec
from kafka.structs import OffsetAndTimestamp

from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS, TIMESTAMP_STEP_MS, numbered
from compat_tests.kafka_python.client import admin, as_record, consumer, create_topic, producer, read_from, send_all

RECORDS = numbered(60)


@pytest.fixture
def filled(bootstrap, topic):
    """Fill one partition with 60 records in three batches."""
    create_topic(bootstrap, topic)
    with producer(bootstrap, linger_ms=200, batch_size=100_000, compression_type="gzip") as client:
        for start in (0, 20, 40):
            send_all(client, topic, RECORDS[start : start + 20])
    return topic


@pytest.mark.short
@pytest.mark.parametrize("offset", [0, 1, 19, 20, 33, 59])
def test_reading_starts_exactly_at_the_offset_sought_inside_a_batch(bootstrap, filled, offset):
    received = read_from(bootstrap, filled, 60 - offset, offset=offset)
    assert [as_record(each) for each in received] == RECORDS[offset:]
    assert received[0].offset == offset


def test_both_ends_of_the_log_are_known(bootstrap, filled):
    where = TopicPartition(filled, 0)
    with consumer(bootstrap) as client:
        assert client.beginning_offsets([where]) == {where: 0}
        assert client.end_offsets([where]) == {where: 60}


@pytest.mark.short
@pytest.mark.parametrize(
    ("after_ms", "expected"),
    [(-100_000, 0), (0, 0), (1, 1), (10, 1), (255, 26), (590, 59), (591, None)],
)
def test_offsets_are_found_by_timestamp(bootstrap, filled, after_ms, expected):
    where = TopicPartition(filled, 0)
    with consumer(bootstrap) as client:
        found = client.offsets_for_times({where: FIRST_TIMESTAMP_MS + after_ms})[where]
    if expected is None:
        assert found is None
    else:
        assert (found.offset, found.timestamp) == (expected, FIRST_TIMESTAMP_MS + expected * TIMESTAMP_STEP_MS)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (OffsetSpec.EARLIEST, OffsetAndTimestamp(0, -1, 0)),
        (OffsetSpec.LATEST, OffsetAndTimestamp(60, -1, 0)),
        (OffsetSpec.MAX_TIMESTAMP, OffsetAndTimestamp(59, FIRST_TIMESTAMP_MS + 590, 0)),
        (OffsetSpec.EARLIEST_LOCAL, OffsetAndTimestamp(0, -1, 0)),
        (OffsetSpec.LATEST_TIERED, OffsetAndTimestamp(-1, -1, None)),
    ],
)
def test_every_special_offset_is_answered(bootstrap, filled, spec, expected):
    where = TopicPartition(filled, 0)
    with admin(bootstrap) as client:
        assert client.list_partition_offsets({where: spec}) == {where: expected}


def test_an_offset_out_of_range_follows_the_reset_policy(bootstrap, filled):
    received = read_from(bootstrap, filled, 60, offset=10_000, auto_offset_reset="earliest")
    assert [each.offset for each in received] == list(range(60))


def test_small_fetches_go_through_the_log_without_loss(bootstrap, filled):
    received = read_from(bootstrap, filled, 60, max_partition_fetch_bytes=100, fetch_max_bytes=200, max_poll_records=7)
    assert [as_record(each) for each in received] == RECORDS
