"""Recovery: opens a partition's directory, in whatever state it is.

After a clean shutdown nothing is scanned: sizes, indexes and the producer snapshot are trusted. Otherwise every segment
from the recovery point on is read batch by batch. The log is truncated at the first incomplete or corrupt batch.
Batches below the recovery point were durable, and are never truncated: damage there prevents the log from opening, or
is detected when it is read. All files but the .log files are derived, and rebuilt if they are missing or wrong. Opening
twice gives the same result as opening once, also if the first attempt was interrupted.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from kwire.log.batch_order import RELATIVE_OFFSET_MAX
from kwire.log.checkpoints import PARTITION_METADATA_FILE, CorruptCheckpointError, parse_partition_metadata
from kwire.log.clean_check import check_clean_stop
from kwire.log.config import LogConfig
from kwire.log.disk import Disk
from kwire.log.errors import CorruptLogError
from kwire.log.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SPARSE_INDEX_SUFFIXES,
    SWAP_SUFFIX,
    base_offset_of,
    base_offsets,
)
from kwire.log.index_memory import IndexMemory
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.log_offsets import LogOffsets
from kwire.log.log_state import LogState
from kwire.log.not_ready import ready_at_once
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_snapshots import SUFFIX as SNAPSHOT_SUFFIX
from kwire.log.producer_snapshots import ProducerSnapshots
from kwire.log.producer_state import ProducerState
from kwire.log.progress import BytesProgress
from kwire.log.removal import remove_last_segment
from kwire.log.replay import recall_recent_batches, replay_batch, replay_producers, replay_segment
from kwire.log.scanning import scan
from kwire.log.segment import Segment, segment_name
from kwire.log.segments import Segments
from kwire.protocol.records import (
    NO_PRODUCER_ID,
    BatchHeader,
    InvalidRecordsError,
    crc_matches,
)
from kwire.seams import Clock, RandomSource

logger = logging.getLogger(__name__)

INTERRUPTED_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")
LARGE_SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""Size from which the scan of a segment may take long enough to be logged."""


@dataclass(slots=True, kw_only=True, frozen=True)
class Surroundings:
    """Dependencies of a log: disk, clock, random number generator and index memory."""

    disk: Disk
    clock: Clock
    random_source: RandomSource
    indexes: IndexMemory = field(default_factory=IndexMemory)
    """Shared by all logs."""


def open_log(
    directory: str,
    *,
    topic: str,
    partition: int,
    config: LogConfig,
    surroundings: Surroundings,
    topic_id: uuid.UUID | None = None,
    log_start_offset: int | None = 0,
    recovery_point: int = 0,
    was_clean_shutdown: bool = False,
) -> PartitionLog:
    """Open the log in a directory, created if missing; without log_start_offset, the leader epochs determine it.

    The topic id is assigned to a new log only; an existing log without one may belong to another topic.
    """
    disk = surroundings.disk
    is_new = not disk.is_directory(directory)
    if is_new:
        disk.make_directory(directory)
    names = [] if is_new else _tidy(disk, directory)
    segment_offsets = base_offsets(names, LOG_SUFFIX)
    snapshots = ProducerSnapshots(disk, directory, base_offsets(names, SNAPSHOT_SUFFIX))
    leader_epochs = LeaderEpochs(disk, directory)
    if not is_new:
        leader_epochs.load()
    leader_epochs.begin_recovery()
    if log_start_offset is None:
        log_start_offset = next((start for _, start in leader_epochs.entries()), 0)
    segments = _segments(disk, directory, segment_offsets, log_start_offset, surroundings.clock.wall_ms())
    log = PartitionLog(
        topic=topic,
        partition=partition,
        topic_id=None
        if is_new
        else read_topic_id(disk, directory, was_flushed=was_clean_shutdown or recovery_point > 0),
        directory=directory,
        disk=disk,
        clock=surroundings.clock,
        random_source=surroundings.random_source,
        config=config,
        segments=Segments(segments, surroundings.indexes),
        leader_epochs=leader_epochs,
        producers=ProducerState(),
        snapshots=snapshots,
        offsets=LogOffsets(
            start=max(log_start_offset, segments[0].base_offset),
            end=segments[0].base_offset,
            recovery_point=recovery_point,
        ),
    )
    if is_new:
        _mark_names_unsynced(log)
    elif not was_clean_shutdown:
        _mark_unsynced(log)
    if was_clean_shutdown:
        durable_to = max(recovery_point, check_clean_stop(log))
    else:
        durable_to = recovery_point
        _recover(log)
    log.offsets.recovered(ready_at_once(log.segments.active.next_offset), durable_to)
    _make_consistent(log, was_clean_shutdown=was_clean_shutdown)
    leader_epochs.finish_recovery()
    if topic_id is not None and is_new:
        log.assign_topic_id(topic_id)
    if log.unflushed_records >= config.flush_messages:
        log.flush()  # records must be durable before they are read, and recovered ones are about to be read
    return log


