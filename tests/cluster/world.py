"""Metadata log on a real directory, with workers and a disk that tests control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.plans.topics import TopicDefaults
from kwire.cluster.formatting.formatting import bootstrap_records, format_directory
from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.voters import Listener
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.raft.metadata_node import open_metadata_log
from kwire.log.disk import RealDisk
from kwire.log.files import METADATA_DIRECTORY
from kwire.log.recovery import Surroundings
from kwire.seams import SystemRandomSource
from tests.log.support import NOW_MS, FixedChance, ManualClock
from tests.support.metadata import NoPeers, register_broker
from tests.support.metadata import lead as lead_alone

T = TypeVar("T")
CLUSTER_ID = "quorum-of-one"
NODE = 1
DIRECTORY_ID = UUID(int=77)
ENDPOINT = ("CONTROLLER", "localhost", 9093)
BROKER_ENDPOINT = ("PLAINTEXT", "localhost", 9092)


class InlineWorkers:
    """Workers that run each call at once, or hold it until release()."""

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
    """Open the log in `directory` and lead; close it at the end in any case."""
    disk = disk or RealDisk()
    metadata = directory / METADATA_DIRECTORY
    if not metadata.exists():
        format_directory(
            disk,
            str(directory),
            cluster_id=CLUSTER_ID,
            node_id=NODE,
            directory_id=DIRECTORY_ID,
            controller_endpoint=ENDPOINT,
            now_ms=NOW_MS,
        )
    opened = open_metadata_log(
        QuorumConfig(
            cluster_id=CLUSTER_ID,
            node_id=NODE,
            directory_id=DIRECTORY_ID,
            listener=ENDPOINT[0],
            endpoints=(Listener(*ENDPOINT),),
        ),
        directory=str(metadata),
        surroundings=Surroundings(disk=disk, clock=ManualClock(), random_source=FixedChance()),
        workers=workers or InlineWorkers(),
        channel=NoPeers(),
        static_voters=None,
        bootstrap=bootstrap_records(disk, str(directory)),
        segment_bytes=1024**3,
        segment_ms=7 * 24 * 3600 * 1000,
    )
    try:
        if lead:
            await lead_alone(opened)
        yield opened
    finally:
        await opened.close()


def controller_of(log: MetadataLog) -> Controller:
    return Controller(
        metadata_log=log,
        random_source=SystemRandomSource(),
        defaults=TopicDefaults(num_partitions=2, replication_factor=1),
    )


async def registered(log: MetadataLog) -> Controller:
    """Return a controller with one live broker."""
    controller = controller_of(log)
    await register_broker(log, broker_id=NODE, endpoint=BROKER_ENDPOINT, directories=[DIRECTORY_ID])
    return controller
