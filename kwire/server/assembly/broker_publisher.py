"""Publisher of a broker: everything that a committed change of the metadata causes on a broker, in order.

It calls the parts directly, so that this file alone shows what a change causes (docs/decisions/0020).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.cluster.metadata.image import TopicImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partition_listener import PartitionListener
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.raft.metadata_log import MetadataPublisher
from kwire.server.assembly.broker_lifecycle import BrokerLifecycle
from kwire.server.assembly.coordinators import Coordinators
from kwire.server.compaction.cleaner import LogCleaner
from kwire.server.node.node_publisher import NodePublisher, apply_each
from kwire.server.replication.lost_replicas import LostReplicas
from kwire.server.replication.partition_turns import PartitionTurns
from kwire.server.replication.replica_moves import ReplicaMoves
from kwire.server.replication.replication import Replication
from kwire.server.replication.reported_directories import ReportedDirectories
from kwire.server.sharing.share_partitions import SharePartitions


@dataclass(frozen=True, kw_only=True)
class BrokerPublisher(MetadataPublisher, PartitionListener):
    """Publisher of a broker's parts."""

    node: NodePublisher
    partitions: Partitions
    partition_turns: PartitionTurns
    replication: Replication
    lost_replicas: LostReplicas
    moves: ReplicaMoves
    directories: ReportedDirectories
    lifecycle: BrokerLifecycle
    cleaner: LogCleaner | None
    """None if log.cleaner.enable is false."""
    coordinators: Coordinators
    share_partitions: SharePartitions

    # --- changes of the metadata

    def publish(self, delta: MetadataDelta) -> None:
        self.node.publish_acls(delta)
        if self.node.publish_settings(delta):
            self.settings_changed()
        self.partitions.apply(delta)  # it calls the methods below
        if delta.has_new_topics():
            self.coordinators.topics_created(delta.after.offset)
        self.node.publish_quotas(delta)
        self.coordinators.update_partition_counts()
        if delta.before.features.get(SHARE_VERSION, 0) and not delta.after.features.get(SHARE_VERSION, 0):
            self.share_partitions.end_all()

    def settings_changed(self) -> None:
        """Apply changed settings to the parts that do not read them at each use."""
        apply_each(self._cordon_directories, self.replication.settings_changed, self.moves.rate_changed)
        if self.cleaner is not None:
            apply_each(self.cleaner.settings_changed)

    def _cordon_directories(self) -> None:
        if self.directories.settings_changed():
            self.lifecycle.heartbeat_soon()

    def controller_changed(self) -> None:
        self.node.controller_changed()

    # --- changes of partitions

    def partition_opened(self, partition: Partition) -> None:
        self.lost_replicas.opened(partition)

    def leader_epoch_changed(self, partition: Partition) -> None:
        self.replication.leader_epoch_changed(partition)
        self.coordinators.leader_epoch_changed(partition)

    def role_changed(self, partition: Partition) -> None:
        self.coordinators.role_changed(partition)

    def partition_updated(self, partition: Partition) -> None:
        self.lost_replicas.updated(partition)

    def partition_removed(self, partition: Partition) -> None:
        self.replication.stop_following(partition)
        self.lost_replicas.removed(partition)
        self.moves.removed(partition)
        self.coordinators.partition_removed(partition)
        if self.cleaner is not None:
            self.cleaner.partition_removed(partition)

    def partition_closed(self, topic: TopicImage, index: int, is_damaged: bool) -> None:
        self.lost_replicas.not_opened(topic, index, is_damaged)

    def topic_deleted(self, topic: TopicImage) -> None:
        self.coordinators.topic_deleted(topic)

    def more_work_found(self) -> None:
        self.partition_turns.more_work_found()

    # --- changes of log directories

    def directory_failed(self) -> None:
        """Report a log directory that has failed, and notify the waiters of its partitions."""
        self.lifecycle.heartbeat_soon()
        asyncio.get_running_loop().call_soon(self.partitions.wake_failed)  # after the failed call
