"""Batches of an idempotent producer after a batch that found no space: none is appended before that one."""

from __future__ import annotations

import asyncio
import errno
import struct
from typing import Any

import pytest

from kwire.cluster.partitions.partition import Partition
from kwire.log.disk import DiskFullError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.requesting import frame_request, parse_response
from tests.log.support import batch as numbered_batch
from tests.server.replicated_topic import Scene, play
from tests.server.test_transactions import add, init, send
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, create_topic, produce_request
from tests.support.running import RunningBroker

VERSION = 11


class Pipeline:
    """Connection on which a client sends requests without waiting for responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, request: ProduceRequest) -> None:
        self._writer.write(frame_request(request, VERSION, 1, "client"))

    async def answer(self) -> ErrorCode:
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        _, response = parse_response(ProduceRequest, VERSION, await self._reader.readexactly(size))
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    def close(self) -> None:
        self._writer.close()


@pytest.mark.parametrize("is_known", [True, False])
def test_late_verifications_keep_the_order_behind_a_rejected_batch(is_known: bool) -> None:
    async def acts(scene: Scene) -> None:
        partition, broker = await led_partition(scene)

        def numbered(sequence: int) -> ProduceRequest:
            data = numbered_batch(b"%d" % sequence, producer_id=7, producer_epoch=0, sequence=sequence)
            return produce_request("u", bytes(data), partition=partition.index)

        host, _, port = broker.bootstrap_server.rpartition(":")
        pipeline = Pipeline(*await asyncio.open_connection(host, int(port)))
        if is_known:
            pipeline.send(numbered(0))
            assert await pipeline.answer() is ErrorCode.NONE
        first = int(is_known)
        scene.cut_off(*scene.followers)
        pipeline.send(produce_request("t", batch(b"slow"), acks=-1))
        await scene.until(lambda: scene.leader.log.log_end_offset > 0)
        broker.host.device.fill(free_bytes=0)
        pipeline.send(numbered(first))
        await scene.until(lambda: partition.log.health.lacks_space)
        broker.host.device.empty()
        await scene.until(lambda: not partition.log.health.lacks_space)
        for sequence in (first + 1, first, first + 1):
            pipeline.send(numbered(sequence))
        full = ErrorCode.KAFKA_STORAGE_ERROR
        answers = [await pipeline.answer() for _ in range(5)]
        assert answers[1:] == [full, full, ErrorCode.NONE, ErrorCode.NONE]
        assert partition.log.log_end_offset == first + 2
        pipeline.close()

    play(acts)


async def led_partition(scene: Scene) -> tuple[Partition, Any]:
    """Return a single-replica partition of another topic, on the broker that leads the scene's partition."""
    await scene.ask(1, create_request("u", 9), 7)
    broker = scene.cluster.brokers[scene.leader_id - 1]

    def led() -> list[Partition]:
        found = [broker.server.services.partitions.get("u", index) for index in range(9)]
        return [each for each in found if each is not None and each.is_led]

    await scene.until(lambda: bool(led()))
    return led()[0], broker


@pytest.mark.parametrize("version", [11, 12])
def test_batches_after_a_rejected_first_batch_of_a_transaction_are_rejected(
    client: RawClient, broker: RunningBroker, version: int
) -> None:
    topic, _ = create_topic(client)
    producer = init(client)
    if version == 11:
        assert add(client, producer, topic, 0) == [0]
    partition = broker.call(lambda: broker.server.services.partitions.get(topic, 0))
    assert partition is not None
    active = partition.log.segments.active
    file = active.file

    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(file, name)

        def append(self, *parts: Any) -> int:
            raise DiskFullError("append", topic, OSError(errno.ENOSPC, "no space"))

    broker.call(lambda: setattr(active, "file", Full()))
    codes = [send(client, producer, topic, b"a", sequence, version=version).error_code for sequence in (0, 1)]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR]
    broker.call(lambda: setattr(active, "file", file))
    codes = [send(client, producer, topic, b"a", sequence, version=version).error_code for sequence in (0, 1)]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE]
