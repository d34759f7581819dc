"""kcat's start offsets, and its offset queries by timestamp."""

import pytest

from compat_tests.confluent_kafka_client.client import create_topic, offsets_of, producer, send_all
from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS, numbered
from compat_tests.kcat.tool import consume, kcat

RECORDS = numbered(60)


@pytest.fixture
def filled(bootstrap, topic):
    """Fill one partition with 60 records in three batches."""
    create_topic(bootstrap, topic)
    client = producer(bootstrap, linger_ms=100, compression_type="zstd")
    for start in (0, 20, 40):
        offsets_of(send_all(client, topic, RECORDS[start : start + 20]))
    return topic


@pytest.mark.short
@pytest.mark.parametrize("offset", [0, 1, 19, 20, 33, 59])
def test_reading_starts_exactly_at_the_offset_sought_inside_a_batch(bootstrap, filled, offset):
    received = consume(bootstrap, filled, offset=offset)
    assert [(each.offset, each.record) for each in received] == list(enumerate(RECORDS))[offset:]


def test_reading_starts_relative_to_the_end(bootstrap, filled):
    assert [each.offset for each in consume(bootstrap, filled, offset=-5)] == [55, 56, 57, 58, 59]
    assert consume(bootstrap, filled, offset="end") == []


def test_reading_goes_from_one_timestamp_to_another(bootstrap, filled):
    until = f"e@{FIRST_TIMESTAMP_MS + 200}"
    received = consume(bootstrap, filled, "-o", until, offset=f"s@{FIRST_TIMESTAMP_MS + 95}")
    assert [each.offset for each in received] == list(range(10, 20))


@pytest.mark.short
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (FIRST_TIMESTAMP_MS - 100_000, 0),
        (FIRST_TIMESTAMP_MS, 0),
        (FIRST_TIMESTAMP_MS + 255, 26),
        (FIRST_TIMESTAMP_MS + 591, -1),
        (-1, 60),
        (-2, 0),
    ],
)
def test_offsets_are_found_by_timestamp(bootstrap, filled, timestamp, expected):
    found = kcat(bootstrap, "-Q", "-t", f"{filled}:0:{timestamp}").stdout.decode()
    assert found == f"{filled} [0] offset {expected}\n"


def test_an_offset_out_of_range_follows_the_reset_policy(bootstrap, filled):
    received = consume(bootstrap, filled, "-X", "topic.auto.offset.reset=earliest", offset=10_000)
    assert [each.offset for each in received] == list(range(60))


def test_small_fetches_go_through_the_log_without_loss(bootstrap, filled):
    received = consume(bootstrap, filled, "-X", "fetch.message.max.bytes=100", "-X", "fetch.max.bytes=1000000")
    assert [each.record for each in received] == RECORDS