def _segments(disk: Disk, directory: str, found: Sequence[int], start: int, now_ms: int) -> list[Segment]:
    """Return the segments that were found, or an empty one at the start."""
    if not found:
        return [Segment(disk, directory, start, create=True, created_ms=now_ms)]
    segments = [Segment(disk, directory, offset, create=False, created_ms=now_ms) for offset in found]
    for segment, following in pairwise(segments):
        segment.stored_end = following.base_offset
    return segments


def _mark_names_unsynced(log: LogState) -> None:
    """Mark the directories that contain the names of the log and of its files as unsynced."""
    log.unsynced_paths.add(log.directory, log.directory.rpartition("/")[0] or "/")


def _mark_unsynced(log: LogState) -> None:
    """Mark names and files as unsynced that may not be durable, because the process was killed."""
    _mark_names_unsynced(log)
    written = (f"{log.directory}/{PARTITION_METADATA_FILE}", log.leader_epochs.path)
    log.unsynced_paths.add(*(path for path in written if log.disk.exists(path)))


def _tidy(disk: Disk, directory: str) -> list[str]:
    """Complete or undo interrupted operations: deletions, swaps of compacted segments, incomplete files."""
    names = disk.list(directory)
    if any(name.endswith(INTERRUPTED_SUFFIXES) for name in names):
        _undo(disk, directory, names)
        _complete_swaps(disk, directory)
        names = disk.list(directory)
    present = set(names)
    return [name for name in names if not _removed_as_stray(disk, directory, name, present)]


