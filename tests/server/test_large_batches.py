"""Exclusive place where large batches are decompressed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kwire.chunks import Steps, in_turns
from kwire.server.requests.large_batches import WorkersForLargeBatches
from kwire.simulation.loop import VirtualLoop
from tests.server.connection_harness import play


class Worker:
    """Worker that finishes when the test says so."""

    def __init__(self) -> None:
        self.running: list[asyncio.Future[bytes]] = []

    async def run(self, call: Callable[[], Any]) -> Any:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.running.append(future)
        return await future

    def close(self) -> None:
        pass


def searching(place: WorkersForLargeBatches) -> Steps[bytes]:
    yield place.acquire()
    try:
        body: bytes = yield place.run(lambda: b"")
        return body
    finally:
        place.release()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def played(act: Callable[[Worker, WorkersForLargeBatches], Awaitable[None]]) -> None:
    async def acts(_: VirtualLoop) -> None:
        worker = Worker()
        await act(worker, WorkersForLargeBatches(worker))

    play(acts)


def test_large_batches_are_decompressed_one_at_a_time() -> None:
    async def act(worker: Worker, place: WorkersForLargeBatches) -> None:
        tasks = [asyncio.ensure_future(in_turns(searching(place))) for _ in range(2)]
        for number in range(2):
            await settle()
            assert len(worker.running) == number + 1
            worker.running[number].set_result(b"%d" % number)
        assert await asyncio.gather(*tasks) == [b"0", b"1"]

    played(act)


def test_a_disconnected_client_keeps_the_lock_until_its_worker_ends() -> None:
    """A thread cannot be cancelled: disconnecting clients could otherwise occupy all workers at once."""

    async def act(worker: Worker, place: WorkersForLargeBatches) -> None:
        first, second, third = (asyncio.ensure_future(in_turns(searching(place))) for _ in range(3))
        await settle()
        first.cancel()
        await settle()
        assert first.cancelled()
        assert len(worker.running) == 1
        second.cancel()
        await settle()
        worker.running[0].set_exception(ValueError("the client has disconnected"))
        await settle()
        assert len(worker.running) == 2
        worker.running[1].set_result(b"third")
        assert await third == b"third"
        assert not place._place.locked()

    played(act)
