"""Broker sessions while heartbeats are planned in steps: the steps neither end nor extend a session."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from kwire.chunks import Pieces, in_turns
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.cluster.test_long_broker_changes import GOES, OTHER, SESSION_MS, Scene, scene


async def _fence_the_silent(world: Scene) -> None:
    """Let the session of GOES expire and fence it; OTHER stays alive."""
    await world.fall_silent(GOES)
    await world.control._fence_expired()


@pytest.mark.parametrize("lost", ["session", "leadership"])
def test_a_broker_that_is_unfenced_slowly_is_fenced_when_it_is_silent(tmp_path: Path, lost: str) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            await world.heartbeat(GOES, fence=True)
            unfencing = asyncio.ensure_future(world.heartbeat(GOES))
            await asyncio.sleep(0)
            assert not unfencing.done()
            if lost == "session":
                await _fence_the_silent(world)
            else:
                world.control._sessions_epoch -= 1  # as if this node had been elected again
            await unfencing
            assert world.control.unwatched_brokers() == []
            assert not world.log.newest_image.brokers[GOES].fenced
            await _fence_the_silent(world)
            assert world.log.newest_image.brokers[GOES].fenced
            assert not world.log.newest_image.brokers[OTHER].fenced

    asyncio.run(main())


def test_a_session_is_watched_until_its_broker_is_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            world.clock.now_ms += SESSION_MS
            fencing = asyncio.ensure_future(world.control._fence_expired())
            while not fencing.done():
                assert world.control.unwatched_brokers() == []
                await asyncio.sleep(0)
            assert all(broker.fenced for broker in world.log.newest_image.brokers.values())

    asyncio.run(main())


@pytest.mark.parametrize("end", ["answered", "cancelled"])
def test_a_broker_whose_heartbeat_is_planned_for_its_session_is_not_fenced(tmp_path: Path, end: str) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            stopping = asyncio.ensure_future(world.heartbeat(GOES, shut_down=True))
            await asyncio.sleep(0)
            await world.fall_silent(GOES)
            with pytest.raises(KafkaError) as rejected:
                await world.register(GOES, process=2)
            assert rejected.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
            await world.control._fence_expired()
            assert not stopping.done()
            world.clock.now_ms += SESSION_MS
            await world.heartbeat(OTHER)
            if end == "cancelled":
                stopping.cancel()
            with suppress(asyncio.CancelledError):
                assert await stopping is False
            await world.control._fence_expired()
            assert not world.log.newest_image.brokers[GOES].fenced

    asyncio.run(main())


def test_a_plan_does_not_wait_for_the_long_work_of_clients(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            taken = 0

            def work() -> Pieces[None]:
                nonlocal taken
                while True:
                    taken += 1
                    yield

            clients = [asyncio.ensure_future(in_turns(work())) for _ in range(20)]
            await asyncio.sleep(0)
            taken = 0
            await world.heartbeat(GOES, shut_down=True)
            assert world.log.image.brokers[GOES].in_controlled_shutdown
            assert taken < 100, "the plan has 40 steps"
            for client in clients:
                client.cancel()

    asyncio.run(main())


def test_a_heartbeat_during_a_registration_keeps_the_first_process(tmp_path: Path) -> None:
    """The registration of another process is being planned when the first process sends a heartbeat."""

    async def main() -> None:
        async with scene(tmp_path) as world:
            world.clock.now_ms += SESSION_MS
            before = world.log.newest_image.brokers[GOES]
            registering = asyncio.ensure_future(world.register(GOES, process=2))
            await asyncio.sleep(0)
            assert not registering.done()
            await world.heartbeat(GOES)
            with pytest.raises(KafkaError) as rejected:
                await registering
            assert rejected.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
            assert world.log.newest_image.brokers[GOES] == before

    asyncio.run(main())
