"""Moves of replicas to another log directory of this broker (KIP-113), as AlterReplicaLogDirs requests them.

A move fills a future log (kwire.log.future_logs) in steps, between which requests are served. Several moves take turns.
They copy no faster than replica.alter.log.dirs.io.max.bytes.per.second, and a worker makes the copy durable.

When the future log has caught up, the controller is notified of the new directory (KIP-858). Then the rest is
copied and made durable, and the future log replaces the partition's log, without a request in between. Any
failure ends the move, and the replica stays in its directory. A move that a stop of the broker interrupts
begins again at the next start.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.log.checkpoints import TopicPartition
from kwire.log.disk import DiskFailure
from kwire.log.errors import CorruptLogError, NotReadyError
from kwire.log.future_logs import Copying
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Workers
from kwire.server.replication.directory_assignments import DirectoryAssignments
from kwire.server.replication.readable import readable
from kwire.server.settings.dynamic_configs import DynamicConfigs

logger = logging.getLogger(__name__)

RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
STEP_BYTES: Final = 64 * 1024
"""Bytes copied at once: a short enough time between two requests. A larger batch is copied whole."""
LAST_BYTES: Final = 1024 * 1024
"""Bytes that may be copied and made durable on the event loop with the replacement, while all requests wait."""
FLUSHES_MAX: Final = 10
"""Flushes that may leave more than LAST_BYTES to copy.

