"""Transaction markers: appended to partitions that this broker leads.

A marker for a partition of __consumer_offsets goes through the group coordinator, because the marker changes its state.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from kwire.chunks import Pieces, at_once, in_turns
from kwire.cluster.partitions.commits import committed
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC
from kwire.coordinator.answers import Answer
from kwire.log.append_result import AppendResult
from kwire.log.disk import DiskFailure
from kwire.protocol.control_records import EndTransactionMarker, encode_marker_batch
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Clock

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]
Outcomes = Mapping[TopicPartition, ErrorCode]
MARKERS_AT_ONCE: Final = 16
"""Markers that are appended in one step; each takes 0.1 ms."""


_NOT_COORDINATING = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


class TransactionMarker(NamedTuple):
    """Transaction marker to write: the end of a producer's transaction."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


class OffsetShards(Protocol):
    """Interface to the group coordinator, whose state changes when a transaction ends in __consumer_offsets."""

    def end_transaction(self, index: int, marker: TransactionMarker) -> AppendResult:
        """Append a marker. Raises KafkaError or DiskFailure."""


def append_marker(partition: Partition, marker: TransactionMarker, now_ms: int) -> AppendResult:
    """Append a marker to a partition. Raises KafkaError or DiskFailure."""
    batch = encode_marker_batch(
        EndTransactionMarker(is_commit=marker.is_commit, coordinator_epoch=marker.coordinator_epoch),
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        timestamp=now_ms,
    )
    return partition.append_marker(
        bytes(batch), marker.producer_id, marker.producer_epoch, transaction_version=marker.transaction_version
    )


class LocalMarkerWriter:
    """Writer of markers to partitions that this broker leads, for the transaction coordinators of all brokers."""

    def __init__(self, *, partitions: Partitions, offsets: OffsetShards, clock: Clock) -> None:
        self._partitions = partitions
        self._offsets = offsets
        self._clock = clock

    def write(self, marker: TransactionMarker, partitions: Collection[TopicPartition]) -> Answer[Outcomes]:
        """Return the result for each partition; an awaitable if some are not written or committed yet."""
        pieces = self.write_in_pieces(marker, partitions)
        return at_once(pieces) if len(partitions) <= MARKERS_AT_ONCE else _run_in_turns(pieces)

    def write_in_pieces(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> Pieces[Answer[Outcomes]]:
        """Return the result for each partition; an awaitable if some are not committed yet."""
        outcomes: dict[TopicPartition, ErrorCode] = {}
        waiting: list[tuple[TopicPartition, Partition, int]] = []
        for number, (topic, index) in enumerate(partitions, 1):
            if number % MARKERS_AT_ONCE == 0:
                yield
            try:
                partition, result = self._append(topic, index, marker)
            except KafkaError as error:
                outcomes[topic, index] = _partition_code(error.code)
                continue
            except DiskFailure as failure:
                logger.error("%s-%d: %s", topic, index, failure)  # noqa: TRY400 no traceback needed
                outcomes[topic, index] = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            outcomes[topic, index] = ErrorCode.NONE
            if partition.high_watermark <= result.last_offset:
                waiting.append(((topic, index), partition, result.last_offset))
        return _wait_committed(outcomes, waiting) if waiting else outcomes

    def _append(self, topic: str, index: int, marker: TransactionMarker) -> tuple[Partition, AppendResult]:
        partition = self._partitions.find(topic, index)
        if topic == GROUP_OFFSETS_TOPIC:
            return partition, self._offsets.end_transaction(index, marker)
        return partition, append_marker(partition, marker, self._clock.wall_ms())


def _partition_code(code: ErrorCode) -> ErrorCode:
    """Return NOT_LEADER_OR_FOLLOWER for a group coordinator's code, since the sender addresses a partition leader."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_COORDINATING else code


async def _run_in_turns(pieces: Pieces[Answer[Outcomes]]) -> Outcomes:
    outcomes = await in_turns(pieces)
    return await outcomes if isinstance(outcomes, Awaitable) else outcomes


async def _wait_committed(
    outcomes: dict[TopicPartition, ErrorCode], waiting: list[tuple[TopicPartition, Partition, int]]
) -> Outcomes:
    for key, partition, last_offset in waiting:
        try:
            await committed(partition, last_offset)
        except KafkaError as error:
            outcomes[key] = error.code
    return outcomes
