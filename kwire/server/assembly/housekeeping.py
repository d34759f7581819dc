"""Periodic tasks of a broker: retention, checkpoints, due flushes, free space, expiry of producer ids, scrubbing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kwire.chunks import in_turns
from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.partitions.partitions import Partitions
from kwire.log import scrubbing
from kwire.log.checkpoints import HIGH_WATERMARK_FILE, TopicPartition
from kwire.log.disk import DiskFailure, DiskFullError
from kwire.log.log_directory import LOADED_FILES, LogDirectory, LogDirectoryError
from kwire.log.log_manager import LogManager
from kwire.log.not_ready import ready_in_steps
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import KafkaError
from kwire.seams import Workers
from kwire.server.network.memory.memory_return import MemoryReturn

logger = logging.getLogger(__name__)

STEP_MS = 1000
"""Interval of the checks for due flushes and delayed deletions."""
HIGH_WATERMARK_STEP_MS = 100
"""Shortest interval of high watermark checkpoints: the setting itself has no minimum."""

FIRST_SCRUB_SECONDS = 600.0
SCRUB_PAUSE_SECONDS = 24 * 3600.0
SCRUB_BYTES_PER_SECOND = 4 * 1024 * 1024
"""Scrubbing speed: a pass over 100 GB takes seven hours, and less than a hundredth of a core."""

MEMORY_STEP_MS = 10_000
"""Interval of the check for freed memory that the allocator keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingSettings:
    """Settings of the periodic work."""

    retention_check_interval_ms: int = setting("log.retention.check.interval.ms")
    initial_delay_ms: int = setting("log.initial.task.delay.ms")
    producer_check_interval_ms: int = setting("producer.id.expiration.check.interval.ms")
    producer_expiration_ms: int = setting("producer.id.expiration.ms")
    recovery_point_interval_ms: int = setting("log.flush.offset.checkpoint.interval.ms")
    high_watermark_interval_ms: int = setting("replica.high.watermark.checkpoint.interval.ms")
    free_bytes_min: int = setting("log.dirs.free.bytes.min")