def _undo(disk: Disk, directory: str, names: list[str]) -> None:
    # A .swap file is complete and replaces its segment, unless a .cleaned file of the same compaction exists: then the
    # swap had not been decided.
    cleaned = [base_offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    undecided_from = min((offset for offset in cleaned if offset is not None), default=None)
    for name in names:
        base_offset = _offset_of_swap(name)
        is_undecided = base_offset is not None and undecided_from is not None and base_offset >= undecided_from
        if is_undecided or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
            disk.unlink(f"{directory}/{name}")


def _removed_as_stray(disk: Disk, directory: str, name: str, names: set[str]) -> bool:
    """Remove an index without a log or with an empty log, whose appends it would not match; return True if removed."""
    if name[20:] not in INDEX_SUFFIXES or base_offset_of(name) is None:
        return False
    log = f"{name[:20]}{LOG_SUFFIX}"
    if log not in names:
        logger.warning("Removing %s, whose log does not exist", name)
    elif disk.size(f"{directory}/{log}") > 0:
        return False
    disk.unlink(f"{directory}/{name}")
    return True


def _complete_swaps(disk: Disk, directory: str) -> None:
    """Complete swaps: compaction had written its result and was replacing the old segments with it."""
    for base_offset in base_offsets(disk.list(directory), LOG_SUFFIX + SWAP_SUFFIX):
        swap = Segment(disk, directory, base_offset, create=False, created_ms=0, suffix=SWAP_SUFFIX)
        end_offset = ready_at_once(swap.next_offset)
        swap.close()
        names = disk.list(directory)  # a wrong index of the segment has been removed
        # Files with the new segment's own name are replaced by the renames. An index without a .swap file may be the
        # old or the new one, and is rebuilt.
        for kind in SPARSE_INDEX_SUFFIXES:
            name = f"{segment_name(base_offset)}{kind}"
            if f"{name}{SWAP_SUFFIX}" not in names:
                disk.unlink(f"{directory}/{name}")
        for old in names:
            old_offset = base_offset_of(old) if old[20:] in SEGMENT_SUFFIXES else None
            if old_offset is not None and base_offset < old_offset < end_offset:
                disk.unlink(f"{directory}/{old}")
    for name in disk.list(directory):
        if _offset_of_swap(name) is not None:
            disk.rename(f"{directory}/{name}", f"{directory}/{name[: -len(SWAP_SUFFIX)]}")


def _offset_of_swap(name: str) -> int | None:
    """Return the base offset in the name of a .swap file; None for any other name."""
    is_swap = name.endswith(SWAP_SUFFIX) and name[20 : -len(SWAP_SUFFIX)] in SEGMENT_SUFFIXES
    return base_offset_of(name) if is_swap else None


def read_topic_id(disk: Disk, directory: str, *, was_flushed: bool) -> uuid.UUID | None:
    """Return the topic id in a directory's partition.metadata; None if there is no readable one.

    The first flush of a log makes the file durable. Before that, a power failure may leave an incomplete file. After a
    flush (`was_flushed`), an unreadable file is damage. Raises CorruptLogError for damage, because a log with durable
    records must not be replaced by an empty log of another topic.
    """
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    try:
        return parse_partition_metadata(disk.read(path), path)
    except FileNotFoundError:
        return None
    except CorruptCheckpointError as error:
        if was_flushed:
            raise CorruptLogError(str(error)) from error
        logger.warning("Ignoring a partition metadata file: %s", error)
        return None


def _recover(log: LogState) -> None:
    """Scan the log from the recovery point on, and truncate it at the first flaw."""
    segments = log.segments.from_offset(log.recovery_point)
    log.snapshots.remove_strays({segment.base_offset for segment in log.segments})
    producers = ProducerState()
    start = segments[0].base_offset
    # Snapshots and epochs of scanned segments were not durable, and may belong to truncated batches.
    log.snapshots.remove_from(start)
    log.leader_epochs.truncate_from_end(start)
    log.snapshots.load_latest(producers, log.log_start_offset, start)
    for segment in log.segments.from_offset(producers.end_offset):
        if segment.base_offset < start:
            replay_segment(segment, producers, producers.end_offset)
    for index, segment in enumerate(segments):
        if segment.size >= LARGE_SEGMENT_BYTES:
            logger.info(
                "Recovering %s.log, %s MiB, segment %s of %s of %s-%s past the recovery point",
                segment.stem,
                segment.size // 2**20,
                index + 1,
                len(segments),
                log.topic,
                log.partition,
            )
        if index > 0:
            log.snapshots.write(producers, segment.base_offset)
        is_whole = recover_segment(segment, log, producers)
        following = segments[index + 1] if index + 1 < len(segments) else None
        if not is_whole or (following is not None and not _continues(log, segment, following, producers.end_offset)):
            for later in segments[index + 1 :]:
                logger.warning(
                    "Removing segment %s of %s-%s after a flaw in an earlier segment",
                    later.base_offset,
                    log.topic,
                    log.partition,
                )
            while log.segments.active is not segment:
                remove_last_segment(log)
            break
    log.producers = producers
    if producers.end_offset < log.recovery_point:
        logger.warning(
            "%s-%d ends at offset %d, below the checkpointed recovery point %d: the log was truncated to match its "
            "leader, its topic was created again, or records are missing",
            log.topic,
            log.partition,
            producers.end_offset,
            log.recovery_point,
        )


def _continues(log: LogState, segment: Segment, following: Segment, end_offset: int) -> bool:
    """Return True if a segment may follow one whose batches end at end_offset.

    A power failure may remove whole batches from the end of a segment, where no flaw shows, and leave the next segment.
    Apart from that, only compaction (Apache Kafka's) leaves such a gap. There are then other gaps before it, or the gap
    is wider than a segment's offset range. Gaps below the recovery point are not checked here.
    """
    if following.base_offset - segment.base_offset > RELATIVE_OFFSET_MAX + 1:
        return True
    if following.base_offset > end_offset >= log.recovery_point:
        return sum(header.record_count for _, header in segment.walk(0)) < end_offset - segment.base_offset
    return following.base_offset >= end_offset


def recover_segment(segment: Segment, log: LogState, producers: ProducerState) -> bool:
    """Read every batch, rebuild the derived files, and truncate at the first flaw; return True if there was none."""
    segment.reset_indexes()
    segment.transaction_index.reset()
    position, next_offset = 0, segment.base_offset
    progress = BytesProgress(f"Recovering {segment.stem}.log", segment.size, log.clock)
    for at, header, batch in scan(segment.file):
        if header.magic != 2 or header.base_offset < next_offset or not crc_matches(batch, 0, header):
            break
        if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            break
        if header.producer_id != NO_PRODUCER_ID and not _replay(segment, header, batch, producers):
            break
        size = header.size_in_bytes
        segment.index_batch(at, size, header.base_offset, header.last_offset, header.max_timestamp, log.config)
        log.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        position, next_offset = at + size, header.next_offset
        progress.reached(position)
    producers.end_offset = next_offset
    is_whole = position == segment.size
    if not is_whole and next_offset < log.recovery_point:
        raise CorruptLogError(
            f"{segment.stem}.log is damaged at position {position}, offset {next_offset}, although everything below "
            f"offset {log.recovery_point} was durable; it is left as it is"
        )
    if not is_whole:
        logger.warning(
            "Truncating %s.log at %s of %s bytes: no valid whole batch follows", segment.stem, position, segment.size
        )
        segment.file.truncate(position)
    segment.finish()  # Kafka trusts the time index's last entry of a segment that it does not scan
    segment.mark_verified()
    return is_whole


def _replay(segment: Segment, header: BatchHeader, batch: memoryview, producers: ProducerState) -> bool:
    """Add a batch to the state; return False if it is a control batch that cannot be decoded."""
    try:
        aborted = replay_batch(header, batch, producers)
    except InvalidRecordsError:
        return False
    if aborted is not None:
        segment.transaction_index.append(aborted)
    return True


def _make_consistent(log: PartitionLog, *, was_clean_shutdown: bool) -> None:
    """Make offsets, epochs and producers consistent with the existing batches."""
    if log.log_start_offset > log.log_end_offset:
        # The log lost its tail, and the checkpointed start is above its end: nothing below the start may reappear.
        log.truncate_fully_and_start_at(log.log_start_offset)
        return
    if log.log_start_offset < log.log_end_offset and not log.leader_epochs.covers(log.log_start_offset):
        _rebuild_epochs(log)
    log.leader_epochs.truncate_from_start(log.log_start_offset)
    # After a clean shutdown, keep an epoch that begins at the end, because its leader may continue. It has no records.
    log.leader_epochs.truncate_from_end(log.log_end_offset + (1 if was_clean_shutdown else 0))
    log.snapshots.remove_from(log.log_end_offset)
    if was_clean_shutdown:
        replay_producers(log)
    if log.producers.entries:
        recall_recent_batches(log)


def _rebuild_epochs(log: LogState) -> None:
    """Rebuild the epochs from the batches, after the file was lost or a crash undid a move of the log start."""
    log.leader_epochs.derive(
        (header.partition_leader_epoch, header.base_offset) for segment in log.segments for _, header in segment.walk(0)
    )
