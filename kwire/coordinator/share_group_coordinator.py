"""Share groups (KIP-932): membership, and the partitions whose state the share coordinator keeps.

A group's records are in __consumer_offsets, like those of the other kinds; the delivery states of its partitions are
in __share_group_state. A partition is assigned after the share coordinator has created its state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import UUID

from kwire.chunks import Pieces
from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.answers import Answer, when_answered
from kwire.coordinator.group.any_group import share_group
from kwire.coordinator.group.client import Client
from kwire.coordinator.group.memory import GroupMemory
from kwire.coordinator.group.share.describing import described_share_group, rejected_share_description
from kwire.coordinator.group.share.heartbeats import Heartbeat
from kwire.coordinator.group.share.partition_states import TopicsById
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.group.share.states import UNINITIALIZED_OFFSET, ShareStates
from kwire.coordinator.shard import Write
from kwire.coordinator.share_group_offsets import (
    ShareGroupOffsets,
    call_all,
    check_empty,
    error_of,
    is_unclear,
)
from kwire.coordinator.written_answers import GroupShard, write_and_answer
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.share_group_describe import ShareGroupDescribeGroup
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kwire.seams import Clock

logger = logging.getLogger(__name__)


class ShareGroupCoordinator:
    """APIs of share groups."""

    def __init__(
        self,
        *,
        shard_of: Callable[[str], GroupShard],
        memory: GroupMemory,
        image: Callable[[], MetadataImage],
        clock: Clock,
    ) -> None:
        """Create the APIs; `shard_of` returns the active shard of a group id, or raises KafkaError."""
        self._shard_of = shard_of
        self._memory = memory
        self._image = image
        self._clock = clock
        self._states: ShareStates | None = None
        self._offsets: ShareGroupOffsets | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unused: dict[str, None] = {}
        """Empty groups that are being removed; the first one is next."""

    def use_states(self, states: ShareStates, latest_offset: Callable[[str, int], Awaitable[int]]) -> None:
        """Use this share coordinator, and this function for the high watermark of a topic's partition."""
        self._states = states
        self._offsets = ShareGroupOffsets(
            shard_of=self._shard_of,
            states=states,
            latest_offset=latest_offset,
            memory=self._memory,
            image=self._image,
            clock=self._clock,
        )

    @property
    def offsets(self) -> ShareGroupOffsets:
        """Rules of the offsets. Raises COORDINATOR_NOT_AVAILABLE without a share coordinator."""
        if self._offsets is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._offsets

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    # --- membership

    def heartbeat(self, request: ShareGroupHeartbeatRequest, client: Client) -> Answer[ShareGroupHeartbeatResponse]:
        """Let a member join, stay in or leave a share group."""
        try:
            if not request.group_id.strip():
                raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
            shard = self._shard_of(request.group_id)
            with shard:
                group = shard.machine.groups.get(request.group_id)
                is_member = group is not None and request.member_id in group.members
                if not self._memory.reserve_member(request, client.client_id, is_member=is_member):
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                write = shard.machine.share_heartbeats.heartbeat(request, client)
                to_initialize = write.answer.to_initialize.values()
                if not self._memory.reserve_states(sum(len(topic.partitions) for topic in to_initialize)):
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except KafkaError as error:
            return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        answer = write_and_answer(shard, write, _rejected_heartbeat)
        return when_answered(answer, lambda heartbeat: self._answered(request.group_id, heartbeat))

    def _answered(self, group_id: str, heartbeat: Heartbeat) -> ShareGroupHeartbeatResponse:
        if heartbeat.to_initialize and self._states is not None:
            self._start(self._initialize(self._states, group_id, heartbeat.to_initialize))
        return heartbeat.response

    def describe(self, group_id: str) -> Pieces[ShareGroupDescribeGroup]:
        try:
            shard = self._shard_of(group_id)
            with shard:
                group = share_group(shard.machine.groups, group_id)
                return (yield from described_share_group(group, self._image()))
        except KafkaError as error:
            return rejected_share_description(group_id, error.code, error.message)

    async def delete_group(self, group_id: str) -> None:
        """Delete the states of an empty group's partitions, and then the group. Raises KafkaError."""
        async with self.offsets.changing(group_id):
            await self._delete(group_id)

    async def _delete(self, group_id: str) -> None:
        """Delete a group; the caller has its lock."""
        await self.offsets.delete_all(group_id)
        shard = self._shard_of(group_id)
        with shard:
            check_empty(share_group(shard.machine.groups, group_id))  # a member may have joined meanwhile
            written = shard.write(Write(answer=None, records=shard.machine.delete_records(group_id)))
        if isinstance(written, asyncio.Future):
            await written

    def remove_unused(self, group_id: str) -> None:
        """Delete an empty group soon, together with the states that its initializations may have left."""
        if self._states is None or group_id in self._unused:
            return
        self._unused[group_id] = None
        if len(self._unused) == 1:
            self._start(self._remove_all_unused())

    async def _remove_all_unused(self) -> None:
        """Remove the unused groups one after another; those whose states cannot be deleted wait for the next check."""
        try:
            while self._unused:
                group_id = next(iter(self._unused))
                try:
                    await self._remove_unused(group_id)
                except KafkaError as error:
                    logger.info("group %s: not removed for now: %s", group_id, error)
                del self._unused[group_id]
        finally:
            self._unused.clear()

    async def _remove_unused(self, group_id: str) -> None:
        async with self.offsets.changing(group_id):
            group = self._shard_of(group_id).machine.groups.get(group_id)
            if isinstance(group, ShareGroup) and group.is_unused:
                await self._delete(group_id)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- initialization of partitions

    async def _initialize(self, states: ShareStates, group_id: str, topics: TopicsById) -> None:
        """Have the share coordinator create the states of partitions, and store which of them exist now.

        Heartbeats repeat an initialization that takes long. When the first one has ended, the others must not create
        the same states again: what members have acknowledged since would be lost. A partition stays initializing after
        an error that may have had an effect, so that the group is not removed without that state.

        The states get the present epoch: a new group may have this id since the heartbeat, and it begins at epoch 1.
        """
        offsets = self.offsets
        async with offsets.changing(group_id):
            state_epoch, initializing = offsets.initializing(group_id)

            def initialize(one: tuple[UUID, int]) -> Awaitable[KafkaError | None]:
                return error_of(states.initialize_state(group_id, *one, state_epoch, UNINITIALIZED_OFFSET))

            partitions = [
                (topic_id, index)
                for topic_id, topic in topics.items()
                for index in sorted(topic.partitions & initializing.get(topic_id, frozenset()))
            ]
            errors = await call_all(partitions, initialize, is_unavailable=_is_unavailable)
            skipped = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # they would fail after another timeout
            errors += [skipped] * (len(partitions) - len(errors))
            created: dict[UUID, list[int]] = {}
            failed: dict[UUID, list[int]] = {}
            for (topic_id, index), error in zip(partitions, errors, strict=True):
                if error is None:
                    created.setdefault(topic_id, []).append(index)
                elif not is_unclear(error):
                    failed.setdefault(topic_id, []).append(index)
            if count := sum(error is not None for error in errors):
                first = next(filter(None, errors))
                logger.warning("group %s: %d partitions are not initialized: %s", group_id, count, first)
            now_ms = self._clock.wall_ms()
            try:
                await offsets.change_states(
                    group_id,
                    lambda before: before.with_initialized(created, self._image(), now_ms).without_initializing(failed),
                )
            except KafkaError as error:
                logger.info("group %s: states of its partitions are not stored: %s", group_id, error)


def _is_unavailable(error: KafkaError | None) -> bool:
    """Return True if a call has failed because the share coordinator is not available for now."""
    return error is not None and is_unclear(error)


def _rejected_heartbeat(code: ErrorCode) -> Heartbeat:
    return Heartbeat(ShareGroupHeartbeatResponse(error_code=code), {})
