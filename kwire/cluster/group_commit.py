"""Group commit of topic data: appends that flush.messages asks to be durable are answered after a flush.

A partition is flushed again and again while it has such appends, one flush at a time, on a worker. What is appended
while one runs is made durable by the next one, however many clients wait for it: with flush.messages=1 a record costs
a part of an fsync, not one of its own.
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
"""Between two tries to flush while there is no space for a checkpoint of epochs or for aborted transactions."""
_SETTLED: Final = object()


class Flushed(Protocol):
    """A partition whose tail waits to be durable."""

    log: PartitionLog

    @property
    def waits_for_flush(self) -> bool:
        """Whether there are appends that no flush has covered."""

    def flushed(self) -> None:
        """The log was flushed; its recovery point says up to where."""

    def wake(self) -> None:
        """Let those who wait find out that no flush will come."""


class GroupCommit:
    """The flushes that appends wait for, over all partitions of a broker."""

    def __init__(self, logs: LogManager, workers: Workers, *, failed: Callable[[BaseException], None]) -> None:
        """An error that no disk explains is told to failed: the broker must not go on."""
        self._logs = logs
        self._workers = workers
        self._failed = failed
        self._closing = asyncio.Event()
        self._running: dict[Flushed, asyncio.Task[None]] = {}

    def request(self, partition: Flushed) -> None:
        """Have the partition flushed as soon as may be; it is told."""
        if partition not in self._running:
            self._running[partition] = asyncio.get_running_loop().create_task(self._flush(partition))

    async def close(self) -> None:
        """Return when no flush is under way; one that a full disk holds up is given up."""
        self._closing.set()
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def _flush(self, partition: Flushed) -> None:
        try:
            while partition.waits_for_flush:
                log = partition.log  # the partition may have another one, elsewhere, when the job has run
                try:
                    await self._settle(partition, log)
                    job = self._logs.begin_flush(log)
                    if job is None:  # deleted: those who waited know
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
            # The log is offline, which is what those who wait are answered.
            logger.error("cannot flush %r: %s", partition.log, failure)  # noqa: TRY400 the failure says all
            partition.wake()
        except Exception as error:  # noqa: BLE001 whatever it is, what was promised cannot be kept
            self._failed(error)
        finally:
            del self._running[partition]

    async def _settle(self, partition: Flushed, log: PartitionLog) -> None:
        """Derive what a truncation has left unknown, others in between; read_committed consumers may wait for it."""
        if log.unsettled is None:
            return
        steps = log.settle_in_steps()
        while self._logs.holds(log):
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
