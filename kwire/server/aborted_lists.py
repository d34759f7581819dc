"""The aborted transactions that a fetch of committed records tells, for the client to skip."""

from __future__ import annotations

from typing import Final

from kwire.cluster.partition import Partition
from kwire.log.lookup import end_offset_of
from kwire.protocol.messages.fetch import AbortedTransaction

ABORTED_TRANSACTION_BYTES: Final = 17
"""Of an answer: producer id, first offset, tagged fields."""


def aborted_in(partition: Partition, offset: int, batches: bytes) -> list[AbortedTransaction]:
    """Return what a consumer has to skip in batches that it reads from an offset on; no more than what they hold.

    Raises NotReadyError while that is found out, step by step, for the first reader after a start.
    """
    if not batches:
        return []
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.log.aborted_transactions(offset, end_offset_of(batches))
    ]
