"""Sessions of brokers whose heartbeats are planned in steps: no broker loses its session, or keeps it, for that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cluster.test_long_broker_changes import GOES, OTHER, SESSION_MS, Scene, scene


async def _fence_the_silent(world: Scene) -> None:
    """Let GOES be silent for its session, and OTHER not."""
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
