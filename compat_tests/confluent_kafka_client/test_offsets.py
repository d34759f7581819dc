"""Seeks and offset lookups: inside batches, by timestamp, at both ends, by isolation level."""

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from compat_tests.confluent_kafka_client.client import (
    admin,
    as_record,
    consumer,
    create_topic,
    offsets_of,
    producer,
    read_from,
    result,
    send_all,
)
from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS, TIMESTAMP_STEP_MS, numbered

RECORDS = numbered(60)


@pytest.fixture
def filled(bootstrap, topic):
    """Fill one partition with 60 records in three batches."""
    create_topic(bootstrap, topic)
    client = producer(bootstrap, linger_ms=100, compression_type="lz4")
    for start in (0, 20, 40):
        offsets_of(send_all(client, topic, RECORDS[start : start + 20]))
    return topic


@pytest.mark.short
@pytest.mark.parametrize("offset", [0, 1, 19, 20, 33, 59])
def test_reading_starts_exactly_at_the_offset_sought_inside_a_batch(bootstrap, filled, offset):
    received = read_from(bootstrap, filled, 60 - offset, offset=offset)
    assert [as_record(each) for each in received] == RECORDS[offset:]
    assert received[0].offset() == offset


@pytest.mark.short
@pytest.mark.parametrize(
    ("after_ms", "expected"),
    [(-100_000, 0), (0, 0), (1, 1), (10, 1), (255, 26), (590, 59), (591, -1)],
)
def test_offsets_are_found_by_timestamp(bootstrap, filled, after_ms, expected):
    with consumer(bootstrap) as client:
        (found,) = client.offsets_for_times([TopicPartition(filled, 0, FIRST_TIMESTAMP_MS + after_ms)], timeout=10)
    assert found.offset == expected


@pytest.mark.parametrize("isolation", [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED])
@pytest.mark.parametrize(
    ("spec", "offset", "timestamp"),
    [
        (OffsetSpec.earliest(), 0, -1),
        (OffsetSpec.latest(), 60, -1),
        (OffsetSpec.max_timestamp(), 59, FIRST_TIMESTAMP_MS + 59 * TIMESTAMP_STEP_MS),
        (OffsetSpec.for_timestamp(FIRST_TIMESTAMP_MS + 255), 26, FIRST_TIMESTAMP_MS + 260),
    ],
)
def test_every_special_offset_is_answered(bootstrap, filled, spec, offset, timestamp, isolation):
    client = admin(bootstrap)  # the admin client must exist until the response comes
    found = result(client.list_offsets({TopicPartition(filled, 0): spec}, isolation_level=isolation))
    assert (found.offset, found.timestamp, found.leader_epoch) == (offset, timestamp, 0)


def test_an_offset_out_of_range_follows_the_reset_policy(bootstrap, filled):
    received = read_from(bootstrap, filled, 60, offset=10_000, auto_offset_reset="earliest")
    assert [each.offset() for each in received] == list(range(60))


def test_small_fetches_go_through_the_log_without_loss(bootstrap, filled):
    received = read_from(bootstrap, filled, 60, max_partition_fetch_bytes=100, fetch_message_max_bytes=100)
    assert [as_record(each) for each in received] == RECORDS


def test_a_read_committed_reader_sees_ordinary_records(bootstrap, filled):
    received = read_from(bootstrap, filled, 60, isolation_level="read_committed")
    assert [as_record(each) for each in received] == RECORDS
