"""The aborted transactions that a fetch of committed records tells, for the client to skip."""

from __future__ import annotations

from typing import Final

from kwire.cluster.partition import Partition
from kwire.log.disk import DiskFailure
from kwire.log.errors import UncheckedTransactionsError
from kwire.log.lookup import end_offset_of
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.fetch import AbortedTransaction

ABORTED_TRANSACTION_BYTES: Final = 17
"""Of an answer: producer id, first offset, tagged fields."""


def aborted_in(partition: Partition, offset: int, batches: bytes) -> list[AbortedTransaction]:
    """Return what a consumer has to skip in batches that it reads from an offset on; no more than what they hold.

    Raises UncheckedTransactionsError while that is found out, step by step, for the first reader after a start.
    """
    if not batches:
        return []
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.log.aborted_transactions(offset, end_offset_of(batches))
    ]


def is_checked(partition: Partition, offset: int, end_offset: int) -> bool:
    """Return False while it is being found out what to skip between two offsets; each call does a step."""
    try:
        partition.log.aborted_transactions(offset, end_offset)
    except UncheckedTransactionsError:
        return False
    except (KafkaError, DiskFailure):
        return True  # a read will tell
    return True
