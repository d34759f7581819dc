"""Rejected batches of idempotent producers: a later batch must not be stored before the retry of a rejected one.

A batch is rejected because the disk is full, or because its transaction's coordinator does not have the partition
(kwire.coordinator.transaction.verifier). A client with several requests in flight may receive the error long after its
cause has ended, because responses arrive in order. If the producer's state is unknown, a later batch would then be
stored in place of the rejected one. When librdkafka receives an error for a gap, it begins a new epoch, and sends
batches without a response again, which duplicates them.
"""

from __future__ import annotations

from typing import Final

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import CONTROL_FLAG, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader
from kwire.protocol.wrapping import SEQUENCE_MAX

PRODUCERS_MAX: Final = 1_000
"""Maximum producers per reason.

Beyond it the oldest is dropped: for a full disk by its first rejection, for verification by its last one.
"""
FOLLOWING_MAX: Final = 4
"""Batches that may follow a rejected one before its client receives the error, with five requests in flight."""


class _Rejected:
    """First batch of a producer's newest epoch that was rejected because the disk was full."""

    __slots__ = ("base_sequence", "producer_epoch", "rejected_later")

    def __init__(self, producer_epoch: int, base_sequence: int) -> None:
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.rejected_later: list[int] = []
        """Base sequences of later batches that arrived after the last attempt of this one."""

    def is_abandoned(self, header: BatchHeader) -> bool:
        """Return True if a later batch shows that this one will not be retried: a retry would have arrived before."""
        return header.base_sequence in self.rejected_later or len(self.rejected_later) == FOLLOWING_MAX

    def is_followed_by(self, header: BatchHeader) -> bool:
        """Return True if a batch comes later in the same epoch."""
        return header.producer_epoch == self.producer_epoch and 0 < self._distance_to(header) <= SEQUENCE_MAX // 2

    def is_superseded_by(self, header: BatchHeader) -> bool:
        """Return True if this batch is not expected any more once the given one is stored."""
        if header.producer_epoch != self.producer_epoch:
            return header.producer_epoch > self.producer_epoch
        return self._distance_to(header) <= SEQUENCE_MAX // 2

    def _distance_to(self, header: BatchHeader) -> int:
        """Return the distance in sequence numbers, which wrap around to 0; earlier ones have the largest distances."""
        return (header.base_sequence - self.base_sequence) & SEQUENCE_MAX


class RejectedBatches:
    """Rejected batches of one log's producers."""

    def __init__(self) -> None:
        self._without_space: dict[int, _Rejected] = {}
        self._unverified: dict[int, tuple[int, int]] = {}
        """(epoch, lowest sequence) of the batches that the transaction verification rejected, by producer id."""

    # Batches rejected because of a full disk

    def record_disk_full(self, header: BatchHeader) -> None:
        """Record that a batch was rejected because the disk is full."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID or header.base_sequence == NO_SEQUENCE:
            return
        self._without_space[producer_id] = _Rejected(header.producer_epoch, header.base_sequence)
        if len(self._without_space) > PRODUCERS_MAX:
            del self._without_space[next(iter(self._without_space))]

    def check(self, header: BatchHeader) -> None:
        """Reject a batch that follows one that a full disk rejected. Raises KafkaError KAFKA_STORAGE_ERROR."""
        rejected = self._without_space.get(header.producer_id)
        if rejected is None or not rejected.is_followed_by(header):
            return
        if rejected.is_abandoned(header):
            del self._without_space[header.producer_id]
            return
        rejected.rejected_later.append(header.base_sequence)
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"producer {header.producer_id}: sequence {rejected.base_sequence}, for which the disk was full, "
            f"comes before {header.base_sequence}",
        )

    # Batches rejected by the transaction verification

    def record_unverified(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Record a batch that was rejected by the verification or the append after it; `sequence` is -1 if it has none.

        A full disk is recorded by `record_disk_full` instead. As in Apache Kafka, the lowest sequence is kept until an
        append succeeds.
        """
        known_epoch, lowest = self._unverified.get(producer_id, (epoch, sequence))
        if sequence < 0 or known_epoch > epoch:
            return
        self._unverified.pop(producer_id, None)  # the newest is last
        self._unverified[producer_id] = epoch, min(lowest, sequence) if known_epoch == epoch else sequence
        if len(self._unverified) > PRODUCERS_MAX:
            del self._unverified[next(iter(self._unverified))]

    def out_of_order_error(
        self, producer_id: int, epoch: int, sequence: int, *, has_batches: bool
    ) -> KafkaError | None:
        """Return the error for a batch that comes after a rejected one in sequence; None if the batch is accepted.

        If the log has batches of the epoch (`has_batches`), these determine the next sequence instead. The rejected
        batch may have been a late retry, or another leader may have stored it meanwhile. (Apache Kafka drops its entry
        when any replica's log appends a transactional batch of the producer.)
        """
        known_epoch, lowest = self._unverified.get(producer_id, (-1, 0))
        if known_epoch == epoch and sequence > lowest and not has_batches:
            return KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id}: sequence {sequence} comes before {lowest}, which was rejected",
            )
        if known_epoch <= epoch:
            self._unverified.pop(producer_id, None)
        return None

    # Both reasons

    def stored(self, header: BatchHeader) -> None:
        """Record that a batch was stored, here or by another leader; replayed batches do not count."""
        producer_id = header.producer_id
        if header.attributes & CONTROL_FLAG:  # its unstored batches are not part of the transaction
            self._without_space.pop(producer_id, None)
            self._unverified.pop(producer_id, None)
            return
        rejected = self._without_space.get(producer_id)
        if rejected is not None and rejected.is_superseded_by(header):
            del self._without_space[producer_id]
