"""Group, transaction and share coordinators of a broker, and the requests that they send to other nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.cluster.configs.settings import setting
from kwire.cluster.metadata.features import TRANSACTION_VERSION
from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.coordinator.group_coordinator import (
    ConsumerGroupConfig,
    GroupConfig,
    GroupCoordinator,
    ShareGroupConfig,
    StreamsGroupConfig,
)
from kwire.coordinator.markers import LocalMarkerWriter
from kwire.coordinator.share_coordinator import ShareCoordinator, ShareStateConfig
from kwire.coordinator.transaction.verifier import TransactionVerifier
from kwire.coordinator.transaction_coordinator import TransactionConfig, TransactionCoordinator
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kwire.server.node.node import Node
from kwire.server.other_nodes.active_controller import ActiveController
from kwire.server.other_nodes.internal_topics import TopicCreator
from kwire.server.other_nodes.latest_offsets import LatestOffsets
from kwire.server.other_nodes.other_brokers import ClusterMarkerWriter, ClusterTransactions, OtherBrokers
from kwire.server.other_nodes.producer_ids import ProducerIds
from kwire.server.other_nodes.share_persister import SharePersister


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSettings:
    """Settings of transaction verification (KIP-890)."""

    is_enabled: bool = setting("transaction.partition.verification.enable")


class Coordinators:
    """Coordinators of the internal topics' partitions that this broker leads."""

    def __init__(
        self,
        node: Node,
        partitions: Partitions,
        active_controller: ActiveController,
        *,
        broker_epoch: Callable[[], int],
        count_loaded: Callable[[int], None],
    ) -> None:
        self._node = node
        self._active_controller = active_controller
        self._broker_epoch = broker_epoch
        config, settings = node.config, node.settings
        others = OtherBrokers(
            broker_id=config.node_id,
            listener_name=config.inter_broker_listener_name,
            image=self._image,
            channel=node.broker_channel,
        )
        self.topic_creator = TopicCreator(active_controller, node.metadata_log, config, settings, node.clock)
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self.groups = GroupCoordinator(
            config=settings.of(GroupConfig),
            consumer_config=lambda: settings.of(ConsumerGroupConfig),
            share_config=lambda: settings.of(ShareGroupConfig),
            streams_config=lambda: settings.of(StreamsGroupConfig),
            settings=lambda: settings.values,
            partitions=partitions,
            image=self._image,
            clock=node.clock,
            random_source=node.random_source,
            count_loaded=count_loaded,
        )
        self.markers = LocalMarkerWriter(partitions=partitions, offsets=self.groups, clock=node.clock)
        self._cluster_markers = ClusterMarkerWriter(self.markers, others)
        self.transactions = TransactionCoordinator(
            config=settings.of(TransactionConfig),
            partitions=partitions,
            image=self._image,
            clock=node.clock,
            next_producer_id=self.producer_ids.next,
            version=lambda: self._image().features.get(TRANSACTION_VERSION, 0),
            marker_writer=self._cluster_markers,
            count_loaded=count_loaded,
        )
        self._cluster_transactions = ClusterTransactions(self.transactions, others)
        self.transaction_verifier = TransactionVerifier(
            coordinator=self._cluster_transactions,
            config=settings.of(TransactionConfig),
            clock=node.clock,
            verifies=lambda: settings.of(VerificationSettings).is_enabled,
        )
        self.share_states = ShareCoordinator(
            config=settings.of(ShareStateConfig),
            partitions=partitions,
            image=self._image,
            clock=node.clock,
            count_loaded=count_loaded,
        )
        self.share_persister = SharePersister(
            self.share_states, others, create_topic=self.topic_creator.create, clock=node.clock
        )
        self.groups.share.use_states(self.share_persister, LatestOffsets(partitions, others).find)

    async def start(self) -> None:
        """Serve the partitions that this broker leads; large ones are loaded in the background."""
        self.update_partition_counts()
        await self.groups.start()
        await self.transactions.start()
        await self.share_states.start()

    def update_partition_counts(self) -> None:
        """Check whether an internal topic was created or deleted."""
        self.groups.keys.store_partition_count()
        self.transactions.keys.store_partition_count()
        self.share_states.keys.store_partition_count()

    def role_changed(self, partition: Partition) -> None:
        """Serve or release a partition after a change of its leader."""
        self.groups.role_changed(partition)
        self.transactions.role_changed(partition)
        self.share_states.role_changed(partition)

    def leader_epoch_changed(self, partition: Partition) -> None:
        """Load a led partition again if its coordinator could not load it in an earlier leader epoch."""
        if partition.is_led:
            self.role_changed(partition)

    def partition_removed(self, partition: Partition) -> None:
        """Drop the state of a partition that was removed from this broker."""
        self.groups.partition_removed(partition)
        self.transactions.partition_removed(partition)
        self.share_states.partition_removed(partition)

    def topics_created(self, metadata_offset: int) -> None:
        """Match the regular expressions of groups against the topics in the metadata of this offset."""
        self.groups.topics_created(metadata_offset)

    def topic_deleted(self, topic: TopicImage) -> None:
        """Delete the offsets of a deleted topic, and the state of its share partitions."""
        self.groups.topic_deleted(topic)
        self.share_states.topic_deleted(topic)

    def stop(self) -> None:
        """Answer all waiting requests, and stop."""
        self.share_persister.stop()
        self.share_states.stop()
        self.transaction_verifier.stop()
        self.transactions.stop()
        self._cluster_transactions.stop()
        self._cluster_markers.stop()
        self.groups.stop()

    def _image(self) -> MetadataImage:
        return self._node.metadata_log.image

    async def _allocate_producer_ids(self) -> range:
        """Return a block of producer ids. Raises a retriable KafkaError."""
        request = AllocateProducerIdsRequest(broker_id=self._node.config.node_id, broker_epoch=self._broker_epoch())
        response = await self._active_controller.send_until_answered(request)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode(response.error_code).name)
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)
