"""The metadata log of one node and its snapshots: reading it for the quorum, and writing it.

The log begins where its oldest snapshot ends. Records below the flushed end offset survive any crash. A snapshot file
gets its name when it is complete and durable; files of incomplete ones are removed at the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.metadata.prepared_records import PreparedRecords
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.state import load_quorum_state
from kwire.cluster.raft import snapshots
from kwire.cluster.raft.control_batches import control_batch
from kwire.cluster.raft.metadata_damage import store_recovery_point
from kwire.cluster.raft.snapshots import Snapshot, decode_snapshot
from kwire.log.batch_validation import AppendOrigin
from kwire.log.checkpoints import RECOVERY_POINT_FILE, STAGED_SUFFIX
from kwire.log.disk import Disk, DiskFailure, DiskFile, DiskFullError
from kwire.log.flushing import FlushJob
from kwire.log.not_ready import ready_at_once
from kwire.log.partition_log import PartitionLog
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.primitives import Buffer
from kwire.protocol.records import InvalidRecordsError, iterate_headers
from kwire.seams import Clock

logger = logging.getLogger(__name__)

PART_SUFFIX = ".part"
OWN_PREFIX = "own-"
"""File name prefix of a snapshot that this node writes; the leader's snapshot may be fetched at the same time."""
BATCH_BYTES_MAX = 8 * 1024 * 1024
"""Maximum bytes of a batch of records, as in Apache Kafka: a follower fetches a whole batch within its timeout."""
STAGED_RECOVERY_POINT = RECOVERY_POINT_FILE + STAGED_SUFFIX


class SnapshotJob:
    """Job that writes a snapshot made by this node."""

    def __init__(self, disk: Disk, snapshot_id: OffsetAndEpoch, path: str, content: Iterable[bytes]) -> None:
        self._disk = disk
        self.snapshot_id = snapshot_id
        self.path = path
        self._content = content
        self.failure: DiskFailure | None = None

    def run(self) -> None:
        """Write the file durably; store a failure for finish_snapshot."""
        try:
            self._disk.replace(self.path, b"".join(self._content), sync=True)
        except DiskFailure as failure:
            self.failure = failure


