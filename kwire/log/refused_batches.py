"""Which batches of idempotent producers found no space: each comes again, and nothing behind it may come before.

A client that sends several at once may hear of the refusal long after there is space again, for answers come in order.
A later batch that is stored before would take the place of the refused one where nothing is known of the producer. Told
of a gap, librdkafka begins a new epoch, and stores again what it knows no answer to.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader

PRODUCERS_MAX: Final = 10_000
"""The one whose first refusal is the longest ago is forgotten for another."""
COMES_AGAIN_MS: Final = 300_000
"""librdkafka's message.timeout.ms, the longest time for which a client, as it ships, sends a batch again."""


class _Refused(NamedTuple):
    producer_epoch: int
    base_sequence: int
    since_ms: int


class RefusedBatches:
    """Of each producer id the first batch of its newest epoch that one log had no space for."""

    def __init__(self) -> None:
        self._refused: dict[int, _Refused] = {}

    def note(self, header: BatchHeader, now_ms: int) -> None:
        """A batch was judged to be the next one, and found no space."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID or header.base_sequence == NO_SEQUENCE:
            return
        self._refused[producer_id] = _Refused(header.producer_epoch, header.base_sequence, now_ms)
        if len(self._refused) > PRODUCERS_MAX:
            del self._refused[next(iter(self._refused))]

    def forget(self, header: BatchHeader) -> None:
        """A batch was stored, which may be the refused one, or of an epoch in which that does not count any more."""
        refused = self._refused.get(header.producer_id)
        if refused is not None and (
            header.base_sequence == refused.base_sequence
            if header.producer_epoch == refused.producer_epoch
            else header.producer_epoch > refused.producer_epoch
        ):
            del self._refused[header.producer_id]

    def check(self, header: BatchHeader) -> None:
        """Refuse what is behind a refused batch as that was: KafkaError KAFKA_STORAGE_ERROR."""
        refused = self._refused.get(header.producer_id)
        if (
            refused is not None
            and header.producer_epoch == refused.producer_epoch
            and header.base_sequence > refused.base_sequence
        ):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"producer {header.producer_id}: sequence {refused.base_sequence}, for which the disk was full, "
                f"comes before {header.base_sequence}",
            )

    def expire(self, now_ms: int) -> None:
        """Forget what has not come again for so long that it will not."""
        for producer_id, refused in list(self._refused.items()):
            if now_ms - refused.since_ms >= COMES_AGAIN_MS:
                del self._refused[producer_id]
