"""Pitfall 2: a fetch from an offset inside a batch returns the whole batch; otherwise the consumer hangs."""

import pytest

from compat_tests.raw.peer import batch_of, offsets_in
from kwire.protocol.error_codes import ErrorCode


@pytest.fixture
def filled(peer, topic):
    topic_id = peer.create_topic(topic)
    for start in (0, 10, 20):
        assert peer.produce(topic, batch_of(10, start)).error_code == 0
    return topic, topic_id


@pytest.mark.short
@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_returns_the_whole_batch(peer, filled, version):
    topic, topic_id = filled
    for offset in (0, 5, 9, 10, 17, 29):
        answer = peer.fetch(topic, offset, topic_id=topic_id, version=version)
        assert (answer.error_code, answer.high_watermark) == (0, 30)
        assert offsets_in(answer.records) == list(range(offset // 10 * 10, 30))


def test_the_first_batch_comes_whole_even_above_the_byte_limits(peer, filled):
    topic, _ = filled
    answer = peer.fetch(topic, 15, partition_max_bytes=1, max_bytes=1)
    assert offsets_in(answer.records) == list(range(10, 20))


def test_a_fetch_at_the_end_waits_and_returns_nothing(peer, filled):
    topic, _ = filled
    answer = peer.fetch(topic, 30)
    assert (answer.error_code, answer.high_watermark, bytes(answer.records or b"")) == (0, 30, b"")


@pytest.mark.parametrize("offset", [31, 10_000, -5])
def test_a_fetch_outside_the_log_returns_offset_out_of_range(peer, filled, offset):
    topic, _ = filled
    answer = peer.fetch(topic, offset)
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_of_an_unknown_partition_returns_an_error(peer, topic):
    assert peer.fetch(topic, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
