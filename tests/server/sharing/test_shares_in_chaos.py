"""Members of a share group while the persister fails, leaders change, and records are deleted, in virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kwire.server.sharing import share_partition
from kwire.simulation.loop import virtual_loop
from tests.server.sharing.share_world import ACCEPT, REJECT, RELEASE, RENEW, ShareWorld

SEEDS = 8
ROUNDS = 60


async def live(world: ShareWorld, member: str) -> None:
    """Fetch and acknowledge for a while, and forget some records."""
    random = world.random
    for _ in range(ROUNDS):
        if random.random() < 0.05:
            world.held = {offset: held for offset, held in world.held.items() if held[0] != member}
            release = world.led().release(member, world.sessions[member])
            world.sessions[member] += 1
            if random.random() < 0.5:  # else the next session acquires records during the release
                await asyncio.gather(release, return_exceptions=True)
        for first, last, _ in await world.fetch(member, records_max=random.choice((1, 5, 500))):
            await asyncio.sleep(random.choice((0.0, 0.0, 0.01, 0.06)))
            start = first
            while start <= last:
                end = random.randint(start, last)
                kind = random.choice((ACCEPT, ACCEPT, RELEASE, REJECT, RENEW, 0))
                if kind:
                    await world.acknowledge(member, start, end, kind)
                start = end + 1


async def disturb(world: ShareWorld) -> None:
    for _ in range(ROUNDS * 2):
        await asyncio.sleep(world.random.choice((0.0, 0.005, 0.02)))
        if world.current is not None and world.current.state is not None:
            world.current.state.check_invariants()
        draw = world.random.random()
        if draw < 0.7:
            world.append()
        elif draw < 0.73:
            world.change_leader()
        elif draw < 0.76:
            world.delete_records()


async def drain(world: ShareWorld) -> None:
    """Check that a last member gets every record that is not done, and that no other record is skipped."""
    world.persister.is_reliable = True
    await asyncio.sleep(1.0)
    for _ in range(2000):
        for first, last, _ in await world.fetch("last", wait_ms=200):
            await world.acknowledge("last", first, last, ACCEPT)  # some locks may expire before it
        state = world.led().state
        if state is not None and state.start_offset == world.partition.high_watermark:
            break
    start = world.partition.log.log_start_offset
    (stored,) = world.persister.states.values()
    assert set(range(start, world.partition.high_watermark)) <= world.done | stored.finals
    assert world.output.reserved_bytes >= 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_records_have_one_owner_and_are_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(share_partition, "RUNS_AT_ONCE", 1 + seed % 3)

    async def main() -> None:
        world = ShareWorld(tmp_path, seed)
        await asyncio.gather(*(live(world, f"m{number}") for number in range(4)), disturb(world))
        await drain(world)
        assert world.deliveries > 100
        world.led().stop()
        world.workers.close()
        world.partition.log.close(clean=False)

    with virtual_loop() as loop:
        loop.run_until_complete(main())
