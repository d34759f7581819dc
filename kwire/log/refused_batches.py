"""Which batches of idempotent producers were refused: each comes again, and nothing behind it may come before.

A batch is refused because there was no space for it, or because its transaction's coordinator did not know of the
partition (kwire.coordinator.transaction.gate). A client that sends several at once may hear of the refusal long after
the reason is gone, for answers come in order. A later batch that is stored before would take the place of the refused
one where nothing is known of the producer. Told of a gap, librdkafka begins a new epoch, and stores again what it knows
no answer to.
"""

from __future__ import annotations

from typing import Final

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import CONTROL_FLAG, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader
from kwire.protocol.wrapping import SEQUENCE_MAX

PRODUCERS_MAX: Final = 1_000
"""For each reason; the one whose first refusal is the longest ago is forgotten for another."""
BEHIND_MAX: Final = 4
"""With five requests on their way, so many follow a batch before its client hears of it."""


class _Refused:
    """The first batch of a producer's newest epoch that found no space."""

    __slots__ = ("base_sequence", "held_back", "producer_epoch")

    def __init__(self, producer_epoch: int, base_sequence: int) -> None:
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.held_back: list[int] = []
        """The base sequences of the batches behind it that have come since it came last."""

    def is_given_up(self, header: BatchHeader) -> bool:
        """Whether a batch behind it tells that it will not come again: it would have come before this one."""
        return header.base_sequence in self.held_back or len(self.held_back) == BEHIND_MAX

    def is_behind(self, header: BatchHeader) -> bool:
        """Whether a batch comes later in the same epoch."""
        return header.producer_epoch == self.producer_epoch and 0 < self._distance_to(header) <= SEQUENCE_MAX // 2

    def is_settled_by(self, header: BatchHeader) -> bool:
        """Whether it is not waited for any more once this batch is stored."""
        if header.producer_epoch != self.producer_epoch:
            return header.producer_epoch > self.producer_epoch
        return self._distance_to(header) <= SEQUENCE_MAX // 2

    def _distance_to(self, header: BatchHeader) -> int:
        """Sequence numbers begin again at 0: what lies before is as far as can be."""
        return (header.base_sequence - self.base_sequence) & SEQUENCE_MAX


class RefusedBatches:
    """Those of one log's producers."""

    def __init__(self) -> None:
        self._without_space: dict[int, _Refused] = {}
        self._not_admitted: dict[int, tuple[int, int]] = {}
        """By producer id, epoch and lowest sequence of the batches that the transaction gate has refused."""

    # Batches that found no space

    def found_no_space(self, header: BatchHeader) -> None:
        """A batch was judged to be the next one, and found no space."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID or header.base_sequence == NO_SEQUENCE:
            return
        self._without_space[producer_id] = _Refused(header.producer_epoch, header.base_sequence)
        if len(self._without_space) > PRODUCERS_MAX:
            del self._without_space[next(iter(self._without_space))]

    def check(self, header: BatchHeader) -> None:
        """Refuse what is behind a batch without space as that was: KafkaError KAFKA_STORAGE_ERROR."""
        refused = self._without_space.get(header.producer_id)
        if refused is None or not refused.is_behind(header):
            return
        if refused.is_given_up(header):
            del self._without_space[header.producer_id]
            return
        refused.held_back.append(header.base_sequence)
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"producer {header.producer_id}: sequence {refused.base_sequence}, for which the disk was full, "
            f"comes before {header.base_sequence}",
        )

    # Batches that the transaction gate has refused

    def not_admitted(self, producer_id: int, epoch: int, sequence: int) -> None:
        """A batch with this sequence, -1 if sequences do not count, was refused for whatever reason but space.

        Apache Kafka, too, keeps the lowest sequence until an append succeeds.
        """
        known_epoch, lowest = self._not_admitted.get(producer_id, (epoch, sequence))
        if sequence < 0 or known_epoch > epoch:
            return
        self._not_admitted.pop(producer_id, None)  # the newest stands last
        self._not_admitted[producer_id] = epoch, min(lowest, sequence) if known_epoch == epoch else sequence
        if len(self._not_admitted) > PRODUCERS_MAX:
            del self._not_admitted[next(iter(self._not_admitted))]

    def admit(self, producer_id: int, epoch: int, sequence: int, *, has_batches: bool) -> KafkaError | None:
        """Return the error of a batch before which a refused one has to come; None admits it.

        A log that has batches of the epoch (`has_batches`) knows better which one is next: what was refused here may
        have been a late repetition, or has been admitted by another leader meanwhile. (Apache Kafka forgets what it
        refused when its log, be it a follower's, takes in anything of the producer's transactions.)
        """
        known_epoch, lowest = self._not_admitted.get(producer_id, (-1, 0))
        if known_epoch == epoch and sequence > lowest and not has_batches:
            return KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id}: sequence {sequence} comes before {lowest}, which was refused",
            )
        if known_epoch <= epoch:
            self._not_admitted.pop(producer_id, None)
        return None

    # Both

    def stored(self, header: BatchHeader) -> None:
        """A batch was stored, here or by another leader; one that is only replayed tells nothing new."""
        producer_id = header.producer_id
        if header.attributes & CONTROL_FLAG:  # the transaction has ended: what was not stored is not part of it
            self._without_space.pop(producer_id, None)
            self._not_admitted.pop(producer_id, None)
            return
        refused = self._without_space.get(producer_id)
        if refused is not None and refused.is_settled_by(header):
            del self._without_space[producer_id]
