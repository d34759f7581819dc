"""Log of one partition on disk: append, read, truncate.

Its offsets, and their order, are in log_offsets.py.

An append consists of these steps: validate, check the producer's sequence, assign offsets, one write, indexes in
memory, producer state. If a step before the write fails, or the disk is full at the write, nothing is stored.
log_health.py describes the effect of failures on a log.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from kwire.log import flushing, lookup, retention, rolling, transaction_check, truncation
from kwire.log.append_result import AppendResult
from kwire.log.batch_validation import AppendOrigin, Validated, check_assigned_offsets, prepare_batch
from kwire.log.checkpoints import PARTITION_METADATA_FILE, format_partition_metadata
from kwire.log.config import LogConfig
from kwire.log.disk import Data, DiskFailure, DiskFullError
from kwire.log.errors import CorruptLogError, NotCachedError
from kwire.log.files import PendingDeletion
from kwire.log.flushing import FlushJob
from kwire.log.log_state import LogState
from kwire.log.not_ready import ready_at_once
from kwire.log.removal import mark_deleted
from kwire.log.replay import apply_batch
from kwire.log.segment import Segment
from kwire.log.transaction_index import AbortedTransaction
from kwire.log.truncation import PendingTruncation
from kwire.log.verify_budget import VerifyBudget
from kwire.protocol.control_records import EPOCH_PER_TRANSACTION, decode_marker
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import (
    CONTROL_FLAG,
    LENGTH_OVERHEAD,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    BatchHeader,
    offsets_head,
    with_offsets,
)

logger = logging.getLogger(__name__)

STEPS_AT_ONCE: Final = 4
"""Steps of an incomplete truncation that a new leader runs at once: a few milliseconds."""
NO_LIMIT: Final = 2**63 - 1
GATHERED_BYTES_MIN: Final = 64 * 1024
"""Size from which writing a batch in two parts is cheaper than copying it into one."""
_WITH_OFFSETS: Final = (AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER)


class PartitionLog(LogState):
    """Log of one partition; created by kwire.log.recovery.open_log."""

    before_truncation: Callable[[bool], None] | None = None
    """Called after offsets are lowered, before files are truncated. The argument is True if the log start was lowered.

    The lowered offsets must become durable before files are truncated. Otherwise a start after a crash would consider
    the shorter log damaged, or all of its records deleted.
    """
    pending_truncation: PendingTruncation | None = None
    """Work that a truncation has left to do before the next append; None if there is none."""

    @property
    def _active(self) -> Segment:
        return self.segments.active

    # Appending

    def append(
        self,
        batches: bytes | bytearray | memoryview,
        *,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        validated: Validated | None = None,
    ) -> AppendResult:
        """Append batches and return their offsets; `validated` is the result of validate_in_steps for a client's batch.

        Raises KafkaError with Kafka's error code; nothing is stored then. Raises DiskFailure if a file operation fails;
        the log is then offline, and the batch may be stored.
        """
        has_offsets = origin in _WITH_OFFSETS
        if self.health.rejects_appends or (self.pending_truncation is not None and not has_offsets):
            raise self.health.append_rejection()
        if has_offsets:
            return self._append_with_offsets(memoryview(batches), leader_epoch, origin)
        now_ms = self.clock.wall_ms()
        batch, header = prepare_batch(bytes(batches), self.config, origin, now_ms, validated)
        size = len(batch)
        if size > self.config.segment_bytes:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes are more than segment.bytes")
        if header.producer_id != NO_PRODUCER_ID:
            duplicate = self._check_producer(batch, header, origin, transaction_version)
            if duplicate is not None:
                return duplicate
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        try:
            if self.health.rejects_clients and origin is AppendOrigin.CLIENT:
                raise self.health.too_little_space()
            if rolling.is_due(self._active, self.config, size, last_offset, header.max_timestamp, now_ms):
                self.roll(base_offset)
            position = self._active.size
            if size < GATHERED_BYTES_MIN:
                self._write(with_offsets(batch, base_offset, header.length, leader_epoch))
            else:
                self._write(offsets_head(base_offset, header.length, leader_epoch), memoryview(batch)[MAGIC_POSITION:])
        except KafkaError:
            self.producers.rejected.record_disk_full(header)
            raise
        self._apply_stored(batch, header, position, base_offset, leader_epoch)
        log_append_time_ms = now_ms if self.config.is_log_append_time else -1
        return AppendResult(base_offset, last_offset, log_append_time_ms, self.log_start_offset, False)

    def _check_producer(
        self, batch: bytes, header: BatchHeader, origin: AppendOrigin, transaction_version: int
    ) -> AppendResult | None:
        if header.attributes & CONTROL_FLAG:
            if (marker := decode_marker(batch)) is not None:
                has_next_epoch = transaction_version >= EPOCH_PER_TRANSACTION
                self.producers.check_marker(header, marker, has_next_epoch=has_next_epoch)
            return None
        stored = self.producers.check(header, from_client=origin is AppendOrigin.CLIENT)
        if stored is None:
            return None
        return AppendResult(stored.first_offset, stored.last_offset, stored.timestamp, self.log_start_offset, True)

    def _append_with_offsets(self, view: memoryview, leader_epoch: int, origin: AppendOrigin) -> AppendResult:
        """Append batches that have offsets and epochs: from a leader, or of this node's own raft log."""
        self.complete_truncation()
        epoch = leader_epoch if origin is AppendOrigin.RAFT_LEADER else None
        headers = check_assigned_offsets(view, self.log_end_offset, epoch)
        if not headers:
            return AppendResult(self.log_end_offset, self.log_end_offset - 1, -1, self.log_start_offset, False)
        end = headers[-1][0] + headers[-1][1].size_in_bytes
        first, last = headers[0][1], headers[-1][1]
        max_timestamp = max(header.max_timestamp for _, header in headers)
        if rolling.is_due(self._active, self.config, end, last.last_offset, max_timestamp, self.clock.wall_ms()):
            self.roll(rolling.base_offset(self.log_end_offset, first.base_offset, last.last_offset))
        start = self._active.size
        self._write(view[:end])
        for position, header in headers:
            batch = view[position : position + header.size_in_bytes]
            self._apply_stored(batch, header, start + position, header.base_offset, header.partition_leader_epoch)
        return AppendResult(first.base_offset, last.last_offset, -1, self.log_start_offset, False)

    def _write(self, *parts: Data) -> None:
        try:
            self._active.file.append(*parts)
        except DiskFullError as error:
            raise self.health.no_space(error) from error
        except DiskFailure as error:
            raise self.health.fail(error) from error

    def _apply_stored(
        self, batch: bytes | memoryview, header: BatchHeader, position: int, base_offset: int, leader_epoch: int
    ) -> None:
        """Update indexes, epochs and producer state with a written batch.

        `header` has the final offsets only if they were given with the batch.
        """
        last_offset = base_offset + header.last_offset_delta
        self._active.index_batch(
            position, header.length + LENGTH_OVERHEAD, base_offset, last_offset, header.max_timestamp, self.config
        )
        self.offsets.advance(last_offset + 1)
        if leader_epoch > self.leader_epochs.stored_epoch:
            self.health.guard(lambda: self.leader_epochs.assign(leader_epoch, base_offset))
        if header.producer_id != NO_PRODUCER_ID:
            self._apply_producer(batch, header, base_offset)
        self.producers.end_offset = last_offset + 1

    def _apply_producer(self, batch: bytes | memoryview, header: BatchHeader, base_offset: int) -> None:
        aborted = apply_batch(header, batch, self.producers, base_offset)
        self.producers.rejected.stored(header)
        if aborted is not None:
            self.health.guard(lambda: self._active.transaction_index.append(aborted))

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        limit_offset: int = NO_LIMIT,
        min_one_batch: bool = True,
        budget: VerifyBudget | None = None,
    ) -> bytes:
        """Return whole batches from the one that contains `offset`, all of them below limit_offset.

        Returns at most max_bytes, unless min_one_batch is set and the first batch is larger. Returns less if the budget
        for verification or device reads is exhausted. The first batch may begin below `offset`.
        """
        if self.failure is not None:
            raise self.health.rejection()
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in {self.log_start_offset}..{end}")
        limit = min(limit_offset, end)
        try:
            return self.segments.read(offset, limit, max_bytes, end, budget, min_one_batch=min_one_batch)
        except NotCachedError:
            return b""
        except DiskFailure as error:
            raise self.health.fail(error) from error
        except CorruptLogError as error:
            raise self.health.damaged(error) from error

    def check_stored(self, segment: Segment, position: int, max_bytes: int) -> int:
        """Verify the CRCs of whole batches from `position` on, and return their size in bytes, 0 at the segment's end.

        Raises CorruptLogError for a damaged batch, after taking the log offline.
        """
        return self.health.guard(lambda: segment.check_stored(position, max_bytes))

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset: below it all transactions are complete and replicated (for read_committed)."""
        first_unstable = self.producers.first_unstable_offset(high_watermark)
        if first_unstable is None or first_unstable >= high_watermark:
            return high_watermark
        return max(first_unstable, self.log_start_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read_committed consumer needs for start_offset..end_offset."""
        entries_of = partial(transaction_check.checked_transactions, self)
        return self.health.guard(
            lambda: lookup.aborted_transactions(self.segments, start_offset, end_offset, entries_of)
        )

    def batch_for_timestamp(self, timestamp: int, start_offset: int) -> lookup.Candidate | int | None:
        """Return lookup.batch_for_timestamp; see timestamp_search.py."""
        return self.health.guard(lambda: lookup.batch_for_timestamp(self.segments, timestamp, start_offset))

    def max_timestamp(self) -> tuple[int, int] | None:
        """Return the largest timestamp and the last offset of the first batch that has it, or None."""
        return self.health.guard(lambda: lookup.max_timestamp(self.segments, self.log_start_offset))

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Return an epoch and its end offset, as LeaderEpochs.end_offset_for describes."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def size_in_bytes(self) -> int:
        return self.segments.size_in_bytes()

    # Rolling

    def roll(self, base_offset: int | None = None) -> None:
        """Close the active segment and begin a new one, unless the active one is empty and begins at this offset.

        Raises KafkaError if the disk is full; the active segment then stays active.
        """
        base_offset = self.log_end_offset if base_offset is None else base_offset
        if self._active.base_offset == base_offset and self._active.size == 0:
            return
        self.health.guard(lambda: rolling.roll(self, base_offset))

    # Flushing

    @property
    def unflushed_records(self) -> int:
        """Number of records that a power failure may lose; flush.messages bounds it."""
        return self.log_end_offset - self.recovery_point

    def is_flush_due(self) -> bool:
        """Return True if a flush is due by flush.ms or because a segment was closed; appends check flush.messages."""
        if self.log_end_offset <= self.recovery_point:
            return False
        return (
            self.clock.monotonic_ms() - self.last_flush_ms >= self.config.flush_ms
            or self.recovery_point < self._active.base_offset
        )

    @property
    def has_unsynced(self) -> bool:
        """True if a power failure would lose anything."""
        return (
            self.log_end_offset > self.recovery_point
            or self._active.has_pending_entries
            or len(self.unsynced_paths) > 0
            or self.leader_epochs.version != self.leader_epochs.durable_version
        )

    def begin_flush(self, *, pins: bool = True) -> FlushJob:
        """Write pending data and return a job; a worker may call its run(), and finish_flush() must follow.

        Raises DiskFullError if the disk is full; nothing has changed then, and a later flush may find space.
        """
        if self.failure is not None:
            raise self.health.rejection()
        try:
            return flushing.begin(self, pins=pins)
        except DiskFailure as error:
            raise self.health.fail(error) from error

    def finish_flush(self, job: FlushJob) -> None:
        """Raise the recovery point after a job has run, or go offline if it failed. Raises what begin_flush raises."""
        job.release()
        if job.failure is not None:
            raise self.health.fail(job.failure) from job.failure
        self._record_durable(job)
        self.last_flush_ms = self.clock.monotonic_ms()

    def _record_durable(self, job: FlushJob) -> None:
        """Record what is durable; records written after a truncation during the flush are not."""
        self.unsynced_paths.finish(job.number)
        if self.offsets.flushed(job.end_offset, job.truncations) and self.producers.is_derived:
            self.pending_truncation = None
        self.leader_epochs.durable_version = max(self.leader_epochs.durable_version, job.epochs_version)

    def flush(self) -> None:
        """Make all appended records durable synchronously."""
        job = self.begin_flush()
        job.run()
        self.finish_flush(job)

    # Truncating

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start; the next retention pass removes whole segments below it. The caller checks the limit."""
        if offset > self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is above {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.health.guard(lambda: self._raise_start(offset))

    def _raise_start(self, offset: int) -> None:
        self.offsets.raise_start(offset)
        self.leader_epochs.truncate_from_start(offset)

    def truncate_to(self, offset: int) -> None:
        """Truncate the log at the batch that contains `offset`, as a follower does to match its leader."""
        ready_at_once(lambda: self.cut_to(offset))
        self.complete_truncation()

    def cut_to(self, offset: int) -> None:
        """Remove the records from `offset` on; the new end is not durable yet.

        `complete_truncation`, or `complete_truncation_in_steps` and a flush, must precede an append.
        """
        if offset >= self.log_end_offset:
            # This broker may have been the leader, and stored an epoch that begins at the end and has no records.
            self.health.guard(lambda: self.leader_epochs.truncate_from_end(offset))
            return
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        plan = self.health.guard(lambda: truncation.plan(self.segments, offset))
        logger.info("Truncating %s-%s from %s to %s", self.topic, self.partition, self.log_end_offset, offset)
        self._lower(plan.end_offset, first_dirty=plan.cleaned_to, start=plan.end_offset)
        cut = self.health.guard(lambda: truncation.cut(self, offset))
        self.offsets.cut_to(cut.end_offset)
        self.pending_truncation = PendingTruncation(self, cut.files)

    def _lower(self, recovery_point: int, *, first_dirty: int, start: int) -> None:
        """Lower the offsets before a truncation: a running flush must not raise the recovery point above the new end.

        With the old first dirty and start offsets, a restart would take new records there for compacted or deleted.
        """
        self.health.guard(self.segments.undo_compaction)
        before = self.offsets.lower(recovery_point=recovery_point, first_dirty=first_dirty, start=start)
        if self.before_truncation is None or self.offsets.bounds == before:
            return
        is_start_lowered = self.log_start_offset < before[-1]
        try:
            self.health.guard(partial(self.before_truncation, is_start_lowered))
        except (DiskFailure, KafkaError):  # nothing is truncated; the next attempt must store the offsets
            self.offsets.restore(before)
            raise

    def complete_truncation_in_steps(self) -> Iterator[None]:
        """Derive the state that a truncation left unknown, a few batches per step; a flush makes it durable."""
        while self.pending_truncation is not None and self.health.guard(self.pending_truncation.derive_more):
            yield

    def try_complete_truncation(self) -> None:
        """Complete a truncation if few steps are left.

        Otherwise, or on failure, which is logged, clients' appends are rejected until a flush has ended.
        """
        if self.failure is None and self.pending_truncation is not None:
            with suppress(KafkaError, DiskFailure, CorruptLogError):
                if sum(1 for _ in islice(self.complete_truncation_in_steps(), STEPS_AT_ONCE)) < STEPS_AT_ONCE:
                    self.complete_truncation()

    def complete_truncation(self) -> None:
        """Derive the unknown state and make the new end durable, synchronously."""
        if self.pending_truncation is not None:
            self.health.guard(self.pending_truncation.complete)
            self.pending_truncation = None

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records; the next append is at `offset`."""
        logger.info("Truncating %s-%s fully, to start at %s", self.topic, self.partition, offset)
        self.health.guard(lambda: truncation.sync_topic_id(self))
        self._lower(0, first_dirty=0, start=offset)
        self.health.guard(lambda: truncation.truncate_fully(self, offset))
        self.offsets.begin_at(offset)
        self.leader_epochs.clear()
        self.producers.clear(offset)
        self.producers.is_derived, self.pending_truncation = True, None

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[PendingDeletion]:
        """Remove whole segments that are past retention or below the log start; return the deletions of their files.

        If retention.SEGMENTS_AT_ONCE were removed, more may be due: the caller calls again. Each result is passed to
        remove_later, even if the rest fails; without remove_later the caller removes the files. Raises NotReadyError,
        before any change, while timestamps are derived.
        """
        if self.failure is not None or self.pending_truncation is not None:  # its steps read old segments
            return []
        return self.health.guard(lambda: self._apply_retention(now_ms, high_watermark))

    def _apply_retention(self, now_ms: int, high_watermark: int) -> list[PendingDeletion]:
        pending: list[PendingDeletion] = []
        for rule in retention.rules(self, now_ms):
            count_max = retention.SEGMENTS_AT_ONCE - len(pending)
            count = retention.count_past(self, rule.is_past, high_watermark, count_max)
            if count > 0:
                logger.info(
                    "Deleting %s segments of %s-%s because of %s", count, self.topic, self.partition, rule.reason
                )
                self._remove_oldest(count, pending)
        return pending

    def _remove_oldest(self, count: int, pending: list[PendingDeletion]) -> None:
        """Remove the first segments; the log start moves to the first remaining one."""
        if count == len(self.segments):
            self.roll()
        self.delete_records_before(self.segments[count].base_offset)
        for _ in range(count):
            removed = mark_deleted(self, self.segments.remove_first(), delay_ms=self.config.file_delete_delay_ms)
            pending.append(removed)
            if self.remove_later is not None:
                self.remove_later(removed)

    # Configuration and close

    def update_config(self, config: LogConfig) -> None:
        """Set the topic's new configuration, which applies from the next append on."""
        self.config = config

    def assign_epoch_start(self, epoch: int, offset: int) -> None:
        """Record that a leader's epoch begins here, before its first append."""
        self.leader_epochs.begin(epoch, offset)

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Write partition.metadata, durable with the first flush; the caller logs a full disk, and retries."""
        path = f"{self.directory}/{PARTITION_METADATA_FILE}"
        self.health.guard(lambda: self.disk.replace(path, format_partition_metadata(topic_id), sync=False), logs=False)
        self.unsynced_paths.add(path)
        self.topic_id = topic_id

    def close(self, *, clean: bool) -> None:
        """Close the files. A clean close first flushes and writes a producer snapshot, so that no scan is needed.

        Raises DiskFailure, or DiskFullError or KafkaError if the disk is too full for a clean close; the files are
        closed anyway.
        """
        try:
            if clean and self.failure is None and (job := self.begin_last_flush()) is not None:
                job.run()
                self.finish_flush(job)
        finally:
            self.release_files()

    def begin_last_flush(self) -> FlushJob | None:
        """Complete the small files before the close; return a flush job if anything is not durable.

        Raises DiskFullError, DiskFailure; KafkaError if a truncation cannot be completed.
        """
        self._active.finish()
        self.write_snapshot()
        return self.begin_flush(pins=False) if self.has_unsynced else None

    def release_files(self) -> None:
        """Close the file descriptors."""
        for segment in self.segments:
            segment.close()

    def write_snapshot(self) -> None:
        """Write the producers' state at the log's end, so that a clean start need not rebuild it."""
        self.complete_truncation()
        if self.log_end_offset > self.segments.first.base_offset:
            self.health.guard(lambda: self.snapshots.write(self.producers, self.log_end_offset))

    def moved_to(self, directory: str) -> None:
        """Record the new path of the renamed directory and close the files: nothing is written any more."""
        self.directory = directory
        self.release_files()
