"""Disk work of a broker at start and on metadata changes, without its sockets.

The parts are the production ones and are started in the order of kwire.server.assembly.broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.plans.topics import TopicDefaults
from kwire.cluster.partitions.group_commit import GroupCommit
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.log.log_manager import LogManager
from kwire.log.recovery import Surroundings
from kwire.seams import SystemRandomSource
from kwire.server.node.quorum_settings import open_metadata, quorum_config, reject_other_voters
from kwire.server.node.storage import Storage, open_storage
from kwire.server.replication.partition_turns import PartitionTurns
from kwire.server.settings.config import BrokerConfig, make_config
from tests.crash.disk import RecordingDisk
from tests.log.support import NOW_MS, ManualClock
from tests.support.listeners import PublishedTo, RecordedPartitions
from tests.support.metadata import Alone, NoPeers, lead, register_broker

T = TypeVar("T")
DIRECTORY = "/data/kafka"
CONFIG: BrokerConfig = make_config({"log.dirs": DIRECTORY})
BROKER_EPOCH = 7


class LateWorkers:
    """Workers that run each call slightly later, so that the loop continues meanwhile."""

    async def run(self, call: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return call()

    def close(self) -> None:
        """Do nothing: no thread runs."""


@dataclass(slots=True, kw_only=True)
class Node:
    """Parts of a broker that store data on the disk."""

    storage: Storage
    logs: LogManager
    metadata_log: MetadataLog
    controller: Controller
    partitions: Partitions
    group_commit: GroupCommit
    turns: PartitionTurns
    turning: asyncio.Task[None]

    async def stop(self) -> None:
        """Stop the node cleanly."""
        self.turning.cancel()
        await asyncio.wait([self.turning])
        await self.group_commit.close()
        await self.turns.configure_and_remove()
        await self.metadata_log.close()
        high_watermarks = {(each.topic, each.index): each.high_watermark for each in self.partitions}
        self.logs.close(clean=True, broker_epoch=BROKER_EPOCH, high_watermarks=high_watermarks)


async def start_node(
    disk: RecordingDisk,
    *,
    seed: int,
    now_ms: int = NOW_MS,
    opened: Callable[[Storage], None] = lambda storage: None,
    leading: Callable[[MetadataLog], None] = lambda log: None,
) -> Node:
    """Start a node that registers itself. `opened` is called after the storage is open, before the log has a leader."""
    surroundings = Surroundings(disk=disk, clock=ManualClock(now_ms), random_source=SystemRandomSource(seed))
    storage = open_storage(CONFIG, disk=disk, clock=surroundings.clock, random_source=surroundings.random_source)
    opened(storage)
    logs = LogManager(CONFIG.log_dirs, surroundings, locks=storage.locks)
    metadata_log = await _metadata_log(surroundings, storage, leading)
    controller = Controller(
        metadata_log=metadata_log,
        random_source=surroundings.random_source,
        defaults=TopicDefaults(num_partitions=1, replication_factor=1, current=CurrentSettings(CONFIG.parsed)),
    )
    group_commit = GroupCommit(logs, LateWorkers(), failed=_fail)
    partitions = Partitions(
        broker_id=CONFIG.node_id,
        logs=logs,
        group_commit=group_commit,
        peers=Alone(),
        settings_of=lambda image: CONFIG.parsed,
    )
    listener = RecordedPartitions()
    turns = PartitionTurns(partitions, LateWorkers())
    listener.on_more_work = turns.more_work_found
    partitions.start(metadata_log.image, listener)
    metadata_log.publish_to(PublishedTo(partitions.apply))
    await register_broker(
        metadata_log,
        broker_id=CONFIG.node_id,
        endpoint=("PLAINTEXT", "localhost", 9092),
        directories=list(storage.directory_ids.values()),
    )
    return Node(
        storage=storage,
        logs=logs,
        metadata_log=metadata_log,
        controller=controller,
        partitions=partitions,
        group_commit=group_commit,
        turns=turns,
        turning=asyncio.get_running_loop().create_task(turns.run()),
    )


def _fail(error: BaseException) -> None:
    raise AssertionError("this disk does not fail") from error


async def _metadata_log(
    surroundings: Surroundings, storage: Storage, leading: Callable[[MetadataLog], None]
) -> MetadataLog:
    quorum = quorum_config(CONFIG, storage)
    metadata_log = open_metadata(CONFIG, quorum, surroundings=surroundings, workers=LateWorkers(), channel=NoPeers())
    reject_other_voters(metadata_log, quorum)
    leading(metadata_log)
    await lead(metadata_log)
    return metadata_log
