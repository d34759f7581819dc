"""Clients that disconnect or are disconnected: completion of their requests, and release of memory."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from kwire.server.network.connection_limits import LONG_REQUEST_BYTES
from kwire.server.network.pending import Pending
from kwire.server.network.response_queue import Response
from tests.server.connection_harness import play
from tests.server.test_shares import World
from tests.support.raw_client import sized
from tests.virtual_loop import VirtualLoop


def test_requests_before_an_invalid_frame_length_get_responses() -> None:
    """Apache Kafka reads one request after another; an invalid length closes the connection when its turn comes."""

    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 1)
        harness = world.harnesses[0]
        harness.receive(b"".join(sized(each) for each in (b"p3", b"1", b"2")) + b"\x7f\xff\xff\xff")
        assert not harness.count_calls("close")
        harness.receive(sized(b"4"))
        await world.settle()
        assert [request for _, request in world.served if not request.startswith("p")] == ["1", "2"]
        assert b"".join(harness.transport.written) == b"p312"
        assert harness.count_calls("close") == 1

    play(act)


def test_a_pending_request_is_cancelled_when_its_client_disconnects() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 1)
        waited_for: asyncio.Future[str] = loop.create_future()
        pending = Pending(waited_for, lambda text: ([text.encode()], 0), pipelined=False)
        world.harnesses[0].listener.handle = lambda who, frame: pending
        world.send(0, "w")
        assert not world.harnesses[0].connection.eof_received()
        world.harnesses[0].connection.connection_lost(None)
        await world.settle()
        assert waited_for.cancelled()

    play(act)


@pytest.mark.parametrize("is_much", [False, True])
def test_large_leftovers_of_disconnected_clients_are_freed_in_turns(is_much: bool) -> None:
    """Each client may leave a half-built response of millions of objects, a stack of frames, or a waiting request.

    Small leftovers are freed at once: otherwise a restart of many consumers would fill the queue of steps.
    """

    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 9)
        ended_at: list[float] = []
        iterations = 0

        def note(_: object = None) -> None:
            ended_at.append(iterations)

        def pieces() -> Generator[None, None, Response]:
            try:
                while True:
                    world.ms += 1
                    yield
            finally:
                note()

        for number, harness in enumerate(world.harnesses):
            if number % 2:
                harness.listener.handle = lambda who, frame: pieces()
            else:
                future: asyncio.Future[str] = loop.create_future()
                future.add_done_callback(note)
                pending = Pending(future, lambda text: ([text.encode()], 0), pipelined=False)
                harness.listener.handle = lambda who, frame, pending=pending: pending  # type: ignore[misc]
            world.send(number, "w")
            world.send(number, "behind" * (LONG_REQUEST_BYTES // 5 if is_much else 1))
        for _ in range(10):
            await asyncio.sleep(0)
        for harness in world.harnesses:
            harness.connection.connection_lost(None)
        while len(ended_at) < len(world.harnesses):
            await asyncio.sleep(0)
            iterations += 1
            assert iterations < 100
        assert len(set(ended_at)) == (len(world.harnesses) if is_much else 1), "one in each iteration, or all at once"
        for harness in world.harnesses:
            assert harness.listener.memory.used_bytes == 0

    play(act)
