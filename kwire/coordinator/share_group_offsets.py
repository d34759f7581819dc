"""Offsets of share groups (KIP-932): described, altered and deleted; deletion of whole share groups.

The offsets are in the states of the share coordinator. The group's own record says which partitions have a state, so
that an interrupted change can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from kwire.chunks import turn
from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.any_group import share_group
from kwire.coordinator.group.memory import GroupMemory
from kwire.coordinator.group.share.partition_states import PartitionStates, TopicStates
from kwire.coordinator.group.share.records import epoch_record, states_record
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.group.share.states import UNINITIALIZED_OFFSET, ShareStates
from kwire.coordinator.shard import Write
from kwire.coordinator.share.state import NO_EPOCH, UNKNOWN_COUNT, ShareSummary
from kwire.coordinator.written_answers import GroupShard
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Clock

T = TypeVar("T")
R = TypeVar("R")

UNKNOWN_LAG = -1
_SIGN = 1 << 63
NO_LEADER_EPOCH = 0
AT_ONCE = 64
"""Partitions whose states are requested at a time."""


class PartitionOffset(NamedTuple):
    """Start offset of a share group in a partition."""

    start_offset: int = UNINITIALIZED_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    lag: int = UNKNOWN_LAG
    error: KafkaError | None = None


class ShareGroupOffsets:
    """Rules of the offsets of share groups."""

    def __init__(
        self,
        *,
        shard_of: Callable[[str], GroupShard],
        states: ShareStates,
        latest_offset: Callable[[str, int], Awaitable[int]],
        memory: GroupMemory,
        image: Callable[[], MetadataImage],
        clock: Clock,
    ) -> None:
        """Create the rules.

        `shard_of` returns the active shard of a group id, or raises KafkaError. `latest_offset` returns the high
        watermark of a topic's partition, or raises KafkaError.
        """
        self._shard_of = shard_of
        self._states = states
        self._latest_offset = latest_offset
        self._memory = memory
        self._image = image
        self._clock = clock
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def changing(self, group_id: str) -> asyncio.Lock:
        """Return the lock for changes of a group's states, which take several requests to the share coordinator.

        Without it, a deletion could delete states that a joining member has created since. The group would still
        assign their partitions, and no member could fetch them.
        """
        return self._changing.setdefault(group_id, asyncio.Lock())

    def initializing(self, group_id: str) -> tuple[int, dict[UUID, frozenset[int]]]:
        """Return a group's epoch, and the partitions that are being initialized.

        There are none if this broker does not coordinate the group.
        """
        try:
            shard = self._shard_of(group_id)
        except KafkaError:
            return NO_EPOCH, {}
        group = shard.machine.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return NO_EPOCH, {}
        return group.epoch, {topic_id: topic.partitions for topic_id, topic in group.states.initializing.items()}

    # --- describe

    def initialized_partitions(self, group_id: str) -> dict[str, list[int]]:
        """Return the partitions that have a state, by topic name. Raises KafkaError."""
        shard = self._shard_of(group_id)
        with shard:
            group = shard.machine.groups.get(group_id)
            if not isinstance(group, ShareGroup):
                return {}
            names = self._image().topic_names
            return {
                names[topic_id]: sorted(topic.partitions)
                for topic_id, topic in group.states.initialized.items()
                if topic_id in names
            }

    async def describe(self, group_id: str, topic: str, partitions: Sequence[int]) -> list[PartitionOffset]:
        """Return the offsets of a topic's partitions, in their order."""
        image = self._image().topics.get(topic)
        if image is None:
            return [PartitionOffset()] * len(partitions)
        topic_id = image.topic_id
        return await call_all(partitions, lambda index: self._describe(group_id, topic, topic_id, index))

    async def _describe(self, group_id: str, topic: str, topic_id: UUID, partition: int) -> PartitionOffset:
        try:
            summary = await self._states.read_summary(group_id, topic_id, partition, -1)
        except KafkaError:
            return PartitionOffset()
        try:
            lag = await self._lag(topic, partition, summary)
        except KafkaError as error:
            return PartitionOffset(error=error)
        return PartitionOffset(summary.start_offset, summary.leader_epoch, lag)

    async def _lag(self, topic: str, partition: int, summary: ShareSummary) -> int:
        if summary.start_offset == UNINITIALIZED_OFFSET or summary.delivery_complete_count == UNKNOWN_COUNT:
            return UNKNOWN_LAG
        latest = await self._latest_offset(topic, partition)
        lag = latest - summary.start_offset - summary.delivery_complete_count
        return (lag + _SIGN) % (2 * _SIGN) - _SIGN  # altered start offsets are not bounded; Kafka's lag overflows

    # --- alter

    async def alter(
        self, group_id: str, offsets: Mapping[UUID, Mapping[int, int]]
    ) -> dict[tuple[UUID, int], KafkaError]:
        """Set the start offsets of an empty group, which is created if needed; return the partitions that failed.

        A topic that was deleted meanwhile fails with UNKNOWN_TOPIC_OR_PARTITION. Raises GROUP_ID_NOT_FOUND or
        NON_EMPTY_GROUP, and COORDINATOR_NOT_AVAILABLE if there is no memory for another group.
        """
        async with self.changing(group_id):
            names = self._image().topic_names
            failed = {
                (topic_id, index): KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for topic_id, each in offsets.items()
                if topic_id not in names
                for index in each
            }
            present = {topic_id: each for topic_id, each in offsets.items() if topic_id in names}
            return failed | await self._alter(group_id, present)

    async def _alter(
        self, group_id: str, offsets: Mapping[UUID, Mapping[int, int]]
    ) -> dict[tuple[UUID, int], KafkaError]:
        shard = self._shard_of(group_id)
        image, now_ms = self._image(), self._clock.wall_ms()
        with shard:
            group = shard.machine.groups.get(group_id)
            found = ShareGroup(group_id) if group is None else share_group(shard.machine.groups, group_id)
            check_empty(found)
            if not offsets:
                return {}  # no group is created
            if group is None and not self._memory.reserve_group(group_id):
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if not self._memory.reserve_states(sum(map(len, offsets.values()))):
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            topics = {
                topic_id: TopicStates(image.topic_names[topic_id], frozenset(partitions), now_ms)
                for topic_id, partitions in offsets.items()
            }
            records = [] if group is not None else [epoch_record(group_id, found.epoch, found.metadata_hash)]
            states = found.states.with_initializing(topics, image)
            records.append(states_record(group_id, states, states.named_deleting(image)))
            written = shard.write(Write(answer=None, records=records))
        if isinstance(written, asyncio.Future):
            await written
        requested = [(topic_id, index, offset) for topic_id, each in offsets.items() for index, offset in each.items()]
        errors = await call_all(
            requested,
            lambda one: error_of(self._states.initialize_state(group_id, one[0], one[1], found.epoch, one[2])),
        )
        failed = {
            (topic_id, index): error
            for (topic_id, index, _), error in zip(requested, errors, strict=True)
            if error is not None
        }
        done = _by_topic((topic_id, index) for topic_id, index, _ in requested if (topic_id, index) not in failed)
        await self.change_states(
            group_id,
            lambda before: before.with_initialized(done, self._image(), self._clock.wall_ms()).without_initializing(
                _by_topic(partition for partition, error in failed.items() if not is_unclear(error))
            ),
        )
        return failed

    # --- delete

    async def delete(self, group_id: str, topic_ids: Sequence[UUID]) -> dict[UUID, KafkaError]:
        """Delete the offsets of topics of an empty group; return the topics that failed.

        A topic without offsets fails with UNKNOWN_TOPIC_OR_PARTITION. Raises GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
        """
        async with self.changing(group_id):
            return await self._delete(group_id, topic_ids)

    async def _delete(self, group_id: str, topic_ids: Sequence[UUID]) -> dict[UUID, KafkaError]:
        shard = self._shard_of(group_id)
        image = self._image()
        failed: dict[UUID, KafkaError] = {}
        chosen: dict[UUID, Iterable[int]] = {}
        with shard:
            group = share_group(shard.machine.groups, group_id)
            check_empty(group)
            stored = group.states.partitions(image)
            for topic_id in topic_ids:
                topic = image.topic_by_id(topic_id)
                if topic_id in group.states.initialized:
                    chosen[topic_id] = sorted(stored[topic_id].partitions)
                elif topic_id in group.states.deleting and topic is not None:
                    chosen[topic_id] = range(len(topic.partitions))
                else:
                    failed[topic_id] = KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
                    )
        await self.change_states(group_id, lambda before: before.with_deleting(chosen))
        errors = await self._delete_states(group_id, chosen)
        failed.update(errors)
        deleted = frozenset(chosen.keys() - errors.keys())
        await self.change_states(group_id, lambda before: before.without_topics(deleted & before.deleting))
        return failed

    async def delete_all(self, group_id: str) -> None:
        """Delete the states of an empty share group before the group itself; the caller has its lock.

        States of topics that were deleted are deleted with them. Raises KafkaError.
        """
        shard = self._shard_of(group_id)
        with shard:
            group = share_group(shard.machine.groups, group_id)
            check_empty(group)
            chosen = {
                topic_id: sorted(topic.partitions) for topic_id, topic in group.states.partitions(self._image()).items()
            }
        if not chosen:
            return
        await self.change_states(group_id, lambda before: before.with_all_deleting(self._image()))
        errors = await self._delete_states(group_id, chosen)
        for error in errors.values():
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error

    async def _delete_states(self, group_id: str, topics: Mapping[UUID, Iterable[int]]) -> dict[UUID, KafkaError]:
        """Delete the states of partitions; return the first error of each topic that failed."""
        partitions = [(topic_id, index) for topic_id, indexes in topics.items() for index in indexes]
        errors = await call_all(partitions, lambda one: error_of(self._states.delete_state(group_id, one[0], one[1])))
        failed: dict[UUID, KafkaError] = {}
        for (topic_id, _), error in zip(partitions, errors, strict=True):
            if error is not None:
                failed.setdefault(topic_id, error)
        return failed

    async def change_states(self, group_id: str, change: Callable[[PartitionStates], PartitionStates]) -> None:
        """Store changed states of a group's partitions; a group that is gone is ignored. Raises KafkaError."""
        shard = self._shard_of(group_id)
        with shard:
            group = shard.machine.groups.get(group_id)
            if not isinstance(group, ShareGroup):
                return
            states = change(group.states)
            if states == group.states:
                return
            record = states_record(group_id, states, states.named_deleting(self._image()))
            written = shard.write(Write(answer=None, records=[record]))
        if isinstance(written, asyncio.Future):
            await written


