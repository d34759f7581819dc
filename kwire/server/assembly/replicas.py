"""Phase of a broker's start that opens its logs and applies the metadata: everything that works on its replicas.

A broker opens its logs only with metadata that contain its own registration: older metadata do not fit its logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.configs.group_configs import GroupConfigs
from kwire.cluster.configs.settings import setting
from kwire.cluster.directory_ids import is_reserved
from kwire.cluster.jobs import run_stages
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.partitions.group_commit import GroupCommit
from kwire.cluster.partitions.partitions import Partitions
from kwire.log.log_manager import LogManager
from kwire.protocol.uuids import uuid_to_text
from kwire.repeated_messages import RepeatedMessages
from kwire.server.assembly.broker_lifecycle import BrokerLifecycle
from kwire.server.assembly.broker_publisher import BrokerPublisher
from kwire.server.assembly.broker_registrar import BrokerRegistrar
from kwire.server.assembly.coordinators import Coordinators
from kwire.server.assembly.housekeeping import Housekeeping
from kwire.server.assembly.quorum_member import QuorumMember
from kwire.server.compaction.cleaner import CleanerParts, LogCleaner
from kwire.server.compaction.rounds import ProcessRounds
from kwire.server.node.node import Node
from kwire.server.node.runtime import recovery_threads
from kwire.server.replication.directory_assignments import DirectoryAssignments
from kwire.server.replication.lost_replicas import LostReplicas
from kwire.server.replication.partition_turns import PartitionTurns
from kwire.server.replication.replica_moves import ReplicaMoves
from kwire.server.replication.replication import BrokerPeers, Replication
from kwire.server.replication.reported_directories import ReportedDirectories
from kwire.server.requests.large_batches import WorkersForLargeBatches
from kwire.server.sharing.persister import Persister
from kwire.server.sharing.share_partitions import SharePartitions

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """Settings that say whether a log cleaner runs."""

    is_enabled: bool = setting("log.cleaner.enable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Parts of a broker that work on its replicas and their logs; its publisher applies each committed change."""

    logs: LogManager
    group_commit: GroupCommit
    partitions: Partitions
    partition_turns: PartitionTurns
    replication: Replication
    moves: ReplicaMoves
    lifecycle: BrokerLifecycle
    coordinators: Coordinators
    share_partitions: SharePartitions
    housekeeping: Housekeeping
    cleaner: LogCleaner | None
    """None if log.cleaner.enable is false."""


async def open_replicas(
    member: QuorumMember,
    registrar: BrokerRegistrar,
    missing_directories: Sequence[UUID],
    *,
    count_loaded: Callable[[int], None],
    logs_undo: ExitStack,
    undo: AsyncExitStack,
) -> Replicas:
    """Open the logs, and make every committed change take effect on them from then on.

    `missing_directories` are registered ids of log directories that this node does not have.
    """
    node, active_controller = member.node, member.active_controller
    opened = await _open_logs(member, registrar, logs_undo)
    logs, partitions = opened.logs, opened.partitions
    directories = ReportedDirectories(
        config=node.config,
        settings=node.settings,
        directories=logs.directories,
        directory_ids=node.storage.directory_ids,
    )
    lifecycle = _lifecycle(member, registrar, directories)
    replication = Replication(node, partitions, opened.peers)
    assignments = DirectoryAssignments(
        broker_id=node.config.node_id,
        broker_epoch=registrar.broker_epoch,
        directory_ids=node.storage.directory_ids,
        active_controller=active_controller,
    )
    lost_replicas = LostReplicas(
        broker_id=node.config.node_id, replication=replication, assignments=assignments, disk=node.disk
    )
    moves = ReplicaMoves(
        logs=logs,
        partitions=partitions,
        workers=node.workers,
        dynamic_configs=node.dynamic_configs,
        assignments=assignments,
        moved=lost_replicas.opened,
    )
    housekeeping = _housekeeping(node, logs, partitions)
    coordinators = Coordinators(
        node, partitions, active_controller, broker_epoch=registrar.broker_epoch, count_loaded=count_loaded
    )
    replicas = Replicas(
        logs=logs,
        group_commit=opened.group_commit,
        partitions=partitions,
        partition_turns=PartitionTurns(partitions, node.workers),
        replication=replication,
        moves=moves,
        lifecycle=lifecycle,
        coordinators=coordinators,
        share_partitions=_share_partitions(node, partitions, coordinators.share_persister),
        housekeeping=housekeeping,
        cleaner=_cleaner(node, logs, housekeeping),
    )
    publisher = _publisher(member, replicas, directories, lost_replicas)
    undo.callback(replicas.coordinators.stop)
    undo.callback(node.metadata_log.publish_to, member.publisher)
    _follow_metadata(node, replicas, publisher, missing_directories)
    replication.start()
    for task in (replicas.partition_turns.run(), assignments.run(), lost_replicas.run(), moves.run()):
        node.broker_tasks.run(task)
    if missing_directories and not partitions.any_closed:
        # Otherwise the missing directories stay registered: the next start, too, must expect them, and must not create
        # empty logs for their partitions.
        await registrar.register(list(node.storage.directory_ids.values()))
    return replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenLogs:
    """Logs that were on the disks, opened, and the partitions that will use them."""

    logs: LogManager
    group_commit: GroupCommit
    peers: BrokerPeers
    partitions: Partitions


