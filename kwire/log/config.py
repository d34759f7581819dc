"""Log configuration of a topic: names, units and defaults of Apache Kafka 4.3.1.

A field's metadata contain the topic setting's dotted name; the server layer derives its tables and documentation from
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

INT64_MAX: Final = 2**63 - 1
INDEX_INTERVAL_BYTES_MAX: Final = 64 * 1024
"""Largest effective index.interval.bytes.

A search reads the batches from one index entry to the next on the event loop. For 64 KiB of the smallest batches, that
takes a few milliseconds.
"""


def setting(name: str, default: Any, about: str) -> Any:
    """Return a dataclass field with its Kafka name and description in the metadata."""
    return field(default=default, metadata={"name": name, "about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one partition's log. Immutable, and replaced as a whole when the topic's configuration changes."""

    segment_bytes: int = setting("segment.bytes", 1024**3, "Bytes after which a segment is closed.")
    segment_ms: int = setting("segment.ms", 7 * 24 * 3600 * 1000, "Milliseconds after which a segment is closed.")
    segment_jitter_ms: int = setting("segment.jitter.ms", 0, "Most milliseconds that segment.ms is shortened by.")
    segment_index_bytes: int = setting("segment.index.bytes", 10 * 1024**2, "Bytes that one index file may have.")
    index_interval_bytes: int = setting("index.interval.bytes", 4096, "Bytes between index entries; 64 KiB at most.")
    retention_ms: int = setting("retention.ms", 7 * 24 * 3600 * 1000, "Milliseconds that records live; -1: for ever.")
    retention_bytes: int = setting("retention.bytes", -1, "Bytes that a partition may have; -1: no bound.")
    max_message_bytes: int = setting("max.message.bytes", 1024**2 + 12, "Bytes of the largest batch a client may send.")
    cleanup_policy: tuple[str, ...] = setting("cleanup.policy", ("delete",), "delete, compact or both; empty: neither.")
    compression_type: str = setting("compression.type", "producer", "Codec of stored batches; producer: as they came.")
    compression_gzip_level: int = setting("compression.gzip.level", -1, "gzip level when the broker compresses.")
    compression_lz4_level: int = setting("compression.lz4.level", 9, "lz4 level when the broker compresses.")
    compression_zstd_level: int = setting("compression.zstd.level", 3, "zstd level when the broker compresses.")
    message_timestamp_type: str = setting("message.timestamp.type", "CreateTime", "CreateTime or LogAppendTime.")
    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms", INT64_MAX, "Milliseconds that a timestamp may lie in the past."
    )
    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms", 3600 * 1000, "Milliseconds that a timestamp may lie in the future."
    )
    flush_messages: int = setting("flush.messages", INT64_MAX, "Records after which the log is flushed to disk.")
    flush_ms: int = setting("flush.ms", INT64_MAX, "Milliseconds after which the log is flushed to disk.")
    file_delete_delay_ms: int = setting("file.delete.delay.ms", 60_000, "Milliseconds before a deleted file goes.")
    min_insync_replicas: int = setting("min.insync.replicas", 1, "In-sync replicas that acks=all asks for.")
    delete_retention_ms: int = setting("delete.retention.ms", 24 * 3600 * 1000, "Milliseconds that tombstones live.")
    min_cleanable_dirty_ratio: float = setting("min.cleanable.dirty.ratio", 0.5, "Dirty share that starts cleaning.")
    min_compaction_lag_ms: int = setting("min.compaction.lag.ms", 0, "Milliseconds before a record may be compacted.")
    max_compaction_lag_ms: int = setting("max.compaction.lag.ms", INT64_MAX, "Milliseconds before it must be.")
    preallocate: bool = setting("preallocate", False, "Accepted for compatibility; files are never preallocated.")
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable", False, "Whether a replica that is not in sync may lead, losing records."
    )

    # Derived values that every append needs, computed once.

    is_log_append_time: bool = field(init=False)
    roll_ms: int = field(init=False)
    """Milliseconds after which a segment is closed; compaction reads closed segments only."""
    needs_keys: bool = field(init=False)
    """True if the topic is compacted and therefore rejects records without a key."""
    stores_plain_batches_as_they_are: bool = field(init=False)
    """True if an uncompressed batch with its own timestamps is stored unchanged."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "index_interval_bytes", min(self.index_interval_bytes, INDEX_INTERVAL_BYTES_MAX))
        is_log_append_time = self.message_timestamp_type == "LogAppendTime"
        object.__setattr__(self, "is_log_append_time", is_log_append_time)
        is_compacted = "compact" in self.cleanup_policy
        object.__setattr__(self, "needs_keys", is_compacted)
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if is_compacted else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)
        keeps_plain = self.compression_type in ("producer", "uncompressed") and not is_log_append_time
        object.__setattr__(self, "stores_plain_batches_as_they_are", keeps_plain)

    @property
    def is_deleted(self) -> bool:
        """True if retention by time and size applies."""
        return "delete" in self.cleanup_policy