After these, clients write faster than the copy and must wait once.
"""

PAUSE_SECONDS_LEAST: Final = 0.001
ASSIGNMENT_SECONDS: Final = 0.05
"""Longest wait of one turn for the controller."""


@dataclass(slots=True, kw_only=True, eq=False)
class Move:
    """Move of one replica."""

    partition: Partition
    copying: Copying
    path: str
    assigned: asyncio.Future[None] | None = None
    """Resolved when the controller has stored the new directory; None while there is more to copy."""
    flushes: int = 0
    """How often the future log had caught up and was flushed."""

    @property
    def log(self) -> PartitionLog:
        """Log that the replica moves from."""
        return self.copying.log


class ReplicaMoves:
    """All moves of one broker."""

    def __init__(
        self,
        *,
        logs: LogManager,
        partitions: Partitions,
        workers: Workers,
        dynamic_configs: DynamicConfigs,
        assignments: DirectoryAssignments,
        moved: Callable[[Partition], None],
    ) -> None:
        """`moved` is called with each partition whose log has moved to another directory."""
        self._logs = logs
        self._partitions = partitions
        self._workers = workers
        self._dynamic_configs = dynamic_configs
        self._assignments = assignments
        self._moved = moved
        self._moves: dict[TopicPartition, Move] = {}
        self._woken = asyncio.Event()
        self._rate_changed = asyncio.Event()

    def move(self, topic: str, index: int, path: str) -> None:
        """Move a replica to this log directory, ending a move of it to another one. Raises KafkaError.

        A replica that is already there stays; a replica that does not exist yet will be created there.
        """
        requested = _absolute(path)
        directory = next(
            (found for found in self._logs.directories if readable(found.path) == readable(requested)), None
        )
        if directory is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND)
        path = directory.path
        if directory.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if directory.is_cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{path} is cordoned and takes no new replicas")
        partition = self._find(topic, index, path)
        key = (topic, index)
        under_way = self._moves.get(key)
        if under_way is not None:
            if under_way.path == path:
                return
            self._end(under_way, f"a move to {path} was requested")
        if posixpath.dirname(partition.log.directory) == path:
            return
        if self._logs.directories.any_offline:  # as in Kafka: an offline directory may hold an earlier future log
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        try:
            copying = self._logs.futures.begin(partition.log, directory)
        except (CorruptLogError, DiskFailure) as failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        logger.info("moving %r from %s to %s", partition.log, posixpath.dirname(partition.log.directory), path)
        self._moves[key] = Move(partition=partition, copying=copying, path=path)
        self._woken.set()

    def _find(self, topic: str, index: int, path: str) -> Partition:
        partition = self._partitions.get(topic, index)
        if partition is not None and partition.log.failure is None:
            return partition
        try:
            return self._partitions.find(topic, index)
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            self._logs.futures.prefer(topic, index, path)
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:  # Kafka answers this API by the older name
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE) from error
            raise

    def rate_changed(self) -> None:
        """End the current pause: the allowed rate may have changed."""
        self._rate_changed.set()

    def removed(self, partition: Partition) -> None:
        """Forget the move of a removed partition; its future log was removed with its log."""
        move = self._moves.pop((partition.topic, partition.index), None)
        if move is not None:
            self._end_promotion(move)

    def _end_promotion(self, move: Move) -> None:
        if move.assigned is not None:
            self._assignments.end_promotion(move.partition)

    def _begin_again(self) -> None:
        """Begin the moves again that the last stop interrupted."""
        interrupted = self._logs.futures.interrupted
        while interrupted:
            (topic, index), path = interrupted.popitem()
            try:
                self.move(topic, index, path)
            except KafkaError as error:
                logger.warning("the move of %s-%d to %s does not go on: %s", topic, index, path, error)
            goes_on = (topic, index) in self._moves
            if not goes_on and not self._logs.directories.any_offline:  # otherwise a later start may continue
                self._logs.futures.abandon(topic, index)

    async def run(self) -> None:
        """Copy in turns for as long as the broker runs."""
        self._begin_again()
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._moves:
                for move in list(self._moves.values()):
                    await self._pause(await self._turn(move) if self._is_current(move) else 0)

    def _is_current(self, move: Move) -> bool:
        """Return True if the move was not cancelled during other turns, and its partition still exists."""
        return self._moves.get((move.partition.topic, move.partition.index)) is move

    async def _pause(self, copied: int) -> None:
        """Let requests be served, and limit the copy rate."""
        seconds = copied / self._rate()
        if seconds < PAUSE_SECONDS_LEAST:
            await asyncio.sleep(0)
            return
        self._rate_changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rate_changed.wait()

    def _rate(self) -> int:
        """Return the allowed bytes per second."""
        text = self._dynamic_configs.text_of(RATE)
        return max(1, int(text)) if text is not None else 2**63 - 1

    async def _turn(self, move: Move) -> int:
        """Run one step of a move; return the bytes that it copied."""
        try:
            size = move.copying.step(min(STEP_BYTES, self._rate()))
            if size == 0:
                await self._finish(move)
        except NotReadyError:
            return 0
        except (KafkaError, DiskFailure, CorruptLogError) as error:
            logger.error("cannot move %r to %s: %s", move.log, move.path, error)  # noqa: TRY400 no traceback needed
            if self._is_current(move):
                self._end(move, "it has failed")
            return 0
        return size

    async def _finish(self, move: Move) -> None:
        """Make a future log that has caught up durable; if little is left to copy, copy it and replace the log."""
        if move.assigned is None:
            move.assigned = self._assignments.begin_promotion(move.partition, move.path)
        if not move.assigned.done():  # other moves continue meanwhile
            await asyncio.wait([move.assigned], timeout=ASSIGNMENT_SECONDS)
            return
        future = move.copying.future
        job = future.begin_flush()
        await self._workers.run(job.run)
        if not self._is_current(move):
            job.release()
            return
        future.finish_flush(job)
        move.flushes += 1
        behind = 0
        while size := move.copying.step(LAST_BYTES):
            behind += size
            if behind > LAST_BYTES and move.flushes < FLUSHES_MAX:
                return
        partition = move.partition
        moved = self._logs.futures.replace(move.log)
        del self._moves[partition.topic, partition.index]
        partition.replace_log(moved)
        self._end_promotion(move)
        logger.info("moved %r to %s", moved, move.path)
        self._moved(partition)

    def _end(self, move: Move, why: str) -> None:
        partition = move.partition
        logger.warning("the move of %r to %s ends: %s", move.log, move.path, why)
        del self._moves[partition.topic, partition.index]
        self._end_promotion(move)
        self._logs.futures.abandon(partition.topic, partition.index)


def _absolute(path: str) -> str:
    """Return the absolute path; a relative path stays as it is if the current directory was deleted."""
    try:
        return posixpath.abspath(path)
    except FileNotFoundError:
        return path
