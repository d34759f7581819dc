"""Input and output of a compaction round: plain values, which can be sent to another process as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from kwire.log.transaction_index import AbortedTransaction


@dataclass(slots=True, kw_only=True, frozen=True)
class SourceSegment:
    """Closed segment, which is not written any more."""

    base_offset: int
    end_offset: int
    """Base offset of the next segment."""
    size: int
    offset_index_bytes: int
    time_index_bytes: int
    has_transaction_index: bool


@dataclass(slots=True, kw_only=True, frozen=True)
class LastRecord:
    """Position of an active producer's last batch, which must be kept for its sequence number or epoch."""

    producer_id: int
    producer_epoch: int
    last_data_offset: int
    """-1 if the log has only markers of the producer."""


@dataclass(slots=True, kw_only=True, frozen=True)
class RoundPlan:
    """Log to compact, and the settings of the round."""

    directory: str
    segments: tuple[SourceSegment, ...]
    """From the log's first segment up to the first that must not be compacted."""
    first_dirty_offset: int
    upper_bound_offset: int
    """Exclusive end of the compaction; a segment begins at this offset."""
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
    """Bytes read and written since the last report; a round may be delayed between two reports."""

    bytes_moved: int


@dataclass(slots=True, kw_only=True, frozen=True)
class CleanedGroup:
    """Segments that may be replaced by one .cleaned segment, which is complete and durable."""

    sources: tuple[int, ...]
    """Base offsets; the new segment has the first of them."""


@dataclass(slots=True, kw_only=True)
class RoundEnd:
    """Result of a round."""

    end_offset: int = 0
    """The new first dirty offset."""
    keys: int = 0
    bytes_indexed: int = 0
    """Bytes read to build the offset map."""
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keyless_records: int = 0
    """Number of dropped records without a key, which were written before the topic was compacted."""


Report = Progress | CleanedGroup | RoundEnd
