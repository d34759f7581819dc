"""List of aborted transactions in a fetch response: a read_committed consumer skips their records."""

from __future__ import annotations

from typing import Final

from kwire.cluster.partitions.partition import Partition
from kwire.log.lookup import end_offset_of
from kwire.protocol.messages.fetch import AbortedTransaction

ABORTED_TRANSACTION_BYTES: Final = 17
"""Size of one entry in a response: producer id, first offset, tagged fields."""


def aborted_in(partition: Partition, offset: int, batches: bytes) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap batches read from an offset on, and no others.

    Raises NotReadyError until they have been read from the log, step by step, for the first reader after a start.
    """
    if not batches:
        return []
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.log.aborted_transactions(offset, end_offset_of(batches))
    ]
