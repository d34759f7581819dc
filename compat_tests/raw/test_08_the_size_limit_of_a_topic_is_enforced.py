"""Pitfall 8: a batch above max.message.bytes gets MESSAGE_TOO_LARGE, and nothing of it is stored."""

import pytest

from compat_tests.raw.peer import batch_of
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode


@pytest.mark.short
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_limit_is_on_the_batch_as_it_is_stored(peer, topic, codec):
    batch = batch_of(50, codec=codec)
    peer.create_topic(topic, max_message_bytes=len(batch))
    assert peer.produce(topic, batch).error_code == 0
    rejected = peer.produce(topic, batch_of(300, codec=codec))
    assert (rejected.error_code, rejected.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert peer.produce(topic, batch).base_offset == 50


def test_a_batch_one_byte_above_the_limit_is_rejected(peer, topic):
    batch = batch_of(50)
    peer.create_topic(topic, max_message_bytes=len(batch) - 1)
    assert peer.produce(topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert peer.fetch(topic, 0).high_watermark == 0