class RaftLog:
    """Log and snapshots, as kwire.cluster.quorum.log_view.LogView. After a DiskFailure the node must stop."""

    def __init__(self, log: PartitionLog, *, disk: Disk, clock: Clock) -> None:
        self._log = log
        log.before_truncation = lambda _lowers_log_start: self._store_recovery_point()
        self._disk = disk
        self._clock = clock
        self._snapshots = snapshots.snapshots_in(disk, log.directory)
        self._begun_epoch = load_quorum_state(disk, log.directory).leader_epoch
        self._noted: tuple[int, int] | None = None
        """Begun epoch and number of truncations of a recovery point that is written but not yet renamed."""
        self._part: tuple[OffsetAndEpoch, DiskFile] | None = None
        """File of the snapshot that is being fetched."""
        self.held_up_since_ms: float | None = None
        """Time since which the disk has no space for the leader's records; None while it has space."""

    def open(self) -> None:
        """Make the recovered log durable, and make log and snapshots consistent.

        Raises DirectoryRejected for a log whose beginning no snapshot covers.
        """
        for name in self._disk.list(self._log.directory):
            if name.endswith(snapshots.SUFFIX + PART_SUFFIX):
                self._disk.unlink(self._path(name))
        latest = self.latest_snapshot_id
        if latest is not None and self._log.log_end_offset < latest.offset:
            # A crash came after the rename of a fetched snapshot, before the log was restarted at its end.
            self._log.truncate_fully_and_start_at(latest.offset)
        elif self._log.log_start_offset > 0:
            self._start_at_snapshot(self._log.log_start_offset)
        self.flush()

    def _start_at_snapshot(self, start_offset: int) -> None:
        """Move the log start to a snapshot's end: whole segments were deleted, and earlier records do not count."""
        following = [found.offset for found in self._snapshots if found.offset >= start_offset]
        if not following:
            raise DirectoryRejected(
                f"log.dirs: the metadata log in {self._log.directory} begins at offset {start_offset}, and there is no "
                "snapshot of what came before; restore it from a backup: starting without it would delete topics"
            )
        self._log.delete_records_before(min(following))

    @property
    def is_offline(self) -> bool:
        """True if a failure other than a full disk has ended the log."""
        return self._log.failure is not None

    def close(self) -> None:
        if self._part is not None:
            self._part[1].close()
        with suppress(DiskFullError, KafkaError):  # without a clean shutdown the next start reads more
            self._log.close(clean=not self.is_offline)

    # --- the quorum's view

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def flushed_end_offset(self) -> int:
        return self._log.recovery_point

    @property
    def last_epoch(self) -> int:
        if self._log.log_end_offset > self._log.log_start_offset:
            return self._log.leader_epochs.latest_epoch
        latest = self.latest_snapshot_id
        return latest.epoch if latest is not None else 0

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return self._snapshots[0] if self._snapshots else None

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return self._snapshots[-1] if self._snapshots else None

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        end = self._log.log_end_offset
        if end > self._log.log_start_offset:
            for known, start in reversed(self._log.leader_epochs.entries()):
                if known <= epoch:
                    return OffsetAndEpoch(end, known)
                end = start
        earliest = self.earliest_snapshot_id
        if earliest is not None and earliest.offset == self._log.log_start_offset:
            return earliest
        return OffsetAndEpoch(self._log.log_start_offset, 0)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        if snapshot_id not in self._snapshots:
            return None
        return self._disk.size(self._snapshot_path(snapshot_id))

    @property
    def size_in_bytes(self) -> int:
        """Size of the log and its snapshots."""
        return self._log.size_in_bytes + sum(self._disk.size(self._snapshot_path(each)) for each in self._snapshots)

    @property
    def age_ms(self) -> int:
        """Age of the oldest snapshot; 0 without one."""
        earliest = self.earliest_snapshot_id
        if earliest is None:
            return 0
        return self._clock.wall_ms() - self._disk.modified_ms(self._snapshot_path(earliest))

    # --- reading

    def read(self, offset: int, max_bytes: int, *, limit_offset: int | None = None) -> bytes:
        """Return whole batches from an offset on, at least one if there is any before the limit."""
        limit = self.end_offset if limit_offset is None else limit_offset
        if offset >= limit:
            return b""
        return ready_at_once(lambda: self._log.read(offset, max_bytes, limit_offset=limit, min_one_batch=True))

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """Return bytes of a snapshot file."""
        file = self._disk.open(self._snapshot_path(snapshot_id))
        try:
            return file.read(position, max_bytes)
        finally:
            file.close()

    def load_snapshot(self, snapshot_id: OffsetAndEpoch) -> Snapshot:
        """Return a snapshot's content. Raises InvalidRecordsError or ProtocolError if it cannot be read."""
        return decode_snapshot(self._disk.read(self._snapshot_path(snapshot_id)))

    # --- writing

    def append(self, prepared: PreparedRecords, epoch: int, *, bytes_max: int = BATCH_BYTES_MAX) -> None:
        """Append one batch of the controller's records.

        Raises KafkaError: KAFKA_STORAGE_ERROR if the disk is full; POLICY_VIOLATION for a batch of more than
        bytes_max.
        """
        if prepared.size_in_bytes > bytes_max:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"the batch has {prepared.size_in_bytes} bytes of records; the limit is {bytes_max}",
            )
        batch = prepared.batch(base_offset=self.end_offset, epoch=epoch, timestamp_ms=self._clock.wall_ms())
        self._log.append(memoryview(batch), leader_epoch=epoch, origin=AppendOrigin.RAFT_LEADER)
        self.held_up_since_ms = None

    def append_control(self, records: Sequence[tuple[ControlRecordType, Any]], epoch: int) -> int:
        """Append one control batch; return its base offset. Raises KafkaError if the disk is full."""
        base_offset = self.end_offset
        batch = control_batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=self._clock.wall_ms())
        self._log.append(memoryview(batch), leader_epoch=epoch, origin=AppendOrigin.RAFT_LEADER)
        self.held_up_since_ms = None
        return base_offset

    def append_fetched(self, batches: Buffer) -> None:
        """Append batches from the leader at this log's end. Ignores batches that are damaged or would leave a gap."""
        view = memoryview(batches)
        try:
            for position, header in iterate_headers(view):
                if header.base_offset >= self.end_offset:
                    if header.base_offset > self.end_offset:
                        logger.error(
                            "the leader sent offset %d, but the log ends at %d", header.base_offset, self.end_offset
                        )
                        return
                    epoch = header.partition_leader_epoch
                    if epoch < self.last_epoch:
                        logger.error(
                            "the leader sent epoch %d, but the last epoch in the log is %d", epoch, self.last_epoch
                        )
                        return
                    self._log.append(view[position:], leader_epoch=epoch, origin=AppendOrigin.REPLICATION)
                    self.held_up_since_ms = None
                    return
        except (KafkaError, InvalidRecordsError) as error:
            trouble_of_the_disk = isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR
            if trouble_of_the_disk:  # the log itself logs the error, less often than the leader is asked again
                if self.held_up_since_ms is None:
                    self.held_up_since_ms = self._clock.monotonic_ms()
            else:
                logger.error("cannot append the batches from the leader: %s", error)  # noqa: TRY400 no traceback needed

    def truncate_to(self, offset: int) -> None:
        """Truncate the log durably."""
        self._log.truncate_to(offset)
        self.flush()

    # --- making it durable

    def begin_flush(self) -> FlushJob:
        """Begin a flush. A worker may run the job; finish_flush must follow."""
        return self._log.begin_flush()

    def finish_flush(self, job: FlushJob) -> None:
        """Record what a job has made durable."""
        self._log.finish_flush(job)

    def note_durable(self, job: FlushJob) -> None:
        """Write the new recovery point to a file beside the current one. A worker may call it after the job."""
        begun_epoch, directory = self._begun_epoch, self._log.directory
        with suppress(DiskFullError):  # the previous recovery point is still correct
            store_recovery_point(
                self._disk,
                directory,
                job.end_offset,
                last_epoch=self.last_epoch,
                begun_epoch=begun_epoch,
                name=STAGED_RECOVERY_POINT,
            )
            self._noted = begun_epoch, job.truncations

    def finish_noting(self) -> None:
        """Put the new recovery point in place, unless the log was truncated or an epoch began meanwhile."""
        noted, self._noted = self._noted, None
        staged = self._path(STAGED_RECOVERY_POINT)
        if noted == (self._begun_epoch, self._log.offsets.truncations):
            with suppress(DiskFullError):
                self._disk.rename(staged, self._path(RECOVERY_POINT_FILE))
        elif noted is not None:
            self._disk.unlink(staged)

    def begin_epoch(self, epoch: int) -> None:
        """Store a new epoch durably, before quorum-state contains it: a tail torn by a power cut is then not damage."""
        if epoch > self._begun_epoch:
            self._begun_epoch = epoch
            self._store_recovery_point()

    def _store_recovery_point(self, *, sync: bool = True) -> None:
        """Store the recovery point, also before a truncation: the truncated records must not look like damage later."""
        directory, last_epoch, begun_epoch = self._log.directory, self.last_epoch, self._begun_epoch
        store_recovery_point(
            self._disk, directory, self._log.recovery_point, last_epoch=last_epoch, begun_epoch=begun_epoch, sync=sync
        )

    def flush(self) -> None:
        """Make the whole log durable immediately."""
        self._log.flush()
        with suppress(DiskFullError):
            self._store_recovery_point(sync=False)

    # --- snapshots

    def write_snapshot(self, snapshot_id: OffsetAndEpoch, content: Iterable[bytes]) -> None:
        """Write a snapshot of committed records durably. Raises DiskFullError, and then no file is left."""
        job = self.begin_snapshot(snapshot_id, content)
        job.run()
        self.finish_snapshot(job)

    def begin_snapshot(self, snapshot_id: OffsetAndEpoch, content: Iterable[bytes]) -> SnapshotJob:
        """Begin a snapshot. A worker may run the job; finish_snapshot or drop_snapshot must follow."""
        assert snapshot_id.offset <= self.flushed_end_offset, "a snapshot contains only durable records"
        path = self._path(f"{OWN_PREFIX}{snapshots.file_name(snapshot_id)}{PART_SUFFIX}")
        return SnapshotJob(self._disk, snapshot_id, path, content)

    def finish_snapshot(self, job: SnapshotJob) -> None:
        """Rename the file of a job to its snapshot name. Raises DiskFullError, and then no file is left."""
        if job.failure is not None:
            raise job.failure
        if job.snapshot_id in self._snapshots:
            self.drop_snapshot(job)
        else:
            self._name_part(job.path, job.snapshot_id)

    def drop_snapshot(self, job: SnapshotJob) -> None:
        """Remove the file of a job, because there is a newer snapshot."""
        self._disk.unlink(job.path)

    def append_fetched_chunk(self, snapshot_id: OffsetAndEpoch, position: int, data: Buffer) -> None:
        """Append bytes of a snapshot that is fetched from the leader; position 0 starts it again.

        Raises DiskFullError, and then no file is left.
        """
        if position == 0:
            self._drop_part()
        self._append_part(snapshot_id, data)

    def install_fetched(self, snapshot_id: OffsetAndEpoch) -> Snapshot | None:
        """Replace the log durably by a fetched snapshot; return None and drop the snapshot if it cannot be read.

        Raises DiskFullError, or KafkaError if there is no space for the lower recovery point; then nothing has
        changed.
        """
        path = self._path(snapshots.file_name(snapshot_id) + PART_SUFFIX)
        try:
            snapshot = decode_snapshot(self._disk.read(path))
        except (InvalidRecordsError, ProtocolError) as error:
            logger.error("the snapshot that the leader sent cannot be read: %s", error)  # noqa: TRY400
            self._drop_part()
            return None
        is_new = snapshot_id not in self._snapshots
        self._finish_part(snapshot_id)
        try:
            self._log.truncate_fully_and_start_at(snapshot_id.offset)
        except KafkaError:
            if is_new:
                self._remove(snapshot_id)
            raise
        self._remove_before(snapshot_id)
        with suppress(DiskFullError):  # the snapshot is durable, and the next flush writes the recovery point
            self.flush()
        self.held_up_since_ms = None
        return snapshot

    def clean_before(self, snapshot_id: OffsetAndEpoch) -> None:
        """Delete what a snapshot replaces: older snapshots, and whole segments of the log before it."""
        assert snapshot_id in self._snapshots, "the log begins with a snapshot"
        self._log.delete_records_before(snapshot_id.offset)
        self._remove_before(snapshot_id)
        while removed := self._log.apply_retention(self._clock.wall_ms(), snapshot_id.offset):
            for path in chain.from_iterable(pending.paths for pending in removed):
                self._disk.unlink(path)

    def _append_part(self, snapshot_id: OffsetAndEpoch, data: Buffer) -> None:
        try:
            self._part_file(snapshot_id).append(memoryview(data))
        except DiskFullError:
            self._drop_part()
            raise

    def _part_file(self, snapshot_id: OffsetAndEpoch) -> DiskFile:
        if self._part is None or self._part[0] != snapshot_id:
            self._drop_part()
            path = self._path(snapshots.file_name(snapshot_id) + PART_SUFFIX)
            if self._disk.exists(path):
                self._disk.unlink(path)
            self._part = snapshot_id, self._disk.open(path, create=True)
        return self._part[1]

    def _drop_part(self) -> None:
        if self._part is not None:
            snapshot_id, file = self._part
            self._part = None
            file.close()
            self._disk.unlink(self._path(snapshots.file_name(snapshot_id) + PART_SUFFIX))

    def _finish_part(self, snapshot_id: OffsetAndEpoch) -> None:
        assert self._part is not None
        assert self._part[0] == snapshot_id
        file = self._part[1]
        try:
            file.sync()
        except DiskFullError:
            self._drop_part()
            raise
        file.close()
        self._part = None
        self._name_part(self._snapshot_path(snapshot_id) + PART_SUFFIX, snapshot_id)

    def _name_part(self, path: str, snapshot_id: OffsetAndEpoch) -> None:
        try:
            self._disk.rename(path, self._snapshot_path(snapshot_id))
            self._disk.sync_directory(self._log.directory)
        except DiskFullError:
            self._disk.unlink(path)
            if snapshot_id not in self._snapshots:
                self._disk.unlink(self._snapshot_path(snapshot_id))
            raise
        self._snapshots = sorted({*self._snapshots, snapshot_id})

    def _remove_before(self, snapshot_id: OffsetAndEpoch) -> None:
        for older in [each for each in self._snapshots if each < snapshot_id]:
            self._remove(older)

    def _remove(self, snapshot_id: OffsetAndEpoch) -> None:
        self._snapshots.remove(snapshot_id)
        self._disk.unlink(self._snapshot_path(snapshot_id))

    def _snapshot_path(self, snapshot_id: OffsetAndEpoch) -> str:
        return self._path(snapshots.file_name(snapshot_id))

    def _path(self, name: str) -> str:
        return f"{self._log.directory}/{name}"
