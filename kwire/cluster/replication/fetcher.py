"""Fetcher for one leader: one request after another, for all partitions that this broker follows there.

    position (offset, epochs) -> Fetch -> append, truncate or restart -> the next position

A response counts for a partition only if this broker still follows it in the epoch of the request, and its log still
ends at the same offset. After an error the fetcher pauses that partition and continues with the others. The first pause
is short, because a leader often receives the metadata of its election a little later than its followers. Each further
pause is twice as long, up to replica.fetch.backoff.ms.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from kwire.chunks import in_turns
from kwire.cluster.channel import Unreachable
from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.cluster.partitions.divergence import EpochEnd
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.replication.fetch_session import FetchSession, Key
from kwire.log.disk import DiskFailure
from kwire.log.errors import CorruptLogError, NotReadyError
from kwire.log.not_ready import ready_in_steps
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
)
from kwire.protocol.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.seams import Clock

logger = logging.getLogger(__name__)

FIRST_PAUSE_MS: Final = 25.0
FIRST_FLUSH_WAIT_MS: Final = 2.0
"""Maximum wait of the first request that leaves out a partition while its log is being flushed."""
BYTES_AT_ONCE: Final = 1024 * 1024
"""Bytes appended before other tasks get a turn."""

Send = Callable[[Any], Awaitable[Any]]
"""Function that sends a request to the leader and returns the response. Raises Unreachable."""


class Throttle(Protocol):
    """Replication quota: pauses throttled replicas that have exceeded it (KIP-73)."""

    def is_throttled(self, partition: Partition, follower_id: int) -> bool:
        """Return True if the partition must not be fetched now."""

    def record(self, partition: Partition, size: int) -> None:
        """Record fetched bytes of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherSettings:
    """Settings of fetches from other leaders."""

    partition_bytes_max: int = setting("replica.fetch.max.bytes")
    bytes_min: int = setting("replica.fetch.min.bytes")
    bytes_max: int = setting("replica.fetch.response.max.bytes")
    wait_ms_max: int = setting("replica.fetch.wait.max.ms")
    backoff_ms: int = setting("replica.fetch.backoff.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchingBroker:
    """Broker that fetches, with its settings."""

    broker_id: int
    broker_epoch: Callable[[], int]
    settings: CurrentSettings
    clock: Clock
    throttle: Throttle


class ReplicaFetcher:
    """Owner of the fetch session with one leader."""

    def __init__(self, leader_id: int, *, broker: FetchingBroker, send: Send) -> None:
        self.leader_id = leader_id
        self._broker = broker
        self._send = send
        self._session = FetchSession()
        self._partitions: dict[Key, Partition] = {}
        self._paused_until: dict[Key, float] = {}
        """End of the pause after an error, by partition."""
        self._failures: dict[Key, int] = {}
        """Number of errors since the last success, by partition."""
        self._flushing_since: dict[Key, float] = {}
        """Start of the wait for a flush of the log, by partition, the latest last."""
        self._unreachable_count = 0
        """Number of consecutive failures to reach the leader."""
        self._out_of_range: list[Partition] = []
        self._woken = asyncio.Event()

    # --- followed partitions

    @property
    def _settings(self) -> FetcherSettings:
        return self._broker.settings.of(FetcherSettings)

    def add(self, partition: Partition) -> None:
        """Follow a partition in its current leader epoch."""
        key = partition.topic_id, partition.index
        self._partitions[key] = partition
        self._paused_until.pop(key, None)
        self._failures.pop(key, None)
        self._flushing_since.pop(key, None)
        partition.on_log_durable = lambda: self._set_position(partition)
        self._set_position(partition)

    def remove(self, partition: Partition) -> None:
        """Stop following a partition."""
        key = partition.topic_id, partition.index
        self._partitions.pop(key, None)
        self._paused_until.pop(key, None)
        self._failures.pop(key, None)
        self._flushing_since.pop(key, None)
        self._session.forget(key)
        partition.on_log_durable = None

    def _set_position(self, partition: Partition) -> None:
        """Set the next fetch position, unless the log end is not durable yet: then `on_log_durable` sets it."""
        key = partition.topic_id, partition.index
        if key in self._paused_until or self._partitions.get(key) is not partition:
            return
        self._flushing_since.pop(key, None)
        if partition.waits_for_flush or partition.log.failure is not None:
            self._session.forget(key)  # a replica with a failed log must not appear to be in sync
            if partition.log.failure is None:
                self._flushing_since[key] = self._broker.clock.monotonic_ms()
            return
        if partition.log.health.lacks_space or self._broker.throttle.is_throttled(partition, self._broker.broker_id):
            self._pause_partition(partition)
            return
        log = partition.log
        position = FetchPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.leader_epochs.latest_epoch,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=self._settings.partition_bytes_max,
        )
        if self._session.position_of(key) != position:
            self._session.set_position(key, position)
            self._woken.set()

    def _pause_partition(self, partition: Partition) -> None:
        key = partition.topic_id, partition.index
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._paused_until[key] = self._broker.clock.monotonic_ms() + self._pause_ms(failures)
        self._session.forget(key)
        self._woken.set()  # the idle loop must wait for this pause

    def _pause_ms(self, failures: int) -> float:
        backoff_ms = float(self._settings.backoff_ms)
        return min(FIRST_PAUSE_MS * 2.0 ** min(failures, 16), backoff_ms)

    def _end_pauses(self) -> float | None:
        """Resume partitions whose pause is over; return the seconds until the next pause ends, if there is one."""
        now_ms = self._broker.clock.monotonic_ms()
        resumed = [key for key, until_ms in self._paused_until.items() if until_ms <= now_ms]
        for key in resumed:
            del self._paused_until[key]
        for key in resumed:
            self._set_position(self._partitions[key])
        return (min(self._paused_until.values()) - now_ms) / 1000 if self._paused_until else None

    # --- the fetch loop

    async def run(self) -> None:
        """Fetch while the broker runs."""
        while True:
            seconds = self._end_pauses()
            if not self._session:
                await self._wait_for_position(seconds)
                continue
            try:
                await self._fetch()
                for partition in self._out_of_range:
                    await self._find_range(partition)
            except Unreachable as error:
                logger.debug("cannot fetch from broker %d: %s", self.leader_id, error)
                self._session.reset()
                await asyncio.sleep(self._pause_ms(self._unreachable_count) / 1000)
                self._unreachable_count += 1
            self._out_of_range.clear()

    async def _wait_for_position(self, seconds: float | None) -> None:
        self._woken.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _fetch(self) -> None:
        settings = self._settings
        request = FetchRequest(
            replica_state=FetchReplicaState(
                replica_id=self._broker.broker_id, replica_epoch=self._broker.broker_epoch()
            ),
            max_wait_ms=self._wait_max_ms(),
            min_bytes=settings.bytes_min,
            max_bytes=settings.bytes_max,
        )
        self._session.fill(request)
        response: FetchResponse = await self._send(request)
        self._unreachable_count = 0
        if response.error_code != ErrorCode.NONE:
            logger.debug("broker %d: %s", self.leader_id, ErrorCode(response.error_code).name)
            self._session.reset()
            if response.error_code not in _SESSION_ERRORS:
                await asyncio.sleep(settings.backoff_ms / 1000)
            return
        self._session.answered(response.session_id)
        size = 0
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                try:
                    self._apply_if_current(key, data)
                except NotReadyError:
                    await in_turns(ready_in_steps(partial(self._apply_if_current, key, data)))
                size += BYTES_AT_ONCE if data.diverging_epoch.end_offset >= 0 else len(data.records or b"")
                if size >= BYTES_AT_ONCE:
                    size = 0
                    await asyncio.sleep(0)

    def _wait_max_ms(self) -> int:
        """Return the max wait time of a request, which is short while a log is being flushed.

        The partition of that log is in no request until the flush ends. After the flush, its position is sent with the
        next request, so the current request must return soon. The longer the flush takes, the longer the requests wait.
        """
        wait_ms = self._settings.wait_ms_max
        if not self._flushing_since:
            return wait_ms
        since_ms = next(reversed(self._flushing_since.values()))
        return int(min(max(self._broker.clock.monotonic_ms() - since_ms, FIRST_FLUSH_WAIT_MS), wait_ms))

    def _apply_if_current(self, key: Key, data: FetchPartitionData) -> None:
        """Apply a partition's response, if its request had the current position."""
        partition, position = self._partitions.get(key), self._session.position_of(key)
        if partition is None or position is None or not self._session.is_current_position(key):
            return
        assert position.current_leader_epoch == partition.leader_epoch, (
            "a partition is added anew for each leader epoch"
        )
        assert position.fetch_offset == partition.log.log_end_offset, "only the fetcher writes into a follower's log"
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.append(partition)
        elif data.error_code != ErrorCode.NONE:
            logger.info("%s-%d: %s", partition.topic, partition.index, ErrorCode(data.error_code).name)
            self._pause_partition(partition)
        else:
            self._guarded(partition, lambda: self._apply(partition, data))

    def _apply(self, partition: Partition, data: FetchPartitionData) -> None:
        diverging = data.diverging_epoch
        if diverging.end_offset >= 0:
            partition.truncate_as_follower(EpochEnd(diverging.epoch, diverging.end_offset))
            return
        partition.append_as_follower(
            data.records or b"",
            leader_epoch=partition.leader_epoch,
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
        )
        self._broker.throttle.record(partition, len(data.records or b""))

    def _guarded(self, partition: Partition, change: Callable[[], None]) -> None:
        """Change a partition and set its next position; stop following a failed log, pause after other errors."""
        try:
            change()
        except (KafkaError, DiskFailure, CorruptLogError) as error:
            logger.warning("%s-%d cannot follow broker %d: %s", partition.topic, partition.index, self.leader_id, error)
            if partition.log.failure is not None:
                self.remove(partition)
            else:
                self._pause_partition(partition)
        else:
            self._failures.pop((partition.topic_id, partition.index), None)
            self._set_position(partition)

    # --- positions that the leader does not have

    async def _find_range(self, partition: Partition) -> None:
        """Restart a log that ends before the leader's log start, or truncate one beyond its log end (KIP-101)."""
        leader_epoch = partition.leader_epoch
        end = await self._offset(partition, LATEST)
        start = None if end is None else await self._offset(partition, EARLIEST)
        await in_turns(ready_in_steps(partial(self._take_range, partition, leader_epoch, start, end)))

    def _take_range(self, partition: Partition, leader_epoch: int, start: int | None, end: int | None) -> None:
        key = partition.topic_id, partition.index
        if self._partitions.get(key) is not partition or partition.leader_epoch != leader_epoch:
            return
        if end is None or start is None:
            self._pause_partition(partition)
            return
        log_end = partition.log.log_end_offset
        if end < log_end:
            self._guarded(partition, lambda: partition.truncate_to_leaders_end(end))
        elif start > log_end:
            self._guarded(partition, lambda: partition.restart_log_at(start))
        else:
            self._pause_partition(
                partition
            )  # the leader may repeat the error, and nothing else would delay the next request

    async def _offset(self, partition: Partition, timestamp: int) -> int | None:
        """Return the leader's earliest or latest offset; None if it returns an error."""
        partition_request = ListOffsetsPartition(
            partition_index=partition.index, current_leader_epoch=partition.leader_epoch, timestamp=timestamp
        )
        topic = ListOffsetsTopic(name=partition.topic, partitions=[partition_request])
        request = ListOffsetsRequest(replica_id=self._broker.broker_id, topics=[topic])
        response: ListOffsetsResponse = await self._send(request)
        for answer in response.topics[0].partitions if response.topics else ():
            if (answer.partition_index, answer.error_code) == (partition.index, ErrorCode.NONE):
                return answer.offset
        return None


_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
