"""Requests of coordinators to other brokers: markers to partition leaders, and requests to transaction coordinators.

Requests to this broker stay in the process. Markers or transactions that wait for the same other broker share requests
(RequestBatches).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kwire.cluster.channel import Channel, Destination, Unreachable
from kwire.cluster.metadata.image import NO_LEADER, MetadataImage
from kwire.cluster.topic_names import TRANSACTION_STATE_TOPIC
from kwire.coordinator.answers import Answer, when_all_answered
from kwire.coordinator.markers import LocalMarkerWriter, Outcomes, TopicPartition, TransactionMarker
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
from kwire.server.other_nodes.request_batches import PARTITIONS_MAX, RequestBatches

_Codes = dict[TopicPartition, ErrorCode]


class _MarkerRequest(NamedTuple):
    """Marker and the partitions into which another broker has to write it."""

    marker: TransactionMarker
    partitions: Sequence[TopicPartition]

    def to_request(self) -> WritableTxnMarker:
        return WritableTxnMarker(
            producer_id=self.marker.producer_id,
            producer_epoch=self.marker.producer_epoch,
            transaction_result=self.marker.is_commit,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                for name, indexes in _by_topic(self.partitions).items()
            ],
            coordinator_epoch=self.marker.coordinator_epoch,
            transaction_version=self.marker.transaction_version,
        )


class OtherBrokers:
    """Client of other brokers at their inter-broker listener."""

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
        """Return a broker's response. Raises Unreachable."""
        broker = self.image.brokers.get(broker_id)
        for end in () if broker is None else broker.endpoints:
            if end.name == self._listener_name:
                return await self._channel.send(Destination(broker_id, end.host, end.port), request)
        raise Unreachable(f"broker {broker_id} is not known to have a listener {self._listener_name}")


class ClusterMarkerWriter:
    """Writer of markers to partitions of all brokers: kwire.coordinator.transaction.completion.MarkerWriter."""

    def __init__(self, writer: LocalMarkerWriter, others: OtherBrokers) -> None:
        self._writer = writer
        self._others = others
        self._batches: RequestBatches[_MarkerRequest, Outcomes] = RequestBatches(self._write_there)

    def write(
        self, leader_id: int, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> Answer[Outcomes]:
        in_order = sorted(partitions)  # the order of a set differs between processes
        if leader_id == self._others.broker_id:
            return self._writer.write(marker, in_order)
        pieces = [
            self._batches.add(leader_id, marker.producer_id, _MarkerRequest(marker, piece), len(piece))
            for piece in _pieces(in_order)
        ]
        return pieces[0] if len(pieces) == 1 else when_all_answered(pieces, _merged)

    def stop(self) -> None:
        """Cancel the requests that wait for a response."""
        self._batches.stop()

    async def _write_there(self, leader_id: int, requests: Sequence[_MarkerRequest]) -> list[Outcomes]:
        """Return the outcomes of each marker; NETWORK_EXCEPTION, which is retried, for partitions without a result."""
        request = WriteTxnMarkersRequest(markers=[each.to_request() for each in requests])
        outcomes = {
            each.marker.producer_id: dict.fromkeys(each.partitions, ErrorCode.NETWORK_EXCEPTION) for each in requests
        }
        try:
            response = await self._others.send(leader_id, request)
        except Unreachable:
            return list(outcomes.values())
        for result in response.markers:
            codes = outcomes.get(result.producer_id, {})
            for topic in result.topics:
                for partition in topic.partitions:
                    codes[topic.name, partition.partition_index] = ErrorCode(partition.error_code)
        return list(outcomes.values())


class ClusterTransactions:
    """Implementation of kwire.coordinator.transaction.verifier.Coordinator, for coordinators on any broker."""

    def __init__(self, here: TransactionCoordinator, others: OtherBrokers) -> None:
        self._here = here
        self._others = others
        self._batches: RequestBatches[AddPartitionsToTxnTransaction, _Codes] = RequestBatches(self._send)

    def stop(self) -> None:
        """Cancel the requests that wait for a response."""
        self._batches.stop()

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
        return self._request_codes(leader_id, transactional_id, producer, partitions, verify_only=True)

    def _leader_of(self, transactional_id: str) -> int:
        """Return the broker that coordinates a transactional id. Raises KafkaError if there is none."""
        index = self._here.partition_for(transactional_id)
        leader_id = self._others.image.topics[TRANSACTION_STATE_TOPIC].partitions[index].leader
        if leader_id == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader_id

    async def _add_there(
        self, leader_id: int, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> None:
        codes = await self._request_codes(leader_id, transactional_id, producer, partitions, verify_only=False)
        rejected = [code for code in codes.values() if code is not ErrorCode.NONE]
        if rejected:
            reasons = [code for code in rejected if code is not ErrorCode.OPERATION_NOT_ATTEMPTED]
            raise KafkaError(reasons[0] if reasons else rejected[0])

    async def _request_codes(
        self,
        leader_id: int,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Return the error code of each partition. Raises KafkaError if the broker does not answer."""
        pieces = []
        for piece in _pieces(partitions):
            topics = [
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in _by_topic(piece).items()
            ]
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                verify_only=verify_only,
                topics=topics,
            )
            pieces.append(self._batches.add(leader_id, transactional_id, transaction, len(piece)))
        codes = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for answer in await asyncio.gather(*pieces):
            codes.update(answer)
        return codes

    async def _send(self, leader_id: int, transactions: Sequence[AddPartitionsToTxnTransaction]) -> list[_Codes]:
        """Return the codes of each transaction's partitions. Raises KafkaError if the broker does not answer."""
        request = AddPartitionsToTxnRequest(transactions=list(transactions))
        try:
            response = await self._others.send(leader_id, request)
        except Unreachable as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(response.error_code))
        codes: dict[str, _Codes] = {each.transactional_id: {} for each in transactions}
        for result in response.results_by_transaction:
            found = codes.get(result.transactional_id, {})
            for topic in result.topic_results:
                for each in topic.results_by_partition:
                    found[topic.name, each.partition_index] = ErrorCode(each.partition_error_code)
        return list(codes.values())


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for name, index in partitions:
        by_topic.setdefault(name, []).append(index)
    return by_topic


def _pieces(partitions: Sequence[TopicPartition]) -> list[Sequence[TopicPartition]]:
    """Split partitions into slices of at most PARTITIONS_MAX."""
    return [partitions[first : first + PARTITIONS_MAX] for first in range(0, len(partitions), PARTITIONS_MAX)]


def _merged(outcomes: Sequence[Outcomes]) -> Outcomes:
    return {partition: code for each in outcomes for partition, code in each.items()}
