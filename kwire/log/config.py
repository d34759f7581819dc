"""Log configuration of a topic: names, units and defaults of Apache Kafka 4.3.1.

A field has the name of its topic setting, with underscores for dots: flush_messages is flush.messages. The registry
(kwire.cluster.configs.topic) describes each setting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

INT64_MAX: Final = 2**63 - 1
INDEX_INTERVAL_BYTES_MAX: Final = 64 * 1024
"""Largest effective index.interval.bytes.

A search reads the batches from one index entry to the next on the event loop. For 64 KiB of the smallest batches, that
takes a few milliseconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one partition's log. Immutable, and replaced as a whole when the topic's configuration changes."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    max_message_bytes: int = 1024**2 + 12
    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3600 * 1000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    file_delete_delay_ms: int = 60_000
    min_insync_replicas: int = 1
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    preallocate: bool = False
    unclean_leader_election_enable: bool = False

    # Derived values that every append needs, computed once.

    is_log_append_time: bool = field(init=False)
    roll_ms: int = field(init=False)
    """Milliseconds after which a segment is closed; compaction reads closed segments only."""
    is_compacted: bool = field(init=False)
    """True if the topic is compacted and therefore rejects records without a key."""
    stores_plain_batches_as_they_are: bool = field(init=False)
    """True if an uncompressed batch with its own timestamps is stored unchanged."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "index_interval_bytes", min(self.index_interval_bytes, INDEX_INTERVAL_BYTES_MAX))
        is_log_append_time = self.message_timestamp_type == "LogAppendTime"
        object.__setattr__(self, "is_log_append_time", is_log_append_time)
        object.__setattr__(self, "is_compacted", "compact" in self.cleanup_policy)
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)
        keeps_plain = self.compression_type in ("producer", "uncompressed") and not is_log_append_time
        object.__setattr__(self, "stores_plain_batches_as_they_are", keeps_plain)

    @property
    def is_deleted(self) -> bool:
        """True if retention by time and size applies."""
        return "delete" in self.cleanup_policy
