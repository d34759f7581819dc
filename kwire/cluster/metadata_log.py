"""The metadata log of a quorum of one: `__cluster_metadata-0`, and the images that follow from it.

append writes a batch and applies it to the newest image at once; committed waits until it is fsynced. One fsync
serves all batches written before it began (group commit). Only then is the committed image moved on and are its
watchers told, in order. A batch is one operation of the controller: after a crash it is there whole or not at all.

Leading takes a new epoch each time: quorum-state is durable before the epoch's first batch, a LeaderChange, is
written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from kwire.cluster.control_batches import control_batch, leader_change, quorum_of_one
from kwire.cluster.directory import DirectoryRefused
from kwire.cluster.image import MetadataImage, UnknownRecord
from kwire.cluster.metadata_damage import store_recovery_point
from kwire.cluster.quorum.state import QuorumState, load_quorum_state, store_quorum_state
from kwire.log.batch_validation import AppendOrigin
from kwire.log.disk import Disk, DiskFailure, DiskFullError
from kwire.log.flushing import FlushJob
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from kwire.protocol.records import BatchHeader, Record, decode_batch, encode_batch, iterate_headers
from kwire.seams import Clock, Workers

logger = logging.getLogger("kwire.cluster.metadata_log")

METADATA_TOPIC_ID = UUID(int=1)
READ_BYTES = 1024 * 1024

Watcher = Callable[[MetadataImage, MetadataImage], None]
"""Told of (old image, new image) when changes are committed: all that one fsync made durable together."""


class MetadataLog:
    """Owns the log's end, the newest and the committed image."""

    def __init__(self, *, log: PartitionLog, directory: str, disk: Disk, clock: Clock, workers: Workers) -> None:
        self._log = log
        self._directory = directory
        self._disk = disk
        self._clock = clock
        self._workers = workers
        self._uncommitted: deque[MetadataImage] = deque()
        """The image that each fsync will commit: at most one for that under way and one for the next."""
        self._flushed_to = 0
        """The log's end when the last fsync began."""
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._watchers: list[Watcher] = []
        self._flusher: asyncio.Task[None] | None = None
        self.epoch = 0
        self.high_watermark = 0
        """The end of what is durable and applied to the committed image."""
        self.newest_image = MetadataImage()
        self.image = MetadataImage()
        """The committed image: what brokers and clients may know."""
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Resolved when the log can no longer be written: the node must stop."""

    @property
    def next_offset(self) -> int:
        return self._log.log_end_offset

    def watch(self, watcher: Watcher) -> None:
        """Tell the watcher of every committed change from now on."""
        self._watchers.append(watcher)

    # --- starting

    async def lead(
        self,
        *,
        node_id: int,
        directory_id: UUID,
        endpoint: tuple[str, str, int],
        bootstrap: Sequence[Any],
    ) -> None:
        """Replay what is there, take the next epoch, and write the bootstrap records if the log is new."""
        self._replay()
        state = load_quorum_state(self._disk, self._directory)
        self.epoch = max(state.leader_epoch, self._log.leader_epochs.latest_epoch) + 1
        store_quorum_state(self._disk, self._directory, QuorumState(leader_id=node_id, leader_epoch=self.epoch))
        has_voters = self._log.log_end_offset > 0
        first = [leader_change(node_id), *(() if has_voters else quorum_of_one(node_id, directory_id, endpoint))]
        batch = control_batch(
            first, base_offset=self._log.log_end_offset, epoch=self.epoch, timestamp_ms=self._clock.wall_ms()
        )
        self._log.append(memoryview(batch), leader_epoch=self.epoch, origin=AppendOrigin.RAFT_LEADER)
        if self.newest_image.offset < 0:
            # A crash may have come between an earlier epoch's first batch and these records.
            await self.committed(
                self.append([BeginTransactionRecord(name="Bootstrap records"), *bootstrap, EndTransactionRecord()])
            )
        else:
            await self.committed(self._log.log_end_offset - 1)

    def _replay(self) -> None:
        if self._log.log_start_offset > 0:
            raise DirectoryRefused(
                f"log.dirs: the metadata log in {self._directory} begins at offset {self._log.log_start_offset}, after "
                "a snapshot, which cannot be read yet; keep this node on Apache Kafka"
            )
        try:
            self.newest_image = self.image = self._stored_image()
        except (UnknownRecord, ProtocolError) as error:
            raise DirectoryRefused(
                f"log.dirs: the metadata log in {self._directory} cannot be read ({error}); use what wrote it"
            ) from error
        logger.info("loaded the metadata log up to offset %d", self._log.log_end_offset)

    def _stored_image(self) -> MetadataImage:
        """The image after all records; those of a metadata transaction that did not end do not count."""
        settled: list[Any] = []
        held: list[Any] | None = None
        last: BatchHeader | None = None
        for header, records in self._stored_batches():
            for record in records:
                if isinstance(record, BeginTransactionRecord):
                    held = []
                elif isinstance(record, AbortTransactionRecord):
                    held = None
                elif isinstance(record, EndTransactionRecord):
                    settled += held or ()
                    held = None
                else:
                    (settled if held is None else held).append(record)
            last = last if held is not None else header
        if last is None:
            return self.image
        return self.image.apply(settled, offset=last.last_offset, epoch=last.partition_leader_epoch)

    def _stored_batches(self) -> Sequence[tuple[BatchHeader, list[Any]]]:
        batches: list[tuple[BatchHeader, list[Any]]] = []
        offset, end = self._log.log_start_offset, self._log.log_end_offset
        while offset < end:
            data = self._log.read(offset, READ_BYTES, limit_offset=end, min_one_batch=True)
            for position, header in iterate_headers(data):
                offset = header.next_offset
                if not header.is_control:
                    values = [record.value for record in decode_batch(data, position)]
                    batches.append((header, [decode_metadata_record(value) for value in values if value is not None]))
        return batches

    # --- writing

    def append(self, records: Sequence[Any]) -> int:
        """Write one batch and apply it to the newest image; the last record's offset, for `committed`.

        Raises KafkaError when the disk is full, DiskFailure for any other failure: the node must stop then.
        """
        now = self._clock.wall_ms()
        base_offset = self._log.log_end_offset
        last_offset = base_offset + len(records) - 1
        image = self.newest_image.apply(records, offset=last_offset, epoch=self.epoch)
        batch = encode_batch(
            [Record(value=encode_metadata_record(record), timestamp=now) for record in records],
            base_offset=base_offset,
            partition_leader_epoch=self.epoch,
        )
        try:
            self._log.append(memoryview(batch), leader_epoch=self.epoch, origin=AppendOrigin.RAFT_LEADER)
        except DiskFailure as failure:
            self._fail(failure)
            raise
        self.newest_image = image
        if self._uncommitted and self._uncommitted[-1].offset >= self._flushed_to:
            # One fsync will commit both. To keep each image would cost a copy of its maps for every append.
            self._uncommitted.pop()
        self._uncommitted.append(image)
        return last_offset

    async def committed(self, offset: int) -> None:
        """Return when the record at `offset` is durable and applied to the committed image."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, waiter))
        if self._flusher is None:
            self._flusher = asyncio.get_running_loop().create_task(self._flush_all())
        await waiter

    async def close(self) -> None:
        """Wait for what is being flushed, and give the files back."""
        if self._flusher is not None:
            await asyncio.wait([self._flusher])
        self._log.close(clean=self._log.failure is None)

    async def _flush_all(self) -> None:
        try:
            while self._waiters:
                end = self._flushed_to = self._log.log_end_offset
                job = self._log.begin_flush()
                await self._workers.run(partial(self._make_durable, job, end))
                self._log.finish_flush(job)
                self._advance(end)
        except Exception as error:  # noqa: BLE001 whatever it is, what was promised cannot be kept: the node stops
            for _, waiter in self._waiters:
                if not waiter.done():
                    waiter.set_exception(error)
            self._waiters.clear()
            self._fail(error)
        finally:
            self._flusher = None

    def _make_durable(self, job: FlushJob, end_offset: int) -> None:
        """A worker's part of a flush."""
        job.run()
        if job.failure is None:
            with suppress(DiskFullError):  # the recovery point of before is as true
                store_recovery_point(self._disk, self._directory, end_offset)

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)

    def _advance(self, end_offset: int) -> None:
        """Everything below end_offset is durable: move the committed image on, tell watchers, then answer."""
        while self._uncommitted and self._uncommitted[0].offset < end_offset:
            old, self.image = self.image, self._uncommitted.popleft()
            for watcher in self._watchers:
                watcher(old, self.image)
        self.high_watermark = max(self.high_watermark, end_offset)
        still_waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        for offset, waiter in self._waiters:
            if offset >= end_offset:
                still_waiting.append((offset, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._waiters = still_waiting