async def _open_logs(member: QuorumMember, registrar: BrokerRegistrar, undo: ExitStack) -> _OpenLogs:
    """Open the logs that are on the disks, several at the same time."""
    node = member.node
    logs = LogManager(node.config.log_dirs, node.runtime.surroundings, locks=node.storage.locks)
    undo.callback(logs.close, clean=False)
    group_commit = GroupCommit(logs, node.workers, failed=node.background.fail)
    peers = BrokerPeers(node, member.active_controller, broker_epoch=registrar.broker_epoch)
    partitions = Partitions(
        broker_id=node.config.node_id,
        logs=logs,
        group_commit=group_commit,
        peers=peers,
        settings_of=node.dynamic_configs.settings_of,
    )
    at_once = recovery_threads(node.settings, directories=1)  # directories are loaded one after another
    loading = partitions.loading(node.metadata_log.image, at_once=at_once)
    await run_stages(loading, node.runtime.recovery_workers(at_once), at_once=at_once)
    return _OpenLogs(logs=logs, group_commit=group_commit, peers=peers, partitions=partitions)


def _lifecycle(member: QuorumMember, registrar: BrokerRegistrar, directories: ReportedDirectories) -> BrokerLifecycle:
    return BrokerLifecycle(
        registrar,
        broker_id=member.node.config.node_id,
        settings=member.node.settings,
        active_controller=member.active_controller,
        metadata_log=member.node.metadata_log,
        directories=directories,
        clock=member.node.clock,
    )


def _share_partitions(node: Node, partitions: Partitions, persister: Persister) -> SharePartitions:
    settings = node.settings

    def overrides(group_id: str) -> Mapping[str, str]:
        return node.metadata_log.image.config_of(ConfigResourceType.GROUP, group_id)

    return SharePartitions(
        partitions=partitions,
        persister=persister,
        configs=GroupConfigs(overrides, lambda: settings.values),
        settings=settings,
        clock=node.clock,
        large_batches=WorkersForLargeBatches(node.workers),
        messages=RepeatedMessages(logger, node.clock.monotonic_ms),
    )


def _publisher(
    member: QuorumMember, replicas: Replicas, directories: ReportedDirectories, lost_replicas: LostReplicas
) -> BrokerPublisher:
    return BrokerPublisher(
        node=member.publisher,
        partitions=replicas.partitions,
        partition_turns=replicas.partition_turns,
        replication=replicas.replication,
        lost_replicas=lost_replicas,
        moves=replicas.moves,
        directories=directories,
        lifecycle=replicas.lifecycle,
        cleaner=replicas.cleaner,
        coordinators=replicas.coordinators,
        share_partitions=replicas.share_partitions,
    )


def _follow_metadata(
    node: Node, replicas: Replicas, publisher: BrokerPublisher, missing_directories: Sequence[UUID]
) -> None:
    """Apply the committed image, and hand over to the publisher of the broker, in one step of the event loop."""
    image = node.metadata_log.image
    missing = absent_directories(node, {*missing_directories, *_assigned_directories(image, node.config.node_id)})
    _log_missing_directories(missing)
    replicas.partitions.start(image, publisher, is_directory_lost=bool(missing))
    for directory in replicas.logs.directories:
        directory.failed = publisher.directory_failed
    node.metadata_log.publish_to(publisher)


def _housekeeping(node: Node, logs: LogManager, partitions: Partitions) -> Housekeeping:
    return Housekeeping(
        settings=node.settings,
        image=lambda: node.metadata_log.image,
        partitions=partitions,
        logs=logs,
        workers=node.workers,
        memory=node.runtime.seams.memory,
    )


def _cleaner(node: Node, logs: LogManager, housekeeping: Housekeeping) -> LogCleaner | None:
    if not node.settings.of(CleanerSettings).is_enabled:
        return None
    return LogCleaner(
        CleanerParts(
            settings=node.settings,
            logs=logs,
            disk=node.disk,
            clock=node.clock,
            workers=node.workers,
            rounds=node.runtime.seams.rounds or ProcessRounds(),
            last_stable_offset_of=housekeeping.last_stable_offset_of,
        )
    )


def _assigned_directories(image: MetadataImage, broker_id: int) -> set[UUID]:
    """Return the directories that have a broker's replicas in the metadata, even if one failed before the last stop."""
    partitions = (partition for topic in image.topics.values() for partition in topic.partitions)
    assigned = {
        partition.directories[partition.replicas.index(broker_id)]
        for partition in partitions
        if broker_id in partition.replicas and partition.directories
    }
    return {directory_id for directory_id in assigned if not is_reserved(directory_id)}


def absent_directories(node: Node, directory_ids: Iterable[UUID]) -> list[UUID]:
    """Return the ids of directories that this node does not have: a volume may not be mounted."""
    return sorted(set(directory_ids).difference(node.storage.directory_ids.values()))


def _log_missing_directories(directory_ids: Iterable[UUID]) -> None:
    for directory_id in directory_ids:
        logger.error(
            "log.dirs: the directory with directory.id=%s is missing: mount it and restart. Replicas that only "
            "it has are copied again from their leaders. A replica that may have records that no other replica has "
            "stays closed until the directory is back, others are in sync, or its partition is reassigned",
            uuid_to_text(directory_id),
        )
