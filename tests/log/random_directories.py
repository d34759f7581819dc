"""Random partitions by seed: production classes write files as brokers do over time, with small segments.

Each kind has one topic, because a topic's configuration decides which data its logs may contain. All kinds have several
leader epochs, and rolls by size and by time. Their records have headers, null and large values, and timestamps out of
order. Idempotent producers write, and transactions are committed, aborted and left open. Some kinds have DeleteRecords
inside a segment, retention, truncation and compaction.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.files import PendingDeletion
from kwire.log.partition_log import PartitionLog
from kwire.protocol.compression import Codec
from kwire.protocol.control_records import EndTransactionMarker, encode_marker_batch
from kwire.protocol.records import Record, encode_batch
from tests.log.compaction.support import compact
from tests.log.support import ManualClock

LAST_EPOCH: Final = 9
"""Latest leader epoch of a random partition."""
IDEMPOTENT: Final = range(2000, 2003)
TRANSACTIONAL: Final = range(1000, 1004)
MINUTE_MS: Final = 60_000
NAMES: Final = ("trace", "", "same", "same", "grüße")
OFTEN_COMPACTED: Final = MappingProxyType(
    {"min_cleanable_dirty_ratio": 0.01, "delete_retention_ms": 5 * MINUTE_MS, "segment_bytes": 14_000}
)


@dataclass(slots=True, kw_only=True, frozen=True)
class Kind:
    """Kind of topic: its configuration and the events in its partitions."""

    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """LogConfig settings, in addition to those of every kind."""
    codecs: tuple[Codec, ...] = tuple(Codec)
    has_gaps: bool = False
    """True if the log is compacted, and batches arrive as another compaction left them, with gaps in their offsets."""
    cuts: bool = True
    """True if records are deleted, removed by retention and truncated."""


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "plain": Kind(codecs=(Codec.NONE,), cuts=False),
        "codecs": Kind(cuts=False),
        "cut": Kind(),
        "stamped": Kind(settings={"message_timestamp_type": "LogAppendTime"}),
        "zstd": Kind(settings={"compression_type": "zstd"}),
        "plainly": Kind(settings={"compression_type": "uncompressed"}),
        "compact": Kind(settings={"cleanup_policy": ("compact",), **OFTEN_COMPACTED}, has_gaps=True),
        "retired": Kind(settings={"retention_bytes": 30_000}),
    }
)


def random_config(kind: Kind, random_source: random.Random) -> LogConfig:
    """Return a config with small segments and dense indexes; the density varies."""
    drawn = {
        "segment_bytes": random_source.choice((14_000, 20_000, 60_000)),
        "segment_ms": random_source.choice((30, 600)) * MINUTE_MS,
        "segment_index_bytes": random_source.choice((96, 4096)),
        "index_interval_bytes": random_source.choice((0, 100, 700, 4096)),
        "retention_ms": random_source.choice((-1, 20 * 60 * MINUTE_MS)),
    }
    return LogConfig(**{**drawn, "max_message_bytes": 30_000, **kind.settings})


class Writer:
    """Writer of one log. It continues from the log's state (producers, epochs), so it can fill a log again."""

    def __init__(self, log: PartitionLog, kind: Kind, clock: ManualClock, random_source: random.Random) -> None:
        self.log = log
        self.kind = kind
        self.clock = clock
        self.random_source = random_source
        self.epoch = max(0, log.leader_epochs.latest_epoch)
        self.pending: list[PendingDeletion] = []
        """Files that retention has detached from the log; the caller may remove them."""
        self._count = 1

    def fill(self, steps: int) -> None:
        """Do this number of random steps on the log."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (12, self._append_plain),
            (12, self._append_idempotent),
            (14, self._append_in_transaction),
            (8, self._end_transaction),
            (2, self._begin_epoch),
            (2, self._pass_time),
            (2, self.log.flush),
            (1, self.log.roll),
        ]
        if self.kind.has_gaps:
            actions += [(8, self._append_compacted), (3, self._compact)]
        if self.kind.cuts:
            actions += [(1, self._delete_records), (1, self._truncate), (2, self._retire)]
        weights = [weight for weight, _ in actions]
        for _, action in self.random_source.choices(actions, weights, k=steps):
            self.clock.now_ms += self.random_source.randrange(3000)
            action()

    # Appending

    def _records(self, count: int) -> list[Record]:
        self._count = max(1, count)
        return [
            Record(
                key=self._key(),
                value=self._value(),
                timestamp=self.clock.now_ms - self.random_source.choice((0, 0, 1, 700, 40 * MINUTE_MS)),
                headers=self._headers(),
            )
            for _ in range(count)
        ]

    def _key(self) -> bytes | None:
        keys = [b"key-%d" % self.random_source.randrange(9), b"", "schlüssel".encode()]
        return self.random_source.choice(keys if self.log.config.is_compacted else [*keys, None])

    def _value(self) -> bytes | None:
        sort = self.random_source.randrange(20)
        if sort < 2:
            return (None, b"")[sort]
        if sort == 2:
            # A few values are larger than the distance between index entries.
            return self.random_source.randbytes(self.random_source.choice((1, 40, 300, 300, 12_000 // self._count)))
        if sort == 3:
            return b"compresses well " * self.random_source.randrange(1, 80)
        return b"value %d" % self.random_source.randrange(10**6)

    def _headers(self) -> list[tuple[str, bytes | None]]:
        if self.random_source.random() < 0.8:
            return []
        values = (None, b"", b"plain", b"\x00\xff")
        return [(name, self.random_source.choice(values)) for name in self.random_source.sample(NAMES, 2)]

    def _batch(self, **settings: Any) -> bytearray:
        count = self.random_source.choice((1, 1, 2, 3, 8))
        return encode_batch(self._records(count), codec=self.random_source.choice(self.kind.codecs), **settings)

    def _append_plain(self) -> None:
        self.log.append(self._batch(), leader_epoch=self.epoch)

    def _append_as(self, producer_id: int, *, transactional: bool) -> None:
        epoch, sequence = self._turn_of(producer_id)
        batch = self._batch(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )
        self.log.append(batch, leader_epoch=self.epoch)

    def _turn_of(self, producer_id: int) -> tuple[int, int]:
        """Return the producer's next epoch and sequence; sometimes a new epoch, whose sequence starts at 0."""
        entry = self.log.producers.entries.get(producer_id)
        if entry is None:
            return 0, 0
        is_open = entry.current_transaction_first_offset >= 0
        if not entry.batches or (not is_open and self.random_source.random() < 0.1):
            return entry.producer_epoch + 1, 0
        return entry.producer_epoch, entry.last_sequence + 1

    def _append_idempotent(self) -> None:
        self._append_as(self.random_source.choice(IDEMPOTENT), transactional=False)

    def _append_in_transaction(self) -> None:
        self._append_as(self.random_source.choice(TRANSACTIONAL), transactional=True)

    def _end_transaction(self) -> None:
        """Append a transaction marker, also for producers without an open transaction, as a late retry does."""
        producer_id = self.random_source.choice(TRANSACTIONAL)
        if producer_id in self.log.producers.entries:
            self._end_transaction_of(producer_id)

    def _end_transaction_of(self, producer_id: int) -> None:
        entry = self.log.producers.entries[producer_id]
        marker = EndTransactionMarker(is_commit=self.random_source.random() < 0.5, coordinator_epoch=self.epoch)
        batch = encode_marker_batch(
            marker, producer_id=producer_id, producer_epoch=entry.producer_epoch, timestamp=self.clock.now_ms
        )
        self.log.append(batch, leader_epoch=self.epoch, origin=AppendOrigin.COORDINATOR)

    def _append_compacted(self) -> None:
        """Append batches as a follower receives them from a compacted log: with gaps, or with all offsets of a batch
        missing.
        """
        start = self.log.log_end_offset + self.random_source.randrange(4)
        records = self._records(self.random_source.randrange(6))
        kept = [record for record in records if self.random_source.random() < 0.6]
        for at, record in enumerate(records):
            record.offset = start + at
        if not kept:
            self._append_plain()
            return
        batch = encode_batch(
            kept,
            base_offset=start,
            partition_leader_epoch=self.epoch,
            codec=self.random_source.choice(self.kind.codecs),
            keep_offsets=True,
            last_offset=start + len(records) - 1,
        )
        self.log.append(batch, leader_epoch=self.epoch, origin=AppendOrigin.REPLICATION)

    # What else happens

    def _compact(self) -> None:
        """Compact all segments but the active one; no open transaction holds the compaction back."""
        for producer_id, entry in list(self.log.producers.entries.items()):
            if entry.current_transaction_first_offset >= 0:
                self._end_transaction_of(producer_id)
        self.log.roll()
        compact(self.log, now_ms=self.clock.now_ms)

    def _begin_epoch(self) -> None:
        """Begin a new leader epoch; sometimes the new leader writes nothing."""
        self.epoch = min(self.epoch + self.random_source.choice((1, 1, 2)), LAST_EPOCH)
        if self.random_source.random() < 0.5 and self.epoch > self.log.leader_epochs.latest_epoch:
            self.log.assign_epoch_start(self.epoch, self.log.log_end_offset)

    def _pass_time(self) -> None:
        self.clock.now_ms += self.random_source.choice((1, 20, 45)) * MINUTE_MS

    def _delete_records(self) -> None:
        self.log.delete_records_before(self._some_offset())

    def _truncate(self) -> None:
        """Truncate as a follower does: at most the newest fifth of the log."""
        lowest = self.log.log_end_offset - (self.log.log_end_offset - self.log.log_start_offset) // 5
        self.log.truncate_to(self.random_source.randint(lowest, self.log.log_end_offset))

    def _retire(self) -> None:
        self.pending += self.log.apply_retention(self.clock.now_ms, self.log.log_end_offset)

    def _some_offset(self) -> int:
        """Return a random offset; low ones are more likely, so that some records remain."""
        start, end = self.log.log_start_offset, self.log.log_end_offset
        return self.random_source.randint(start, start + (end - start) // 3)
