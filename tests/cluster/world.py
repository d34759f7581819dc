"""A metadata log on a real directory, with workers and a disk that tests hold the strings of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.topics import TopicDefaults
from kwire.cluster.formatting import bootstrap_records
from kwire.cluster.image import Endpoint
from kwire.cluster.metadata_log import METADATA_TOPIC_ID, MetadataLog
from kwire.cluster.topic_names import METADATA_TOPIC
from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.log_manager import METADATA_DIRECTORY
from kwire.log.recovery import Surroundings, open_log
from kwire.seams import SystemChance
from tests.log.support import FixedChance, ManualClock

T = TypeVar("T")
NODE = 1
DIRECTORY_ID = UUID(int=77)
ENDPOINT = ("CONTROLLER", "localhost", 9093)
BROKER_ENDPOINT = Endpoint(name="PLAINTEXT", host="localhost", port=9092)


class InlineWorkers:
    """Runs each call at once, or keeps it until release() when held."""

    def __init__(self) -> None:
        self.held = False
        self.calls = 0
        self._gate = asyncio.Event()

    async def run(self, call: Callable[[], T]) -> T:
        self.calls += 1
        if self.held:
            await self._gate.wait()
        return call()

    def release(self) -> None:
        self.held = False
        self._gate.set()

    def close(self) -> None:
        pass


@asynccontextmanager
async def metadata_log(
    directory: Path, disk: RealDisk | None = None, workers: InlineWorkers | None = None, *, lead: bool = True
) -> AsyncIterator[MetadataLog]:
    """The log in `directory`, leading; closed at the end whatever happened."""
    disk = disk or RealDisk()
    clock, chance = ManualClock(), FixedChance()
    metadata = directory / METADATA_DIRECTORY
    disk.make_directory(str(metadata))
    log = open_log(
        str(metadata),
        topic=METADATA_TOPIC,
        partition=0,
        config=LogConfig(retention_ms=-1),
        surroundings=Surroundings(disk=disk, clock=clock, chance=chance),
        topic_id=METADATA_TOPIC_ID,
    )
    opened = MetadataLog(log=log, directory=str(metadata), disk=disk, clock=clock, workers=workers or InlineWorkers())
    try:
        if lead:
            await take_lead(opened, disk, directory)
        yield opened
    finally:
        await opened.close()


async def take_lead(opened: MetadataLog, disk: RealDisk, directory: Path) -> None:
    await opened.lead(
        node_id=NODE,
        directory_id=DIRECTORY_ID,
        endpoint=ENDPOINT,
        bootstrap=bootstrap_records(disk, str(directory)),
    )


def controller_of(log: MetadataLog) -> Controller:
    return Controller(
        metadata_log=log,
        chance=SystemChance(),
        defaults=TopicDefaults(num_partitions=2, replication_factor=1),
    )


async def registered(log: MetadataLog) -> Controller:
    """A controller with one broker that is alive."""
    controller = controller_of(log)
    await controller.register_broker(broker_id=NODE, endpoints=[BROKER_ENDPOINT], rack=None, directories=[DIRECTORY_ID])
    return controller
