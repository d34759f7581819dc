"""Bytes received in one iteration of the loop: bounded, for any number of clients that send at full speed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from kwire.server.network.flow.read_pauses import ReadPauses
from kwire.server.network.memory.receive_buffer import (
    ITERATION_BYTES,
    LONG_READ_BYTES,
    RECEIVE_BUFFER_BYTES,
    ReceiveBuffer,
)
from kwire.server.network.pending import Pending
from tests.server.connection_harness import ConnectionHarness, Transport, play
from tests.support.raw_client import sized
from tests.support.requests import batch, create_topic, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually
from tests.virtual_loop import VirtualLoop


def test_long_reads_end_when_an_iteration_has_had_its_bytes() -> None:
    async def act(_: VirtualLoop) -> None:
        buffer = ReceiveBuffer(asyncio.get_running_loop().call_soon)
        transports = [Transport() for _ in range(3)]
        pauses = [ReadPauses(cast("Any", transport)) for transport in transports]
        reads = ITERATION_BYTES // RECEIVE_BUFFER_BYTES
        for _read in range(reads - 1):
            buffer.count(RECEIVE_BUFFER_BYTES, pauses[0])
        assert transports[0].calls == []
        assert len(buffer.view) == RECEIVE_BUFFER_BYTES
        buffer.count(RECEIVE_BUFFER_BYTES, pauses[0])
        buffer.count(LONG_READ_BYTES, pauses[1])
        assert [each.calls for each in transports] == [["pause_reading"], ["pause_reading"], []]
        assert len(buffer.view) == LONG_READ_BYTES
        pauses[1].add("memory")
        await asyncio.sleep(0)
        assert [each.calls for each in transports] == [["pause_reading", "resume_reading"], ["pause_reading"], []]
        assert len(buffer.view) == RECEIVE_BUFFER_BYTES
        for _read in range(reads - 1):
            buffer.count(RECEIVE_BUFFER_BYTES, pauses[2])
        assert transports[2].calls == []

    play(act)


def test_a_frame_of_many_long_reads_is_served_whole() -> None:
    async def act(_: VirtualLoop) -> None:
        door = ConnectionHarness()
        frame = bytes(range(256)) * (3 * RECEIVE_BUFFER_BYTES // 256)
        stream = sized(frame) + sized(b"next")
        while stream:
            view = door.connection.get_buffer(-1)
            count = min(len(view), len(stream))
            view[:count] = stream[:count]
            door.connection.buffer_updated(count)
            stream = stream[count:]
        assert door.served == [frame, b"next"]

    play(act)


def test_small_requests_are_read_with_a_small_buffer() -> None:
    """Each small request takes a hundred times its size in CPU work and memory."""

    async def act(_: VirtualLoop) -> None:
        door = ConnectionHarness()
        assert len(door.connection.get_buffer(-1)) == LONG_READ_BYTES
        door.receive(sized(bytes(LONG_READ_BYTES))[:LONG_READ_BYTES])
        assert len(door.connection.get_buffer(-1)) == RECEIVE_BUFFER_BYTES, "a long request comes"
        door.receive(bytes(4))
        assert len(door.connection.get_buffer(-1)) == LONG_READ_BYTES
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        door.outcome = Pending(never, lambda text: ([text.encode()], 0), pipelined=False)
        door.receive(sized(b"") * (LONG_READ_BYTES // 4))
        assert len(door.connection.get_buffer(-1)) == LONG_READ_BYTES, "they wait"

    play(act)


def test_a_broker_receives_a_bounded_amount_in_one_iteration(tmp_path: Path, monkeypatch: Any) -> None:
    """All sockets have data when an iteration begins; the loop is the one that kwire uses."""
    counted: list[int] = []
    iterations: list[int] = []
    count, begin = ReceiveBuffer.count, ReceiveBuffer._begin_iteration

    def noted(buffer: ReceiveBuffer, size: int, pauses: ReadPauses) -> None:
        counted.append(size)
        count(buffer, size, pauses)

    def begun(buffer: ReceiveBuffer) -> None:
        iterations.append(sum(counted))
        counted.clear()
        begin(buffer)

    monkeypatch.setattr(ReceiveBuffer, "count", noted)
    monkeypatch.setattr(ReceiveBuffer, "_begin_iteration", begun)
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        others = [broker.client().socket for _ in range(12)]
        try:
            for each in others:
                each.setblocking(False)
            frame = memoryview(sized(bytes(4 * ITERATION_BYTES)))
            sent = dict.fromkeys(others, 0)

            def fill_sockets() -> int:
                for each in others:
                    with suppress(BlockingIOError):
                        while sent[each] < len(frame):
                            sent[each] += each.send(frame[sent[each] :])
                return sum(sent.values())

            filled = broker.call(fill_sockets)
            assert filled > 3 * ITERATION_BYTES
            eventually(lambda: fill_sockets() == len(others) * len(frame), "all is sent")
            assert produce(client, topic, batch(b"v")).error_code == 0
        finally:
            for each in others:
                each.close()
    assert ITERATION_BYTES <= max(iterations) <= ITERATION_BYTES + RECEIVE_BUFFER_BYTES + len(others) * LONG_READ_BYTES
