"""Group and transaction coordinators of a broker, and the requests that they send to other nodes."""

from __future__ import annotations

from collections.abc import Callable

from kwire.cluster.features import TRANSACTION_VERSION
from kwire.cluster.image import MetadataImage
from kwire.cluster.partitions import Partitions
from kwire.coordinator.group_coordinator import GroupConfig, GroupCoordinator
from kwire.coordinator.markers import MarkerWriter
from kwire.coordinator.transaction.gate import TransactionGate
from kwire.coordinator.transaction_coordinator import TransactionConfig, TransactionCoordinator
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kwire.server.active_controller import ActiveController
from kwire.server.node import Node
from kwire.server.other_brokers import MarkersEverywhere, OtherBrokers, TransactionsEverywhere
from kwire.server.producer_ids import ProducerIds
from kwire.server.settings.config import BrokerConfig


class Coordinators:
    """Coordinators of the internal topics' partitions that this broker leads."""

    def __init__(
        self,
        node: Node,
        partitions: Partitions,
        active_controller: ActiveController,
        *,
        broker_epoch: Callable[[], int],
        loaded: Callable[[int], None],
    ) -> None:
        self._node = node
        self._active_controller = active_controller
        self._broker_epoch = broker_epoch
        config = node.config
        others = OtherBrokers(
            broker_id=config.node_id,
            listener_name=config.inter_broker_listener_name,
            image=self._image,
            channel=node.channel,
        )
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self.groups = GroupCoordinator(
            config=_group_config(config),
            partitions=partitions,
            image=self._image,
            clock=node.clock,
            random_source=node.random_source,
            loaded=loaded,
        )
        self.markers = MarkerWriter(partitions=partitions, offsets=self.groups, clock=node.clock)
        self._markers_everywhere = MarkersEverywhere(self.markers, others)
        self.transactions = TransactionCoordinator(
            config=_transaction_config(config),
            partitions=partitions,
            image=self._image,
            clock=node.clock,
            next_producer_id=self.producer_ids.next,
            version=lambda: self._image().features.get(TRANSACTION_VERSION, 0),
            channel=self._markers_everywhere,
            loaded=loaded,
        )
        self._transactions_everywhere = TransactionsEverywhere(self.transactions, others)
        self.gate = TransactionGate(
            coordinator=self._transactions_everywhere,
            config=_transaction_config(config),
            clock=node.clock,
            verifies=lambda: bool(config.typed["transaction.partition.verification.enable"]),
        )
        for coordinator in (self.groups, self.transactions):
            partitions.watch_removals(coordinator.partition_removed)
            partitions.watch_leadership(coordinator.leadership_changed)
        partitions.watch_deletions(self.groups.topic_deleted)

    async def start(self) -> None:
        """Serve the partitions that this broker leads; large ones are loaded in the background."""
        self._note_internal_topics()
        self._node.metadata_log.watch(self._note_internal_topics)
        await self.groups.start()
        await self.transactions.start()

    def _note_internal_topics(self, *_: MetadataImage) -> None:
        self.groups.keys.look()
        self.transactions.keys.look()

    def stop(self) -> None:
        """Answer all waiting requests, and stop."""
        self.gate.stop()
        self.transactions.stop()
        self._transactions_everywhere.stop()
        self._markers_everywhere.stop()
        self.groups.stop()

    def _image(self) -> MetadataImage:
        return self._node.metadata_log.image

    async def _allocate_producer_ids(self) -> range:
        """Return a block of producer ids. Raises a retriable KafkaError."""
        request = AllocateProducerIdsRequest(broker_id=self._node.config.node_id, broker_epoch=self._broker_epoch())
        response = await self._active_controller.ask_until_answered(request)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode(response.error_code).name)
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)


def _group_config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        offset_metadata_bytes_max=config["offset.metadata.max.bytes"],
        commit_timeout_ms=config["offsets.commit.timeout.ms"],
        offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
        retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
    )


def _transaction_config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(
        timeout_max_ms=config["transaction.max.timeout.ms"],
        write_timeout_ms=config["request.timeout.ms"],
        abort_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        expiration_ms=config["transactional.id.expiration.ms"],
        expiration_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
        add_backoff_ms=config["add.partitions.to.txn.retry.backoff.ms"],
        add_backoff_max_ms=config["add.partitions.to.txn.retry.backoff.max.ms"],
    )
