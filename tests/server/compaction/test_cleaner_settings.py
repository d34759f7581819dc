"""Extreme settings of the cleaner, accepted as in Kafka: the broker keeps running."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from kwire.server.compaction.cleaner import MAP_BYTES_MAX
from kwire.server.compaction.rounds import ProcessRounds
from tests.server.compaction.test_cleaner import World, offsets
from tests.virtual_loop import virtual_loop

FACTOR, RATE = "log.cleaner.io.buffer.load.factor", "log.cleaner.io.max.bytes.per.second"
ODD = [float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 1e-320, 1e300]


@pytest.mark.parametrize("factor", ODD)
def test_compaction_completes_with_any_load_factor(tmp_path: Path, factor: float) -> None:
    world = World(tmp_path / "d", **{FACTOR: factor})
    assert 1 <= world.cleaner._map_bytes() <= MAP_BYTES_MAX
    log = world.log("orders")
    rounds = 0
    while world.clean():
        rounds += 1
        assert rounds <= 10
    assert offsets(log) == [8, 9]


@pytest.mark.parametrize("rate", ODD)
def test_an_io_rate_of_zero_or_less_does_not_end_the_cleaner(tmp_path: Path, rate: float) -> None:
    world = World(tmp_path / "d", **{RATE: rate})
    log = world.log("orders")
    assert world.clean() is (rate > 0.0)
    assert offsets(log) == ([8, 9] if rate > 0.0 else list(range(10)))
    world.set({RATE: 1e9})
    world.cleaner.settings_changed()
    world.clean()
    assert offsets(log) == [8, 9]


def test_an_infinite_io_rate_can_be_sent_to_the_cleaner_process(tmp_path: Path) -> None:
    world = World(tmp_path / "d", **{RATE: float("inf")})
    assert world.cleaner._bytes_per_second() == sys.float_info.max
    log = world.log("orders")
    world.cleaner._parts.rounds = ProcessRounds()

    async def clean() -> None:
        assert await world.cleaner.clean_dirtiest()
        await world.cleaner._parts.rounds.close()

    asyncio.run(clean())
    assert offsets(log) == [8, 9]


def test_a_log_that_was_given_up_is_tried_again_with_other_settings(tmp_path: Path) -> None:
    world = World(tmp_path / "d")
    log = world.log("orders")
    world.cleaner._failures[log] = 3
    assert not world.clean()
    world.cleaner.settings_changed()
    assert world.clean()
    assert offsets(log) == [8, 9]


@pytest.mark.parametrize("turns", range(8))
def test_a_cleaner_that_is_woken_as_it_is_cancelled_ends(tmp_path: Path, turns: int) -> None:
    """A topic deletion just before a stop wakes the cleaner during its cancellation; the stop then never ended."""
    world = World(tmp_path / "d")

    async def play() -> bool:
        task = asyncio.get_running_loop().create_task(world.cleaner.run())
        await asyncio.sleep(1.0)
        world.cleaner.settings_changed()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=60.0)
        return task.cancelled()

    with virtual_loop() as loop:
        assert loop.run_until_complete(play())


def test_a_backoff_of_zero_does_not_block_the_event_loop(tmp_path: Path) -> None:
    world = World(tmp_path / "d", **{"log.cleaner.backoff.ms": 0})
    looks = 0
    clean = world.cleaner.clean_dirtiest

    async def look() -> bool:
        nonlocal looks
        looks += 1
        return await clean()

    world.cleaner.clean_dirtiest = look  # type: ignore[method-assign]

    async def play() -> None:
        task = asyncio.get_running_loop().create_task(world.cleaner.run())
        await asyncio.sleep(10.0)
        task.cancel()

    with virtual_loop() as loop:
        loop.run_until_complete(play())
    assert 10 <= looks <= 1000
