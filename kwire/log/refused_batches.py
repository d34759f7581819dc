"""Which batches of idempotent producers found no space: each comes again, and nothing behind it may come before.

A client that sends several at once may hear of the refusal long after there is space again, for answers come in order.
A later batch that is stored before would take the place of the refused one where nothing is known of the producer. Told
of a gap, librdkafka begins a new epoch, and stores again what it knows no answer to.
"""

from __future__ import annotations

from typing import Final

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader
from kwire.protocol.wrapping import SEQUENCE_MAX

PRODUCERS_MAX: Final = 1_000
"""The one whose first refusal is the longest ago is forgotten for another."""
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
        self._refused: dict[int, _Refused] = {}

    def note(self, header: BatchHeader) -> None:
        """A batch was judged to be the next one, and found no space."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID or header.base_sequence == NO_SEQUENCE:
            return
        self._refused[producer_id] = _Refused(header.producer_epoch, header.base_sequence)
        if len(self._refused) > PRODUCERS_MAX:
            del self._refused[next(iter(self._refused))]

    def check(self, header: BatchHeader) -> None:
        """Refuse what is behind a refused batch as that was: KafkaError KAFKA_STORAGE_ERROR."""
        refused = self._refused.get(header.producer_id)
        if refused is None or not refused.is_behind(header):
            return
        if refused.is_given_up(header):
            del self._refused[header.producer_id]
            return
        refused.held_back.append(header.base_sequence)
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"producer {header.producer_id}: sequence {refused.base_sequence}, for which the disk was full, "
            f"comes before {header.base_sequence}",
        )

    def settle(self, header: BatchHeader) -> None:
        """A batch was stored, here or by another leader."""
        refused = self._refused.get(header.producer_id)
        if refused is not None and refused.is_settled_by(header):
            del self._refused[header.producer_id]

    def forget(self, producer_id: int) -> None:
        """A producer's transaction has ended: what was not stored is not part of it."""
        self._refused.pop(producer_id, None)
