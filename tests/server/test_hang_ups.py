"""Clients that disconnect during their requests: which work stops, which continues, and which memory it holds."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from kwire.protocol.produce_exchange import ProducedPartition, ProduceExchange
from kwire.seams import SystemClock
from kwire.server.network.connection_limits import ConnectionLimits
from kwire.server.network.flow.turns import Turns
from kwire.server.network.listener import ConnectionTable, Listener
from kwire.server.network.memory.output_memory import OutputMemory
from kwire.server.network.memory.receive_buffer import ReceiveBuffer
from kwire.server.network.memory.request_memory import RequestMemory
from kwire.server.network.pending import Pending
from kwire.server.requests.delayed_produce import Append, VerifiedProduce
from tests.cluster.replication.world import KnownPeers, append, image, replica
from tests.support.waiting import until

FRAME = b"x" * 300_000


class Scene:
    """Listener that serves all requests by a function of the test, each on its own connection."""

    def __init__(self, serve: Callable[[], Awaitable[Any]]) -> None:
        self.memory = RequestMemory(10 * len(FRAME))
        limits = ConnectionLimits(
            request_bytes_max=len(FRAME), connections_max=100, connections_max_per_ip=100, idle_ms_max=-1
        )
        self._table = ConnectionTable()
        self._serve = serve
        self._listener = Listener(
            name="L",
            limits=limits,
            memory=self.memory,
            output=OutputMemory(2**20),
            turns=Turns(SystemClock().monotonic_ms),
            table=self._table,
            receive_buffer=ReceiveBuffer(asyncio.get_running_loop().call_soon),
            on_request_error=lambda _: None,
        )

    def _pending(self) -> Pending:
        return Pending(self._serve(), lambda answer: ([struct.pack(">i", 1) + answer], 0), pipelined=True)

    async def connect(self) -> asyncio.StreamWriter:
        _, writer = await asyncio.open_connection("127.0.0.1", self._listener.port)
        return writer

    @property
    def reading(self) -> int:
        """Return the number of connections that may read, as far as the memory budget decides."""
        return sum("memory" not in each._read_pauses for each in self._table.connections)

    async def send_and_hang_up(self) -> None:
        """Send a request and disconnect; return when the broker has noticed the disconnect."""
        writer = await self.connect()
        writer.write(struct.pack(">i", len(FRAME)) + FRAME)
        await until(
            lambda: self.memory.used_bytes >= len(FRAME) and any(each.is_busy for each in self._table.connections)
        )
        writer.close()
        await until(lambda: not self._table.connections)

    async def __aenter__(self) -> Self:
        await self._listener.bind("127.0.0.1", 0)
        await self._listener.serve(lambda connection, frame: self._pending())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.stop_accepting()


@pytest.mark.parametrize("as_task", [False, True])
def test_a_waiting_request_is_cancelled_when_its_client_disconnects(*, as_task: bool) -> None:
    async def main() -> None:
        waits: list[asyncio.Future[bytes]] = []

        async def wait(inner: asyncio.Future[bytes]) -> bytes:
            return await inner

        def serve() -> Awaitable[bytes]:
            inner: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            waits.append(asyncio.ensure_future(wait(inner)) if as_task else inner)
            return waits[-1]

        async with Scene(serve) as scene:
            for _ in range(3):
                await scene.send_and_hang_up()
                await until(waits[-1].done)
                assert waits[-1].cancelled()
                await until(lambda: scene.memory.used_bytes == 0)

    asyncio.run(main())


def test_a_changing_request_completes_after_a_disconnect_and_holds_memory_until_then() -> None:
    async def main() -> None:
        ends: list[asyncio.Future[bytes]] = []
        done: list[bytes] = []

        async def change(end: asyncio.Future[bytes]) -> bytes:
            done.append(await end)
            return b"y"

        def serve() -> Awaitable[bytes]:
            ends.append(asyncio.get_running_loop().create_future())
            return change(ends[-1])

        async with Scene(serve) as scene:
            for count in (1, 2, 3):
                await scene.send_and_hang_up()
                assert scene.memory.used_bytes == count * len(FRAME)
            for end in ends:
                end.set_result(b"z")
            await until(lambda: scene.memory.used_bytes == 0)
            assert done == [b"z"] * 3

    asyncio.run(main())


class Changes:
    """Requests in progress until a test completes them."""

    def __init__(self) -> None:
        self.begun = 0
        self._may_end = asyncio.Event()

    def serve(self) -> Awaitable[bytes]:
        self.begun += 1
        return self._change()

    async def _change(self) -> bytes:
        await self._may_end.wait()
        return b"y"

    def end(self) -> None:
        self._may_end.set()


def test_clients_that_hang_up_leave_no_more_behind_than_may_be_held() -> None:
    async def main() -> None:
        changes = Changes()
        async with Scene(changes.serve) as scene:
            for count in range(1, 21):
                writer = await scene.connect()
                writer.write(struct.pack(">i", len(FRAME)) + FRAME)
                waiting = len(scene.memory._waiting)
                await until(lambda: changes.begun == count or len(scene.memory._waiting) > waiting)  # noqa: B023
                writer.close()
                await until(lambda: scene.reading == 0)
            assert changes.begun == 11, "ten fill the memory, and one bears on"
            changes.end()
            await until(lambda: scene.memory.used_bytes == 0 and changes.begun == 20)

    asyncio.run(main())


def test_half_frames_that_become_whole_are_served_one_at_a_time_when_memory_is_full() -> None:
    async def main() -> None:
        changes = Changes()
        async with Scene(changes.serve) as scene:
            writers = []
            for _ in range(20):
                writers.append(await scene.connect())
                held, waiting = scene.memory.used_bytes, len(scene.memory._waiting)
                writers[-1].write(struct.pack(">i", len(FRAME)) + FRAME[10_000:])
                await until(
                    lambda: (
                        scene.memory.used_bytes == held + len(FRAME) - 9_996  # noqa: B023
                        or len(scene.memory._waiting) > waiting  # noqa: B023
                    )
                )
            for writer in writers:
                writer.write(FRAME[:10_000])
            await until(lambda: scene.reading == 0 or changes.begun == 20)
            assert changes.begun == 11, "ten that had room, and the bearer"
            changes.end()
            await until(lambda: scene.memory.used_bytes == 0 and changes.begun == 20)
            for writer in writers:
                writer.close()

    asyncio.run(main())


def test_batches_under_verification_hold_memory_after_a_disconnect() -> None:
    async def main() -> None:
        appends: list[Append] = []
        partitions: Any = None  # nothing is appended yet
        verified_produce = VerifiedProduce(ProduceExchange("tx", -1, 2**31 - 1), appends, 1, partitions)
        answer = verified_produce.answer()
        assert isinstance(answer, asyncio.Task)
        await asyncio.sleep(0)
        answer.cancel()
        done, _ = await asyncio.wait([answer], timeout=0)
        assert not done, "what waits for verification has the request's bytes"
        verified_produce.batch_verified()
        with pytest.raises(asyncio.CancelledError):
            await answer

    asyncio.run(main())


def test_verified_batches_hold_no_memory_after_a_disconnect(tmp_path: Path) -> None:
    async def main() -> None:
        partition = replica(tmp_path, image((1, 2)), KnownPeers())
        append(partition, b"a")
        partitions: Any = SimpleNamespace(get=lambda topic, index: partition)
        appends: list[Append] = [(partition, ProducedPartition(0, None), 0)]
        verified_produce = VerifiedProduce(ProduceExchange("tx", -1, 2**31 - 1), appends, 1, partitions)
        answer = verified_produce.answer()
        assert isinstance(answer, asyncio.Task)
        verified_produce.batch_verified()
        await until(lambda: len(partition._waiters) == 1)
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        assert not partition._waiters
        assert partition.log.log_end_offset == 1

    asyncio.run(main())
