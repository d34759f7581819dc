"""Coordinator runtime with one shard on a virtual loop; its machine adds numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.partitions.group_commit import FlushablePartition, GroupCommit
from kwire.cluster.partitions.partition import Partition
from kwire.coordinator.runtime import CoordinatorRuntime
from kwire.coordinator.shard import Shard, Write
from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.protocol.error_codes import ErrorCode, KafkaError, UnknownRecordTypeError
from tests.coordinator.world import topic_image
from tests.log.faults import FaultyDisk
from tests.log.support import open_at, surroundings
from tests.support.metadata import Alone
from tests.virtual_loop import VirtualClock, VirtualLoop

Number = tuple[str, int | None]


class SumMachine:
    """Machine that maps keys to numbers; None removes a key."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.pending: dict[int, list[Number]] = {}
        self.life: list[str] = []

    def encode(self, record: Number) -> tuple[bytes, bytes | None]:
        key, value = record
        return key.encode(), None if value is None else str(value).encode()

    def decode(self, key: bytes, value: bytes | None) -> Number:
        if key.startswith(b"?"):
            raise UnknownRecordTypeError("a key of a newer version")
        return key.decode(), None if value is None else int(value)

    def replay(self, record: Number, offset: int, producer_id: int) -> None:
        assert offset >= 0
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).append(record)
            return
        key, value = record
        if value is None:
            self.numbers.pop(key, None)
        else:
            self.numbers[key] = value

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        pending = self.pending.pop(producer_id, [])
        for record in pending if is_commit else []:
            self.replay(record, 0, -1)

    def loaded(self) -> None:
        self.life.append("loaded")

    def unloaded(self) -> None:
        self.life.append("unloaded")


WRITE_TIMEOUT_MS = 10_000


class NoGroupCommit(GroupCommit):
    """Group commit that never flushes: tests complete the appends that wait."""

    def __init__(self) -> None:
        """Create it without logs and workers."""

    def request(self, partition: FlushablePartition) -> None:
        """Ignore the request."""


class Bench:
    """Runtime with one partition on a virtual loop."""

    def __init__(self, directory: Path, loop: VirtualLoop) -> None:
        self.directory = directory
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.machines: list[SumMachine] = []
        self.disk = FaultyDisk()
        self.partition = self.open_partition()
        self.runtime: CoordinatorRuntime[Number, SumMachine] = CoordinatorRuntime(
            make=lambda _: self.make(), clock=self.clock, write_timeout_ms=WRITE_TIMEOUT_MS
        )

    def make(self) -> SumMachine:
        self.machines.append(SumMachine())
        return self.machines[-1]

    def open_partition(self) -> Partition:
        image: PartitionImage = topic_image("state", 1, 1).partitions[0]
        log = open_at(self.directory, world=surroundings(disk=self.disk))
        return Partition(
            topic="state",
            topic_id=UUID(int=1),
            index=0,
            image=image,
            log=log,
            group_commit=NoGroupCommit(),
            peers=Alone(),
        )

    def hold(self) -> None:
        """Hold the high watermark until `release`, as a lagging replica does."""
        log = self.partition.log
        log.update_config(dataclasses.replace(log.config, flush_messages=1))

    def release(self) -> None:
        log = self.partition.log
        log.update_config(dataclasses.replace(log.config, flush_messages=LogConfig().flush_messages))
        log.flush()
        self.partition.flushed()

    async def lead(self) -> Shard[Number, SumMachine]:
        self.runtime.lead(self.partition)
        await self.runtime.loaded()
        return self.runtime.active(0)

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        async def call() -> None:
            await main()

        self.loop.run_until_complete(call())


def write(answer: str, *records: Number, **more: Any) -> Write[Number, str]:
    return Write(answer=answer, records=records, **more)


def append(partition: Partition, batch: bytearray) -> None:
    partition.append(memoryview(batch), acks=-1, origin=AppendOrigin.COORDINATOR)


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call()
    return raised.value.code
