"""Transaction coordinator with flapping leadership while its shard loads, against a count of its transactional ids.

- memory: the counted bytes are those of the transactional ids in existing shards
- state: a coordinator with a loaded shard has every transactional id that received a producer id
"""

from __future__ import annotations

import asyncio
from typing import Final

from kwire.cluster.topic_names import TRANSACTION_STATE_TOPIC
from kwire.coordinator import loading
from kwire.coordinator.transaction.memory import TransactionMemory
from kwire.protocol.error_codes import KafkaError
from tests.coordinator.transaction_script import settle
from tests.coordinator.transaction_world import TransactionWorld
from tests.crash.disk import RecordingDisk
from tests.fuzz.fuzzing import Fuzzer, Operation
from tests.fuzz.silence import silent
from tests.virtual_loop import VirtualLoop

TIMEOUT_MS: Final = 60_000


class FlapModel:
    """Model of a coordinator with flapping leadership."""

    def __init__(self) -> None:
        self._silence = silent("kwire")
        self._silence.__enter__()
        self._patience = loading.SLICE_MS, loading.RECORDS_BETWEEN_CHECKS
        loading.SLICE_MS, loading.RECORDS_BETWEEN_CHECKS = 0.0, 1  # a pause at each record
        self._loop = VirtualLoop()
        self._world = TransactionWorld("/kafka", self._loop, RecordingDisk({"kafka": {}}))
        self._ids: set[str] = set()
        self._loop.run_until_complete(self._world.start())
        self._partition = self._world.partition(f"{TRANSACTION_STATE_TOPIC}-0")

    def close(self) -> None:
        self._world.stop()
        self._loop.run_until_complete(settle())
        self._loop.close()
        loading.SLICE_MS, loading.RECORDS_BETWEEN_CHECKS = self._patience
        self._silence.__exit__(None, None, None)

    def do(self, operation: Operation) -> None:
        async def act() -> None:
            await getattr(self, operation.name)(operation.a)

        self._loop.run_until_complete(act())
        self._check()

    async def begin(self, a: int) -> None:
        """Send InitProducerId for some producers."""
        for number in range(a % 8):
            name = f"id-{(a + number) % 40}"
            try:
                await self._world.transactions.initialise(name, TIMEOUT_MS, None)
            except KafkaError:
                continue
            self._ids.add(name)

    async def lead(self, a: int) -> None:
        """Become leader; the shard loads for a few turns."""
        self._world.transactions._runtime.lead(self._partition)
        await self.turn(a)

    async def resign(self, a: int) -> None:
        """Make another broker the leader."""
        self._world.transactions._resign(0)

    async def turn(self, a: int) -> None:
        """Run the event loop for a few turns."""
        for _ in range(a % 12):
            await asyncio.sleep(0)

    async def load(self, a: int) -> None:
        """Load the shard completely if this broker leads."""
        await self._world.transactions.loaded()

    def _check(self) -> None:
        coordinator = self._world.transactions
        held = [each for shard in coordinator._runtime for each in shard.machine.transactions.values()]
        recount = TransactionMemory(0)
        for transaction in held:
            recount.count(None, transaction)
        counted = coordinator._memory._counted
        assert counted == recount._counted, f"memory: {counted} bytes are counted for {len(held)} transactional ids"

    def finish(self) -> None:
        async def come_to_rest() -> None:
            self._world.transactions._runtime.lead(self._partition)
            await self.load(0)
            await self.turn(5)

        self._loop.run_until_complete(come_to_rest())
        self._check()
        found = set(self._world.machine().transactions)
        assert found == self._ids, f"state: {sorted(self._ids ^ found)}"


FLAP_FUZZER: Final = Fuzzer(
    "flap", FlapModel, {"begin": 8, "lead": 8, "resign": 6, "turn": 4, "load": 3}, steps=30, seeds=40
)
