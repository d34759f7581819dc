"""Produce of large compressed batches that the topic must look into: a worker opens them, and nothing else changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from kwire.log.batch_opening import DECOMPRESSED_BYTES_LEAST
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.records import Record, encode_batch, iterate_headers
from kwire.seams import ThreadWorkers
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic, fetch, produce, produce_request, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

T = TypeVar("T")
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


class CountingWorkers:
    """Threads whose calls are counted, and held while the gate is shut."""

    def __init__(self) -> None:
        self._workers = ThreadWorkers()
        self.gate: asyncio.Event | None = None
        self.calls: list[str] = []

    async def run(self, call: Callable[[], T]) -> T:
        self.calls.append(getattr(getattr(call, "func", call), "__name__", ""))
        if self.gate is not None and self.calls[-1] == "open_ahead":
            await self.gate.wait()
        return await self._workers.run(call)

    def close(self) -> None:
        self._workers.close()

    def shut(self) -> None:
        self.gate = asyncio.Event()

    def release(self) -> None:
        assert self.gate is not None
        self.gate.set()

    @property
    def opened(self) -> int:
        return self.calls.count("open_ahead")


@pytest.fixture
def workers() -> CountingWorkers:
    return CountingWorkers()


@pytest.fixture
def broker(data_dir: Path, workers: CountingWorkers) -> Iterator[RunningBroker]:
    with RunningBroker(data_dir, workers=workers) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[RawClient]:
    with broker.client() as connected:
        yield connected


def packed(codec: Codec, *values: bytes, key: bytes | None = b"k", noise: int = 10_000) -> bytes:
    """A batch that is large also when it is compressed."""
    chance = random.Random(7).randbytes(noise)
    records = [Record(key=key, value=value, timestamp=1) for value in values]
    return bytes(encode_batch([*records, Record(key=b"noise", value=chance, timestamp=1)], codec=codec))


def batch_of(value: bytes) -> bytes:
    return bytes(encode_batch([Record(key=b"k", value=value, timestamp=1)]))


@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_has_large_batches_opened_by_a_worker(
    client: RawClient, workers: CountingWorkers, codec: Codec
) -> None:
    topic, _ = create_topic(client, cleanup_policy="compact")
    batch = packed(codec, b"a", noise=100_000)
    answer = produce(client, topic, batch)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert workers.opened == 1
    assert values_in(fetch(client, topic).records)[0] == b"a"


@pytest.mark.parametrize("target", ["gzip", "zstd", "uncompressed"])
def test_another_codec_is_packed_by_a_worker(client: RawClient, workers: CountingWorkers, target: str) -> None:
    topic, _ = create_topic(client, compression_type=target)
    assert produce(client, topic, packed(Codec.LZ4, b"a", b"b", noise=100_000)).error_code == 0
    assert workers.opened == 1
    records = fetch(client, topic).records
    assert values_in(records)[:2] == [b"a", b"b"]
    (header,) = [header for _, header in iterate_headers(records)]
    assert header.codec.name.lower() == {"uncompressed": "none"}.get(target, target)


def test_small_batches_and_those_that_need_no_codec_wait_for_nobody(
    client: RawClient, workers: CountingWorkers
) -> None:
    compacted, _ = create_topic(client, cleanup_policy="compact")
    plain, _ = create_topic(client)
    assert produce(client, compacted, packed(Codec.LZ4, b"a", noise=10)).error_code == 0
    assert produce(client, compacted, packed(Codec.NONE, b"a", noise=100_000)).error_code == 0
    assert produce(client, plain, packed(Codec.LZ4, b"a", noise=100_000)).error_code == 0
    assert workers.opened == 0


def test_later_requests_of_the_connection_come_after(
    client: RawClient, broker: RunningBroker, workers: CountingWorkers
) -> None:
    topic, _ = create_topic(client, cleanup_policy="compact")
    broker.call(workers.shut)
    large = produce_request(topic, packed(Codec.SNAPPY, b"first", noise=100_000))
    small = produce_request(topic, batch_of(b"second"))
    client.send_bytes(client.frame(large, 11) + client.frame(small, 11))
    eventually(lambda: workers.opened == 1, "the worker has the batch")
    with broker.client() as other:
        assert produce(other, topic, batch_of(b"of another")).base_offset == 0
    broker.call(workers.release)
    first = client.receive(large, 11, correlation_id=client.correlation_id - 1)
    assert first.responses[0].partition_responses[0].base_offset == 1
    assert client.receive(small, 11).responses[0].partition_responses[0].base_offset == 3
    assert values_in(fetch(client, topic).records)[:2] == [b"of another", b"first"]


def test_a_topic_that_goes_meanwhile_is_unknown(
    client: RawClient, broker: RunningBroker, workers: CountingWorkers
) -> None:
    topic, _ = create_topic(client, cleanup_policy="compact")
    broker.call(workers.shut)
    large = produce_request(topic, packed(Codec.SNAPPY, b"first", noise=100_000))
    client.send_bytes(client.frame(large, 11))
    eventually(lambda: workers.opened == 1, "the worker has the batch")
    with broker.client() as other:
        other.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
    broker.call(workers.release)
    answer = client.receive(large, 11).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_bad_records_are_refused_as_ever(client: RawClient, workers: CountingWorkers) -> None:
    topic, _ = create_topic(client, cleanup_policy="compact")
    answer = produce(client, topic, packed(Codec.SNAPPY, b"a", key=None, noise=100_000))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
    assert [error.batch_index for error in answer.record_errors] == [0]
    bomb = bytes(
        encode_batch([Record(key=b"k", value=bytes(2 * DECOMPRESSED_BYTES_LEAST), timestamp=1)], codec=Codec.SNAPPY)
    )
    assert produce(client, topic, bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE
    torn = packed(Codec.SNAPPY, b"a", noise=100_000)
    assert produce(client, topic, torn[:-1] + b"?").error_code == ErrorCode.CORRUPT_MESSAGE
    assert workers.opened == 3
    assert fetch(client, topic).high_watermark == 0


def test_with_acks_0_a_bad_batch_closes_the_connection(broker: RunningBroker) -> None:
    with broker.client() as client:
        topic, _ = create_topic(client, cleanup_policy="compact")
        client.send_bytes(client.frame(produce_request(topic, packed(Codec.SNAPPY, b"a", noise=100_000), acks=0), 11))
        bad = produce_request(topic, packed(Codec.SNAPPY, b"a", key=None, noise=100_000), acks=0)
        client.send_bytes(client.frame(bad, 11))
        assert client.is_closed()
    with broker.client() as client:
        assert fetch(client, topic).high_watermark == 2


def test_a_client_that_leaves_meanwhile_has_its_batch_stored(
    broker: RunningBroker, workers: CountingWorkers, caplog: pytest.LogCaptureFixture
) -> None:
    with broker.client() as client:
        topic, _ = create_topic(client, cleanup_policy="compact")
        broker.call(workers.shut)
        client.send_bytes(client.frame(produce_request(topic, packed(Codec.SNAPPY, b"a", noise=100_000)), 11))
        eventually(lambda: workers.opened == 1, "the worker has the batch")
    eventually(lambda: broker.connection_count == 0, "the connection is gone")
    broker.call(workers.release)
    with broker.client() as client:
        eventually(lambda: fetch(client, topic).high_watermark == 2, "the batch is stored")
    assert "failed" not in caplog.text
