"""What a round of compaction is told and what it tells: plain values, which can cross to another process as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from kwire.log.transaction_index import AbortedTransaction


@dataclass(slots=True, kw_only=True, frozen=True)
class SourceSegment:
    """A closed segment: nobody writes it any more."""

    base_offset: int
    end_offset: int
    """Where the next segment begins."""
    size: int
    offset_index_bytes: int
    time_index_bytes: int
    has_transaction_index: bool


@dataclass(slots=True, kw_only=True, frozen=True)
class LastRecord:
    """Where an active producer's last batch is; its sequence number or epoch must outlive its records."""

    producer_id: int
    producer_epoch: int
    last_data_offset: int
    """-1 if the log has only markers of it."""


@dataclass(slots=True, kw_only=True, frozen=True)
class RoundPlan:
    """One log, and how it is to be compacted."""

    directory: str
    segments: tuple[SourceSegment, ...]
    """From the log's first segment up to the first that must not be touched."""
    first_dirty_offset: int
    upper_bound_offset: int
    """Nothing at or above is compacted; a segment begins here."""
    aborted: tuple[AbortedTransaction, ...]
    last_records: tuple[LastRecord, ...]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    offset_map_bytes: int

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> RoundPlan:
        fields: dict[str, Any] = json.loads(data)
        fields["segments"] = tuple(SourceSegment(**segment) for segment in fields["segments"])
        fields["aborted"] = tuple(AbortedTransaction(*transaction) for transaction in fields["aborted"])
        fields["last_records"] = tuple(LastRecord(**record) for record in fields["last_records"])
        return cls(**fields)


@dataclass(slots=True, kw_only=True, frozen=True)
class Progress:
    """Bytes that were read and written since the last report; between two of these a round may be held up."""

    bytes_moved: int


@dataclass(slots=True, kw_only=True, frozen=True)
class CleanedGroup:
    """Segments that one .cleaned segment, whole and durable, may replace."""

    sources: tuple[int, ...]
    """Base offsets; the new segment has the first of them."""


@dataclass(slots=True, kw_only=True)
class RoundEnd:
    """What a round did."""

    end_offset: int = 0
    """The new first dirty offset."""
    keys: int = 0
    bytes_indexed: int = 0
    """Read to learn the keys."""
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keyless_records: int = 0
    """Dropped: the topic was not compacted when they came."""


Report = Progress | CleanedGroup | RoundEnd
