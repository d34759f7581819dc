"""What a request held goes when it is answered: nothing of size waits for the collection of reference cycles.

`kwire server` has collections seldom, and an exception, or a future with its callbacks, is soon part of a cycle.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.server.apis.fetch import PARTITIONS_AT_ONCE
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

RECORD_BYTES = 800_000
GARBAGE_BYTES_MAX = 50_000


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def cyclic_garbage_bytes(broker: RunningBroker) -> int:
    """Return the size of all bytes that only reference cycles hold."""
    broker.call(lambda: None)  # the turn in which the answer was written is over
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    held = {id(each): len(each) for each in gc.get_referents(*gc.garbage) if isinstance(each, bytes | bytearray)}
    return sum(held.values())


def waiting_fetch(client: RawClient, topic: str, partitions: int) -> FetchRequest:
    asked = [FetchPartition(partition=index, partition_max_bytes=2 * RECORD_BYTES) for index in range(partitions)]
    return FetchRequest(
        max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 30, topics=[FetchTopic(topic=topic, partitions=asked)]
    )


@pytest.mark.parametrize("partitions", [1, PARTITIONS_AT_ONCE + 10])
def test_a_fetch_that_has_waited(
    broker: RunningBroker, client: RawClient, partitions: int, no_collections: None
) -> None:
    topic, _ = create_topic(client, partitions)
    partition = broker.call(lambda: broker.server.services.partitions.find(topic, 0))
    with broker.client() as consumer:
        request = waiting_fetch(consumer, topic, partitions)
        consumer.send_bytes(consumer.frame(request, 12))
        eventually(lambda: broker.call(lambda: len(partition._waiters)) > 0, "the fetch waits")
        produce(client, topic, batch(bytes(RECORD_BYTES)))
        answer = consumer.receive(request, 12).responses[0].partitions[0]
        assert len(answer.records) > RECORD_BYTES
        del answer
    assert cyclic_garbage_bytes(broker) < GARBAGE_BYTES_MAX


def refused(client: RawClient, topic: str) -> None:
    without_key = batch(bytes(8 * RECORD_BYTES), key=None, codec=Codec.ZSTD)
    assert produce(client, topic, without_key).error_code == ErrorCode.INVALID_RECORD


def stored(client: RawClient, topic: str) -> None:
    assert produce(client, topic, batch(bytes(8 * RECORD_BYTES), codec=Codec.ZSTD)).error_code == 0


@pytest.mark.parametrize("send", [refused, stored])
def test_a_batch_that_was_looked_into(
    broker: RunningBroker, client: RawClient, send: Callable[[RawClient, str], None], no_collections: None
) -> None:
    topic, _ = create_topic(client, cleanup_policy="compact")
    send(client, topic)
    assert cyclic_garbage_bytes(broker) < GARBAGE_BYTES_MAX
