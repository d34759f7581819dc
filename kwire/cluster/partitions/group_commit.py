"""Group commit of topic data: appends that flush.messages requires to be durable are answered after a flush.

A partition with such appends is flushed repeatedly on a worker, one flush at a time. Records that are appended during a
flush become durable with the next one, however many clients wait for them. With flush.messages=1 a record therefore
costs only a part of an fsync.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from kwire.chunks import turn
from kwire.log.disk import DiskFailure, DiskFullError
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import KafkaError
from kwire.seams import Workers

logger = logging.getLogger(__name__)

FULL_DISK_PAUSE_SECONDS: Final = 1.0
"""Pause between two flushes while the disk has no space for the leader epoch checkpoint or for aborted transactions."""
_SETTLED: Final = object()


class FlushablePartition(Protocol):
    """Partition whose log end waits to become durable."""

    log: PartitionLog

    @property
    def waits_for_flush(self) -> bool:
        """True if appends or a truncation wait for a flush."""

    def flushed(self) -> None:
        """React to a flush: the log's recovery point is the new durable end."""

    def wake(self) -> None:
        """Make the waiters check again: the log has failed, or the state that a truncation invalidated is rebuilt."""


class GroupCommit:
    """Flushes that appends wait for, for all partitions of a broker."""

    def __init__(self, logs: LogManager, workers: Workers, *, failed: Callable[[BaseException], None]) -> None:
        """Create the flushes. `failed` is called with an error that is no disk failure: the broker must stop then."""
        self._logs = logs
        self._workers = workers
        self._failed = failed
        self._closing = asyncio.Event()
        self._running: dict[FlushablePartition, asyncio.Task[None]] = {}

    def request(self, partition: FlushablePartition) -> None:
        """Flush the partition as soon as possible, and notify it."""
        if partition not in self._running:
            self._running[partition] = asyncio.get_running_loop().create_task(self._flush(partition))

    async def close(self) -> None:
        """Return when no flush is running; a flush that waits for disk space is abandoned."""
        self._closing.set()
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def _flush(self, partition: FlushablePartition) -> None:
        try:
            while partition.waits_for_flush:
                log = partition.log  # the partition may have moved to another log when the job has run
                try:
                    await self._settle(partition, log)
                    job = self._logs.begin_flush(log)
                    if job is None:  # deleted: its waiters have been notified
                        return
                    await self._workers.run(job.run)
                    self._logs.finish_flush(log, job)
                except (DiskFullError, KafkaError) as full:
                    if log.failure is not None:
                        raise
                    logger.warning("cannot flush %r yet, the disk is full: %s", partition.log, full)
                    if await self._is_closing_within(FULL_DISK_PAUSE_SECONDS):
                        return
                    continue
                partition.flushed()
        except (DiskFailure, KafkaError) as failure:
            # The log is offline; waiting requests are answered with that error.
            logger.error("cannot flush %r: %s", partition.log, failure)  # noqa: TRY400 no traceback needed
            partition.wake()
        except Exception as error:  # noqa: BLE001 after any error durability cannot be guaranteed
            self._failed(error)
        finally:
            del self._running[partition]

    async def _settle(self, partition: FlushablePartition, log: PartitionLog) -> None:
        """Rebuild in steps the state that a truncation has invalidated; read_committed consumers may wait for it."""
        if log.pending_truncation is None:
            return
        steps = log.complete_truncation_in_steps()
        while self._logs.is_current(log):
            if next(steps, _SETTLED) is _SETTLED:
                partition.wake()
                return
            await turn()

    async def _is_closing_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return False
        return True
