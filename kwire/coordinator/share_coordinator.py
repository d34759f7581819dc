"""Share coordinator: finds the shard of a share partition and answers requests by its state (KIP-932).

Each method returns the answer, or an awaitable of it if records must become durable first. Both the call and the
awaitable may raise KafkaError, which the API converts to an error code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kwire.chunks import chunks, turn
from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.topic_names import SHARE_STATE_TOPIC
from kwire.coordinator.answers import Answer
from kwire.coordinator.key_partitions import KeyPartitions
from kwire.coordinator.runtime import CoordinatorRuntime
from kwire.coordinator.shard import ShardState, Step, Write
from kwire.coordinator.share.batches import NO_OFFSET, StateBatch, combine
from kwire.coordinator.share.config import ShareStateConfig
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.machine import ShareMachine
from kwire.coordinator.share.memory import ShareMemory
from kwire.coordinator.share.pruning import ShareShard, prune_repeatedly
from kwire.coordinator.share.records import ShareRecord
from kwire.coordinator.share.state import (
    FIRST_EPOCH,
    NO_EPOCH,
    UNKNOWN_COUNT,
    SharePartition,
    ShareState,
    ShareSummary,
    initial_state,
    next_record,
)
from kwire.coordinator.timers import Timers
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Clock

__all__ = ["ShareCoordinator", "ShareStateConfig"]

logger = logging.getLogger(__name__)

BATCHES_MAX: Final = 10_000
"""State batches of a share partition: the highest number of records in delivery that Kafka's configuration allows."""

BATCHES_AT_ONCE: Final = 1_000
"""State batches that are stored in one step, which takes a few milliseconds."""


class _Change(NamedTuple):
    """Write of a share partition without its batches."""

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int | None
    """None if it stays as it is."""


NOT_INITIALISED: Final = ShareSummary(FIRST_EPOCH, FIRST_EPOCH, NO_OFFSET, UNKNOWN_COUNT)


