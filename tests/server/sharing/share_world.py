"""Share partition of a real log on a loop with virtual time, with members that fetch and acknowledge at random.

The members check what the protocol promises: a record has one owner, and a record that is done never comes again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

from kwire.cluster.partitions.partition import Partition
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.repeated_messages import RepeatedMessages
from kwire.seams import ThreadWorkers
from kwire.server.fetching.cold_reads import ColdReader
from kwire.server.network.memory.output_memory import OutputMemory
from kwire.server.requests.large_batches import WorkersForLargeBatches
from kwire.server.sharing.acquiring import Asked
from kwire.server.sharing.config import ShareGroupSettings
from kwire.server.sharing.in_flight_limit import InFlightLimit
from kwire.server.sharing.led_share_partition import LedSharePartition, WaitingFetch
from kwire.server.sharing.reading import ShareReading
from kwire.server.sharing.share_fetch import Fetched, FetchLimits, ShareFetch
from kwire.server.sharing.states import Acknowledgement, Acquired
from kwire.simulation.loop import VirtualClock
from tests.coordinator.world import no_group_commit, topic_image
from tests.log.support import open_at
from tests.server.sharing.memory_persister import MemoryPersister
from tests.support.metadata import Alone
from tests.support.requests import batch

TOPIC_ID = UUID(int=1)
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
ERRORS = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.FENCED_LEADER_EPOCH)


class SlowPersister(MemoryPersister):
    """Persister whose requests take some time, and sometimes fail."""

    def __init__(self, random_: random.Random) -> None:
        super().__init__()
        self.random = random_
        self.is_reliable = False

    async def _delay(self) -> None:
        await asyncio.sleep(self.random.choice((0.0, 0.001, 0.02)))

    async def read_state(self, *key: Any) -> Any:
        await self._delay()
        if not self.is_reliable and self.random.random() < 0.1:
            self.read_errors.append(self.random.choice(ERRORS))
        return await super().read_state(*key)

    async def write_state(self, *state: Any) -> None:
        await self._delay()
        if not self.is_reliable and self.random.random() < 0.15:
            self.write_errors.append(self.random.choice(ERRORS))
        await super().write_state(*state)


class CheckedSharePartition(LedSharePartition):
    """Share partition that reports each acquisition at its time."""

    world: ShareWorld

    def acquire(self, fetch: WaitingFetch, asked: Asked, *batches: Any) -> list[Acquired]:
        acquired = super().acquire(fetch, asked, *batches)
        if self is self.world.current:
            for first, last, _ in acquired:
                for offset in range(first, last + 1):
                    self.world.deliver(offset, asked.member)
        return acquired


class ShareWorld:
    """Partition, group, and the history of the deliveries."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        loop = asyncio.get_running_loop()
        self.clock = VirtualClock(loop)
        self.workers = ThreadWorkers(1)
        image = topic_image("t", 1, 1).partitions[0]
        self.partition = Partition(
            topic="t",
            topic_id=TOPIC_ID,
            index=0,
            image=image,
            log=open_at(directory / "t-0"),
            group_commit=no_group_commit(),
            peers=Alone(),
        )
        self.persister = SlowPersister(self.random)
        self.settings = ShareGroupSettings(
            lock_duration_ms=50,
            delivery_limit=1000,
            record_locks_max=self.random.choice((10, 50)),
            offset_reset="earliest",
            isolation_level="read_uncommitted",
            renews_locks=True,
        )
        self.output = OutputMemory(1 << 30)
        self.cold_reads = ColdReader(self.workers)
        self.limit = InFlightLimit()
        self.current: CheckedSharePartition | None = None
        self.predecessor: LedSharePartition | None = None
        self.done: set[int] = set()
        """Records that members have accepted or rejected with success."""
        self.held: dict[int, tuple[str, float]] = {}
        """Member and end of the lock of each record, by what the members know."""
        self.deliveries = 0
        self.sessions: Counter[str] = Counter()
        """Number of sessions of each member that have ended."""

    def led(self) -> CheckedSharePartition:
        """Return the share partition; it is loaded again after a failure."""
        if self.current is None:
            self.held.clear()
            self.current = CheckedSharePartition(
                "g",
                self.partition,
                persister=self.persister,
                settings=lambda: self.settings,
                clock=self.clock,
                large_batches=WorkersForLargeBatches(self.workers),
                messages=RepeatedMessages(logging.getLogger(__name__), self.clock.monotonic_ms),
                in_flight_limit=self.limit,
                dropped=self._dropped,
                predecessor=self.predecessor,
            )
            self.current.world = self
        return self.current

    def _dropped(self, led: LedSharePartition) -> None:
        if self.current is led:
            self.current = None
            self.predecessor = led

    # --- what happens to the partition

    def append(self) -> None:
        self.partition.append(batch(*[b"x"] * self.random.randint(1, 6)), -1)

    def change_leader(self) -> None:
        image = self.partition.image
        self.partition.update(dataclasses.replace(image, leader_epoch=image.leader_epoch + 1), is_led=True)

    def delete_records(self) -> None:
        offset = self.random.randint(self.partition.log.log_start_offset, self.partition.high_watermark)
        self.partition.delete_records_before(offset)

    # --- members

    async def fetch(self, member: str, *, wait_ms: int = 30, records_max: int = 500) -> list[tuple[int, int, int]]:
        """Return the acquired ranges, after checks that they may be delivered."""
        led = self.led()
        fetch = ShareFetch(
            Asked(member, self.sessions[member], self.random.randint(0, 1), self.random.randint(1, 5), records_max),
            FetchLimits(bytes_min=self.random.choice((1, 1, 1, 200)), bytes_max=1 << 20, wait_ms=wait_ms),
            [led],
            reading=ShareReading(self.cold_reads, lambda: True),
            output=self.output,
            is_wanted=lambda: True,
        )
        await fetch.run()
        found = fetch.fetched.get(led, Fetched(b"", []))
        return [(first, last, count) for first, last, count in found.acquired]

    def deliver(self, offset: int, member: str) -> None:
        assert offset not in self.done, f"{offset} is done, and comes again"
        _, until_ms = self.held.get(offset, ("", 0.0))
        now_ms = self.clock.monotonic_ms()
        assert until_ms <= now_ms, f"{offset} has two members"
        self.held[offset] = member, now_ms + self.settings.lock_duration_ms
        self.deliveries += 1

    async def acknowledge(self, member: str, first: int, last: int, kind: int) -> bool:
        """Acknowledge, and note the effect; return False if it is rejected."""
        led = self.led()
        offsets = range(first, last + 1)
        until_ms = self.clock.monotonic_ms() + self.settings.lock_duration_ms
        if kind != RENEW:
            for offset in offsets:
                self.held.pop(offset, None)
        try:
            await led.acknowledge(member, [Acknowledgement(first, last, [kind])])
        except KafkaError:
            return False
        if kind in (ACCEPT, REJECT):
            self.done.update(offsets)
        elif kind == RENEW and led is self.current:
            self.held.update({o: (member, until_ms) for o in offsets if self.held.get(o, ("",))[0] == member})
        return True