def is_unclear(error: KafkaError) -> bool:
    """Return True if a request to the share coordinator may have had an effect, or may still have one."""
    return error.code.retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def check_empty(group: ShareGroup) -> None:
    """Raise NON_EMPTY_GROUP for a group with members."""
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def _by_topic(partitions: Iterable[tuple[UUID, int]]) -> dict[UUID, list[int]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in partitions:
        topics.setdefault(topic_id, []).append(index)
    return topics


async def error_of(call: Awaitable[None]) -> KafkaError | None:
    """Return the error of a call, or None."""
    try:
        await call
    except KafkaError as error:
        return error.with_traceback(None)
    return None


async def call_all(
    items: Sequence[T], call: Callable[[T], Awaitable[R]], *, is_unavailable: Callable[[R], bool] = lambda _: False
) -> list[R]:
    """Return the results of a call for each item, in their order; AT_ONCE calls wait at a time.

    A call that waits long does not delay the others. `is_unavailable` returns True for a failure that the next calls
    would share. After the first AT_ONCE results, or more than AT_ONCE in a row, the other items are skipped: the list
    is shorter.
    """
    results: dict[int, R] = {}
    indexes = iter(range(len(items)))
    unavailable = 0

    async def call_some() -> None:
        nonlocal unavailable
        for index in indexes:
            results[index] = await call(items[index])
            unavailable = unavailable + 1 if is_unavailable(results[index]) else 0
            await turn()  # other results that have come meanwhile count before the next call
            # Later on, AT_ONCE calls may wait for the few that are unavailable: the next results come at once.
            has_others = unavailable < len(results)
            if unavailable >= AT_ONCE + has_others:
                return

    await asyncio.gather(*(call_some() for _ in range(min(AT_ONCE, len(items)))))
    return [results[index] for index in range(len(results))]
