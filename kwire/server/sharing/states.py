"""States of in-flight records, types of acknowledgements, and ranges of offsets, with their numbers on the wire."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class RecordState(IntEnum):
    """State of a record in a share partition. Acknowledged and archived are final."""

    __hash__ = int.__hash__

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


FIRST_FINAL: Final = RecordState.ACKNOWLEDGED
"""All states from this number on are final."""


class AcknowledgeType(IntEnum):
    """Type of an acknowledgement. A gap is an offset without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


AFTER: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
"""State of a record after an acknowledgement; a renewal changes only the lock."""


class AcquireMode(IntEnum):
    """Unit in which a share fetch acquires records (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    """Whole batches of the log; their last one may exceed max_records."""
    RECORD_LIMIT = 1
    """At most max_records."""


class Span(NamedTuple):
    """Range of offsets, such as a batch of the log; `last` is inclusive, as on the wire."""

    first: int
    last: int


class Acquired(NamedTuple):
    """Range of records that a share fetch has acquired."""

    first: int
    last: int
    delivery_count: int


class StateBatch(NamedTuple):
    """Range of records with the same state, as the persister stores it."""

    first: int
    last: int
    state: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """Acknowledgement of a range: one type for all of its records, or one for each."""

    first: int
    last: int
    types: list[int]
