"""Coordinator whose leadership flaps while its shards load: it must release the memory that they counted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kwire.cluster.topic_names import TRANSACTION_STATE_TOPIC
from kwire.coordinator import loading
from tests.coordinator.transaction_world import TransactionWorld
from tests.virtual_loop import virtual_loop

IDS = 400


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
def test_a_shard_that_resigns_while_it_loads_releases_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(loading, "SLICE_MS", 0.0)  # each read of the clock causes a pause

    async def main(world: TransactionWorld) -> None:
        await world.start()
        for number in range(IDS):
            await world.transactions.initialise(f"id-{number}", 60_000, None)
        coordinator, memory = world.transactions, world.transactions._memory
        partition = world.partition(f"{TRANSACTION_STATE_TOPIC}-0")
        counted = memory._counted
        assert counted > IDS
        coordinator._resign(0)
        assert memory._counted == 0
        for _ in range(5):
            coordinator._runtime.lead(partition)
            for _ in range(turns):
                await asyncio.sleep(0)
            assert 0 < memory._counted < counted, "it is loading"
            coordinator._resign(0)
            await coordinator.loaded()
            assert memory._counted == 0
        coordinator._runtime.lead(partition)
        await coordinator.loaded()
        assert memory._counted == counted
        assert len(world.machine().transactions) == IDS
        world.stop()

    with virtual_loop() as loop:
        loop.run_until_complete(main(TransactionWorld(tmp_path, loop)))