class ShareCoordinator:
    """Share coordinator for the partitions of __share_group_state that this broker leads."""

    def __init__(
        self,
        *,
        config: ShareStateConfig,
        partitions: Partitions,
        image: Callable[[], MetadataImage],
        clock: Clock,
        count_loaded: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._partitions = partitions
        self._image = image
        self.keys = KeyPartitions(SHARE_STATE_TOPIC, image)
        self._clock = clock
        self._memory = ShareMemory(config.memory_bytes_max)
        self._runtime: CoordinatorRuntime[ShareRecord, ShareMachine] = CoordinatorRuntime(
            make=self._make_machine, clock=clock, write_timeout_ms=config.write_timeout_ms, count_loaded=count_loaded
        )
        self._pruning: asyncio.Task[None] | None = None

    def _make_machine(self, timers: Timers[Step[ShareRecord]]) -> ShareMachine:
        return ShareMachine(
            timers, config=self._config, clock=self._clock, memory=self._memory, has_topic=self._has_topic
        )

    def _has_topic(self, topic_id: UUID) -> bool:
        return topic_id in self._image().topic_names

    # --- start and stop

    async def start(self) -> None:
        """Serve the partitions that this broker leads; slow loading continues in the background."""
        self._pruning = asyncio.get_running_loop().create_task(
            prune_repeatedly(lambda: self._runtime, self._config.prune_interval_ms)
        )
        await self._runtime.start(each for each in self._partitions if each.topic == SHARE_STATE_TOPIC and each.is_led)

    async def loaded(self) -> None:
        """Wait until all led partitions are loaded."""
        await self._runtime.loaded()

    def stop(self) -> None:
        """Answer all waiting requests, and stop."""
        self._runtime.stop()
        if self._pruning is not None:
            self._pruning.cancel()

    def role_changed(self, partition: Partition) -> None:
        """Serve or release a partition after a change of its leader."""
        if partition.topic == SHARE_STATE_TOPIC:
            self._runtime.serve_or_release(partition)

    def partition_removed(self, partition: Partition) -> None:
        """Drop the state of a partition that was removed from this broker."""
        if partition.topic == SHARE_STATE_TOPIC:
            self._runtime.resign(partition.index)

    def topic_deleted(self, topic: TopicImage) -> None:
        """Delete the state of all share groups in a deleted topic; a loading shard does so once it is loaded."""
        for shard in self._runtime:
            if shard.state is ShardState.ACTIVE:
                shard.machine.delete_topic(topic.topic_id)

    # --- shards

    def partition_for(self, coordinator_key: str) -> int:
        """Return the partition of __share_group_state of a key. Raises NOT_COORDINATOR if the topic does not exist."""
        return self.keys.find(coordinator_key)

    def _shard(self, key: ShareKey) -> ShareShard:
        index = self.partition_for(key.coordinator_key)
        if self._runtime.find(index) is None:
            partition = self._partitions.get(SHARE_STATE_TOPIC, index)
            if partition is not None:
                self._runtime.serve_or_release(partition)
        return self._runtime.active(index)

    def _check_exists(self, key: ShareKey) -> None:
        topic = self._image().topic_by_id(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # --- requests

    def initialise(self, key: ShareKey, *, state_epoch: int, start_offset: int) -> Answer[None]:
        """Discard the state of a share partition, if any, and store a new one."""
        shard = self._shard(key)
        with shard:
            _check_number(key)
            partition = shard.machine.partitions.get(key)
            if partition is not None:
                _check_state_epoch(partition, state_epoch)
            self._check_exists(key)
            if partition is None and not self._memory.has_room:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "There is too much state of share groups.")
            state = initial_state(
                snapshot_epoch=0 if partition is None else partition.state.snapshot_epoch + 1,
                state_epoch=state_epoch,
                start_offset=start_offset,
                now_ms=self._clock.wall_ms(),
            )
            return shard.write(Write(answer=None, records=[ShareRecord(key, state)]))

    def read(self, key: ShareKey, *, leader_epoch: int) -> Answer[ShareState]:
        """Return the state of a share partition to its leader, whose epoch is stored if it is a new one."""
        shard = self._shard(key)
        with shard:
            partition = _initialised(shard, key, "Read")
            _check_leader_epoch(partition, leader_epoch)
            self._check_exists(key)
            state = partition.state
            if leader_epoch in (NO_EPOCH, partition.leader_epoch):
                return shard.read(state)
            record = next_record(
                partition,
                leader_epoch=leader_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.delivery_complete_count,
                batches=(),
                updates_per_snapshot=self._config.updates_per_snapshot,
                now_ms=self._clock.wall_ms(),
            )
            return shard.write(Write(answer=state, records=[ShareRecord(key, record)]))

    def write(
        self,
        key: ShareKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Answer[None]:
        """Store changes of a share partition's state.

        As in Kafka, a higher leader epoch is accepted but not stored: the read before it has stored it. More than
        BATCHES_AT_ONCE batches are stored in several updates, so that none of them takes long.
        """
        change = _Change(key, state_epoch, leader_epoch, start_offset, delivery_complete_count)
        if len(batches) <= BATCHES_AT_ONCE:
            return self._write(change, batches)
        if len(batches) > BATCHES_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"A write has at most {BATCHES_MAX} state batches.")
        parts = list(chunks(sorted(batches), BATCHES_AT_ONCE))
        first = self._write(change, parts[0])
        return asyncio.ensure_future(self._write_rest(first, change, parts[1:]))

    async def _write_rest(self, answer: Answer[None], change: _Change, parts: Iterable[Sequence[StateBatch]]) -> None:
        """Write further batches of a change, whose start offset and count are written already."""
        rest = change._replace(start_offset=NO_OFFSET, delivery_complete_count=None)
        for part in parts:
            await turn()
            _ignore_error(answer)  # the answer of the last part comes after it, and has the same error
            answer = self._write(rest, part)
        if isinstance(answer, Awaitable):
            await answer

    def _write(self, change: _Change, batches: Sequence[StateBatch]) -> Answer[None]:
        key = change.key
        shard = self._shard(key)
        with shard:
            partition = _initialised(shard, key, "Write")
            _check_leader_epoch(partition, change.leader_epoch)
            _check_state_epoch(partition, change.state_epoch)
            self._check_exists(key)
            self._check_batches(partition, change.start_offset, batches)
            state, count = partition.state, change.delivery_complete_count
            record = next_record(
                partition,
                leader_epoch=state.leader_epoch,
                start_offset=change.start_offset,
                delivery_complete_count=state.delivery_complete_count if count is None else count,
                batches=batches,
                updates_per_snapshot=self._config.updates_per_snapshot,
                now_ms=self._clock.wall_ms(),
            )
            return shard.write(Write(answer=None, records=[ShareRecord(key, record)]))

    def delete(self, key: ShareKey) -> Answer[None]:
        """Delete the state of a share partition, if any."""
        shard = self._shard(key)
        with shard:
            _check_number(key)
            self._check_exists(key)
            if key not in shard.machine.partitions:
                return shard.read(None)
            return shard.write(Write(answer=None, records=[ShareRecord(key, None)]))

    def read_summary(self, key: ShareKey) -> Answer[ShareSummary]:
        """Return the state of a share partition without its batches, also of one that is not initialised."""
        shard = self._shard(key)
        with shard:
            _check_number(key)
            self._check_exists(key)
            partition = shard.machine.partitions.get(key)
            if partition is None:
                return shard.read(NOT_INITIALISED)
            state = partition.state
            return shard.read(
                ShareSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)
            )

    # --- checks

    def _check_batches(self, partition: SharePartition, start_offset: int, batches: Sequence[StateBatch]) -> None:
        """Check that the batches are ranges, and that the state does not become too large. Kafka checks neither."""
        if any([each.first_offset > each.last_offset for each in batches]):  # noqa: C419 a list is quicker for many
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The last offset of a state batch is below its first offset.")
        before = partition.state
        if len(before.batches) + len(batches) <= BATCHES_MAX and (not batches or self._memory.has_room):
            return
        after = combine(before.batches, batches, before.start_offset if start_offset == NO_OFFSET else start_offset)
        if len(after) > max(BATCHES_MAX, len(before.batches)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"A share partition has at most {BATCHES_MAX} state batches.")
        if len(after) > len(before.batches) and not self._memory.has_room:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "There is too much state of share groups.")


def _ignore_error(answer: Answer[None]) -> None:
    """Retrieve the error of a future that nothing awaits."""
    if isinstance(answer, asyncio.Future):
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())


def _check_number(key: ShareKey) -> None:
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def _initialised(shard: ShareShard, key: ShareKey, operation: str) -> SharePartition:
    _check_number(key)
    partition = shard.machine.partitions.get(key)
    if partition is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{operation} operation on uninitialized share partition not allowed."
        )
    return partition


def _check_leader_epoch(partition: SharePartition, leader_epoch: int) -> None:
    if leader_epoch != NO_EPOCH and leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)


def _check_state_epoch(partition: SharePartition, state_epoch: int) -> None:
    if state_epoch != NO_EPOCH and state_epoch < partition.state_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