class Housekeeping:
    """Periodic tasks of one broker."""

    def __init__(
        self,
        *,
        settings: CurrentSettings,
        image: Callable[[], MetadataImage],
        partitions: Partitions,
        logs: LogManager,
        workers: Workers,
        memory: MemoryReturn | None = None,
    ) -> None:
        self._settings = settings
        self._image = image
        self._partitions = partitions
        self._logs = logs
        self._workers = workers
        self._memory = memory
        self._checkpointing = asyncio.Lock()
        """Held while checkpoint files are written: two writers of one file would remove each other's temporary file."""

    def tasks(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield endless coroutines, to be run as tasks and cancelled at the end."""
        settings = self._settings.of(HousekeepingSettings)
        yield self._every(settings.retention_check_interval_ms, self._apply_retention, settings.initial_delay_ms)
        yield self._every(settings.producer_check_interval_ms, self._expire_producers)
        yield self._write_checkpoints(max(settings.recovery_point_interval_ms, STEP_MS))
        yield self._write_high_watermarks(max(settings.high_watermark_interval_ms, HIGH_WATERMARK_STEP_MS))
        yield self._remove_files()
        yield self._flush()
        yield self._watch_free_space()
        yield self._scrub()
        yield self._return_memory()

    async def _every(
        self, interval_ms: int, work: Callable[[PartitionLog], bool | None], first_ms: int | None = None
    ) -> None:
        """Call `work` for each log, one after the other, and again for the same log while it returns True.

        The event loop serves requests between any two calls.
        """
        await asyncio.sleep((interval_ms if first_ms is None else first_ms) / 1000.0)
        while True:
            for log in list(self._logs.logs()):
                while await in_turns(ready_in_steps(partial(work, log))):
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
            await asyncio.sleep(interval_ms / 1000.0)

    def _apply_retention(self, log: PartitionLog) -> bool:
        before = log.log_start_offset
        is_more = self._logs.apply_retention(log, self._high_watermark_of(log))
        partition = self._partitions.get(log.topic, log.partition)
        if partition is not None and log.log_start_offset != before:
            partition.log_start_moved()
        return is_more

    def _high_watermark_of(self, log: PartitionLog) -> int:
        """Return the high watermark of the log's partition; the log start if the log waits for its removal."""
        partition = self._partitions.get(log.topic, log.partition)
        if partition is None or partition.log is not log:
            return log.log_start_offset
        return partition.high_watermark

    def last_stable_offset_of(self, log: PartitionLog) -> int:
        """Return the last stable offset: below it, compaction finds only committed records of ended transactions."""
        return log.last_stable_offset(self._high_watermark_of(log))

    def _expire_producers(self, log: PartitionLog) -> None:
        self._logs.expire_producers(log, self._settings.of(HousekeepingSettings).producer_expiration_ms)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks that the next start may treat as committed."""
        return {(partition.topic, partition.index): partition.high_watermark for partition in self._partitions}

    async def _write_checkpoints(self, interval_ms: int) -> None:
        """Write the checkpoint files. Their content is collected on the event loop; a worker waits for the disk."""
        while True:
            await asyncio.sleep(interval_ms / 1000.0)
            await self._write_files(self.high_watermarks(), LOADED_FILES)

    async def _write_high_watermarks(self, interval_ms: int) -> None:
        """Write high watermarks more often than the rest: a replicated log alone does not show what is committed."""
        written: dict[TopicPartition, int] = {}
        while True:
            await asyncio.sleep(interval_ms / 1000.0)
            if not any(len(each.image.replicas) > 1 for each in self._partitions):
                continue
            known = self.high_watermarks()
            if known != written and await self._write_files(known, (HIGH_WATERMARK_FILE,)):
                written = known

    async def _write_files(self, high_watermarks: dict[TopicPartition, int], names: Sequence[str]) -> bool:
        """Return True if all files are written: no further checkpoint may name a log that was removed meanwhile."""
        are_written = True
        async with self._checkpointing:
            for job in self._logs.directories.begin_checkpoints(high_watermarks, names):
                await self._workers.run(job.run)
                are_written = self._logs.directories.finish_checkpoint(job) and are_written
        return are_written

    async def _remove_files(self) -> None:
        """Remove due files in a worker, because the system takes a while to free the pages of a large file."""
        while True:
            await asyncio.sleep(STEP_MS / 1000.0)
            if all(directory.is_offline for directory in self._logs.directories):
                raise LogDirectoryError("log.dirs: every log directory is offline; there is nothing left to serve")
            self._partitions.open_closed(self._image())
            paths = self._logs.directories.take_due_files()
            if paths:
                await self._workers.run(partial(self._logs.directories.remove_files, paths))

    async def _scrub(self) -> None:
        """Verify all stored batches, again and again, slowly enough not to disturb requests."""
        await asyncio.sleep(FIRST_SCRUB_SECONDS)
        while True:
            for size in scrubbing.one_pass(list(self._logs.logs()), self._logs.is_current):
                await asyncio.sleep(size / SCRUB_BYTES_PER_SECOND)
            await asyncio.sleep(SCRUB_PAUSE_SECONDS)

    async def _return_memory(self) -> None:
        memory = self._memory or MemoryReturn()  # it measures the process now that the start is complete
        while True:
            await asyncio.sleep(MEMORY_STEP_MS / 1000.0)
            if memory.is_due:
                await self._workers.run(memory.give_back)

    async def _flush(self) -> None:
        """Flush the logs that are due by flush.ms or a closed segment; a worker waits for the disk."""
        while True:
            await asyncio.sleep(STEP_MS / 1000.0)
            for log in self._logs.logs_to_flush():
                try:
                    job = self._logs.begin_flush(log)
                    if job is not None:
                        await self._workers.run(job.run)
                        self._logs.finish_flush(log, job)
                except DiskFullError as full:
                    logger.warning("cannot flush, the disk is full: %s", full)
                except (DiskFailure, KafkaError):  # the log is offline and has logged why
                    continue

    async def _watch_free_space(self) -> None:
        """Reject the batches of clients in directories with fewer free bytes than log.dirs.free.bytes.min."""
        while True:
            await asyncio.sleep(STEP_MS / 1000.0)
            for directory in self._logs.directories:
                await self._measure_free_space(directory)

    async def _measure_free_space(self, directory: LogDirectory) -> None:
        free_bytes_min = self._settings.of(HousekeepingSettings).free_bytes_min
        if directory.is_offline or not (free_bytes_min or directory.rejects_clients):
            return
        try:
            free_bytes = await self._workers.run(partial(self._logs.directories.free_bytes, directory))
        except DiskFailure as failure:  # the next write there takes the directory offline
            logger.warning("%s", failure)
            return
        rejects_clients = free_bytes < free_bytes_min
        if rejects_clients == directory.rejects_clients:
            return
        directory.set_rejects_clients(rejects_clients)
        logger.log(
            logging.ERROR if rejects_clients else logging.WARNING,
            "The log directory %s %s: %d bytes are free, log.dirs.free.bytes.min is %d",
            directory.path,
            "rejects batches of producers" if rejects_clients else "accepts batches of producers again",
            free_bytes,
            free_bytes_min,
        )
