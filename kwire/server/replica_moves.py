"""Replicas that move to another log directory of this broker (KIP-113): what AlterReplicaLogDirs asks for.

A move fills a future log (kwire.log.future_logs) in steps between which requests are served, one move after the other
in turn, and no faster than replica.alter.log.dirs.io.max.bytes.per.second. What is copied is made durable by a worker.
When the future log has caught up, the controller is told where the replica is going to be (KIP-858). Then the rest is
copied, made durable and put in the place of the partition's log in one go. Any failure ends the move, and the replica
stays where it is. A move that a stop of the broker interrupts begins again at the next start.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kwire.cluster.partition import Partition
from kwire.cluster.partitions import Partitions
from kwire.log.checkpoints import TopicPartition
from kwire.log.disk import DiskFailure
from kwire.log.errors import CorruptLogError, NotReadyError
from kwire.log.future_logs import Copying
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Workers
from kwire.server.directory_assignments import DirectoryAssignments
from kwire.server.readable import readable
from kwire.server.settings.dynamic_configs import DynamicConfigs

logger = logging.getLogger(__name__)

RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
STEP_BYTES: Final = 64 * 1024
"""Copied at once: what the loop can do between two requests. A larger batch is copied whole."""
LAST_BYTES: Final = 1024 * 1024
"""What may be copied and made durable on the loop, with the swap, while all else waits."""
FLUSHES_MAX: Final = 10
"""After so many flushes that left more than that to copy, clients write faster than that: they have to wait once."""

PAUSE_SECONDS_LEAST: Final = 0.001
ASSIGNMENT_SECONDS: Final = 0.05
"""How long a turn waits for the controller."""


@dataclass(slots=True, kw_only=True, eq=False)
class Move:
    """One replica on its way."""

    partition: Partition
    copying: Copying
    path: str
    assigned: asyncio.Future[None] | None = None
    """Resolved when the controller has been told of the new directory; None while there is more to copy."""
    flushes: int = 0
    """How often the future log had caught up and was flushed."""

    @property
    def log(self) -> PartitionLog:
        """Where it comes from."""
        return self.copying.log


class ReplicaMoves:
    """The moves of one broker."""

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
        """`moved` is called with each partition whose log is in another directory from now on."""
        self._logs = logs
        self._partitions = partitions
        self._workers = workers
        self._dynamic_configs = dynamic_configs
        self._assignments = assignments
        self._moved = moved
        self._moves: dict[TopicPartition, Move] = {}
        self._woken = asyncio.Event()
        self._rate_changed = asyncio.Event()
        dynamic_configs.watch(self._rate_changed.set)
        partitions.watch_removals(self._removed)

    def move(self, topic: str, index: int, path: str) -> None:
        """Have a replica in this log directory; a move of it to another one ends. Raises KafkaError.

        One that is there already stays, and one that does not exist yet is made there later.
        """
        wanted = _absolute(path)
        directory = next((found for found in self._logs.directories if readable(found.path) == readable(wanted)), None)
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
            self._end(under_way, f"it is wanted in {path}")
        if posixpath.dirname(partition.log.directory) == path:
            return
        if self._logs.directories.any_offline:  # as Kafka: an earlier future log may be in what is offline
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

    def _removed(self, partition: Partition) -> None:
        """With the partition's log its future log has gone."""
        move = self._moves.pop((partition.topic, partition.index), None)
        if move is not None:
            self._end_promotion(move)

    def _end_promotion(self, move: Move) -> None:
        if move.assigned is not None:
            self._assignments.end_promotion(move.partition)

    def _begin_again(self) -> None:
        """Begin the moves that the last stop interrupted."""
        interrupted = self._logs.futures.interrupted
        while interrupted:
            (topic, index), path = interrupted.popitem()
            try:
                self.move(topic, index, path)
            except KafkaError as error:
                logger.warning("the move of %s-%d to %s does not go on: %s", topic, index, path, error)
            goes_on = (topic, index) in self._moves
            if not goes_on and not self._logs.directories.any_offline:  # else a later start may go on
                self._logs.futures.abandon(topic, index)

    async def run(self) -> None:
        """For as long as the broker runs."""
        self._begin_again()
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._moves:
                for move in list(self._moves.values()):
                    await self._pause(await self._turn(move) if self._is_current(move) else 0)

    def _is_current(self, move: Move) -> bool:
        """Whether it was neither cancelled, while others had their turn, nor has its partition gone."""
        return self._moves.get((move.partition.topic, move.partition.index)) is move

    async def _pause(self, copied: int) -> None:
        """Let requests be served, and hold the rate."""
        seconds = copied / self._rate()
        if seconds < PAUSE_SECONDS_LEAST:
            await asyncio.sleep(0)
            return
        self._rate_changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rate_changed.wait()

    def _rate(self) -> int:
        """Bytes in a second."""
        text = self._dynamic_configs.text_of(RATE)
        return max(1, int(text)) if text is not None else 2**63 - 1

    async def _turn(self, move: Move) -> int:
        """One step of a move; how many bytes it has copied."""
        try:
            size = move.copying.step(min(STEP_BYTES, self._rate()))
            if size == 0:
                await self._finish(move)
        except NotReadyError:
            return 0
        except (KafkaError, DiskFailure, CorruptLogError) as error:
            logger.error("%r is not moved to %s: %s", move.log, move.path, error)  # noqa: TRY400 the error says all
            if self._is_current(move):
                self._end(move, "it has failed")
            return 0
        return size

    async def _finish(self, move: Move) -> None:
        """The future log has caught up: make it durable, and put it in place if it has little to catch up with then."""
        if move.assigned is None:
            move.assigned = self._assignments.begin_promotion(move.partition, move.path)
        if not move.assigned.done():  # other moves go on meanwhile
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
        partition.take_log(moved)
        self._end_promotion(move)
        logger.info("%r is in %s from now on", moved, move.path)
        self._moved(partition)

    def _end(self, move: Move, why: str) -> None:
        partition = move.partition
        logger.warning("the move of %r to %s ends: %s", move.log, move.path, why)
        del self._moves[partition.topic, partition.index]
        self._end_promotion(move)
        self._logs.futures.abandon(partition.topic, partition.index)


def _absolute(path: str) -> str:
    """What a client means; a relative path is none where the current directory was deleted."""
    try:
        return posixpath.abspath(path)
    except FileNotFoundError:
        return path
