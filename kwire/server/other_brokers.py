"""What coordinators ask of other brokers: markers for partitions that those lead, transactions that they coordinate.

What concerns this broker stays in the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kwire.cluster.image import NO_LEADER, MetadataImage
from kwire.cluster.quorum.ready import Destination
from kwire.cluster.raft_node import Channel, Unreachable
from kwire.cluster.topic_names import TRANSACTION_STATE_TOPIC
from kwire.coordinator.answers import Answer
from kwire.coordinator.markers import Marker, MarkerWriter, Outcomes, TopicPartition
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction_coordinator import TransactionCoordinator
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


class OtherBrokers:
    """Where brokers reach each other, and the way there."""

    def __init__(
        self, *, broker_id: int, listener_name: str, image: Callable[[], MetadataImage], channel: Channel
    ) -> None:
        """`listener_name` is inter.broker.listener.name."""
        self.broker_id = broker_id
        self._listener_name = listener_name
        self._image = image
        self._channel = channel

    @property
    def image(self) -> MetadataImage:
        return self._image()

    async def send(self, broker_id: int, request: Any) -> Any:
        """A broker's response. Raises Unreachable."""
        broker = self.image.brokers.get(broker_id)
        for end in () if broker is None else broker.endpoints:
            if end.name == self._listener_name:
                return await self._channel.send(Destination(broker_id, end.host, end.port), request)
        raise Unreachable(f"broker {broker_id} is not known to have a listener {self._listener_name}")


class MarkersEverywhere:
    """Implements kwire.coordinator.transaction.completion.MarkerChannel."""

    def __init__(self, writer: MarkerWriter, others: OtherBrokers) -> None:
        self._writer = writer
        self._others = others

    def write(self, leader_id: int, marker: Marker, partitions: Iterable[TopicPartition]) -> Answer[Outcomes]:
        in_order = sorted(partitions)  # a set's own order is another one in each process
        if leader_id == self._others.broker_id:
            return self._writer.write(marker, in_order)
        return self._write_there(leader_id, marker, in_order)

    async def _write_there(self, leader_id: int, marker: Marker, partitions: Sequence[TopicPartition]) -> Outcomes:
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=marker.is_commit,
                    topics=[
                        WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                        for name, indexes in _by_topic(partitions).items()
                    ],
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=marker.transaction_version,
                )
            ]
        )
        outcomes = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        try:
            response = await self._others.send(leader_id, request)
        except Unreachable:
            return outcomes  # they are asked again
        for result in response.markers:
            for topic in result.topics:
                for each in topic.partitions:
                    outcomes[topic.name, each.partition_index] = ErrorCode(each.error_code)
        return outcomes


class TransactionsEverywhere:
    """Implements kwire.coordinator.transaction.gate.Coordinator: that of a transactional id, wherever it is."""

    def __init__(self, here: TransactionCoordinator, others: OtherBrokers) -> None:
        self._here = here
        self._others = others

    def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], *, client_version: int
    ) -> Answer[None]:
        leader_id = self._leader_of(transactional_id)
        if leader_id == self._others.broker_id:
            return self._here.add(transactional_id, producer, partitions, client_version=client_version)
        return self._add_there(leader_id, transactional_id, producer, partitions)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Answer[Mapping[TopicPartition, ErrorCode]]:
        leader_id = self._leader_of(transactional_id)
        if leader_id == self._others.broker_id:
            return self._here.verify(transactional_id, producer, partitions)
        return self._ask(leader_id, transactional_id, producer, partitions, verify_only=True)

    def _leader_of(self, transactional_id: str) -> int:
        """Raises KafkaError while nobody coordinates it."""
        index = self._here.partition_for(transactional_id)
        leader_id = self._others.image.topics[TRANSACTION_STATE_TOPIC].partitions[index].leader
        if leader_id == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader_id

    async def _add_there(
        self, leader_id: int, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> None:
        codes = await self._ask(leader_id, transactional_id, producer, partitions, verify_only=False)
        refused = [code for code in codes.values() if code is not ErrorCode.NONE]
        if refused:
            reasons = [code for code in refused if code is not ErrorCode.OPERATION_NOT_ATTEMPTED]
            raise KafkaError(reasons[0] if reasons else refused[0])

    async def _ask(
        self,
        leader_id: int,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """What comes of each partition. Raises KafkaError when nobody says."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=verify_only,
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in _by_topic(partitions).items()
            ],
        )
        try:
            response = await self._others.send(leader_id, AddPartitionsToTxnRequest(transactions=[transaction]))
        except Unreachable as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(response.error_code))
        codes = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for result in response.results_by_transaction:
            for topic in result.topic_results:
                for each in topic.results_by_partition:
                    codes[topic.name, each.partition_index] = ErrorCode(each.partition_error_code)
        return codes


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for name, index in partitions:
        by_topic.setdefault(name, []).append(index)
    return by_topic
