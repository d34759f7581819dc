"""Client of the share coordinators for this broker: partition leaders and the group coordinator store state with it.

A coordinator on this broker is called directly. A request to another broker contains all waiting calls of one
share group for that broker (RequestBatches). Errors that a coordinator answers while it moves or loads are retried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from kwire.cluster.channel import Unreachable
from kwire.cluster.metadata.image import NO_LEADER
from kwire.cluster.topic_names import SHARE_STATE_TOPIC
from kwire.coordinator.answers import Answer
from kwire.coordinator.share.batches import StateBatch
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.state import ShareSummary
from kwire.coordinator.share_coordinator import ShareCoordinator
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages import delete_share_group_state as deleting
from kwire.protocol.messages import initialize_share_group_state as initialising
from kwire.protocol.messages import read_share_group_state as reading
from kwire.protocol.messages import read_share_group_state_summary as summing_up
from kwire.protocol.messages import write_share_group_state as writing
from kwire.seams import Clock
from kwire.server.other_nodes.other_brokers import OtherBrokers
from kwire.server.other_nodes.request_batches import RequestBatches

T = TypeVar("T")

PATIENCE_MS: Final = 30_000
"""Time for which a call is retried."""
BACKOFF_S: Final = 0.05
BACKOFF_MAX_S: Final = 1.0
"""First and longest pause between two attempts; each pause is twice as long as the one before."""

_RETRIED: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

_Topics = Mapping[UUID, list[Any]]
"""Partition data of a request, by topic."""


class PersistedState(NamedTuple):
    """State of a share partition for its leader."""

    state_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]


class _Item(NamedTuple):
    """Partition of a request."""

    key: ShareKey
    data: Any


@dataclass(frozen=True, slots=True)
class _Batches:
    """Requests of one API to other brokers."""

    make_request: Callable[[str, _Topics], Any]
    items: RequestBatches[_Item, Any]


class SharePersister:
    """Storage of share groups' state at the coordinators of the cluster. All methods raise KafkaError."""

    def __init__(
        self,
        here: ShareCoordinator,
        others: OtherBrokers,
        *,
        create_topic: Callable[[Iterable[str]], Awaitable[Mapping[str, KafkaError]]],
        clock: Clock,
    ) -> None:
        """`create_topic` creates __share_group_state before its first use."""
        self._here = here
        self._others = others
        self._create_topic = create_topic
        self._clock = clock
        self._initialising = self._batches(_initialize_request)
        self._reading = self._batches(_read_request)
        self._writing = self._batches(_write_request)
        self._deleting = self._batches(_delete_request)
        self._summing_up = self._batches(_summary_request)

    def stop(self) -> None:
        """Cancel the requests that wait for a response."""
        for each in (self._initialising, self._reading, self._writing, self._deleting, self._summing_up):
            each.items.stop()

    # --- operations

    async def initialize_state(
        self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, start_offset: int
    ) -> None:
        """Store the initial state of a share partition, in place of an earlier one."""
        key = ShareKey(group_id, topic_id, partition)
        data = initialising.InitializeShareGroupStatePartitionData(
            partition=partition, state_epoch=state_epoch, start_offset=start_offset
        )
        await self._call(
            key,
            lambda: self._here.initialise(key, state_epoch=state_epoch, start_offset=start_offset),
            self._initialising,
            data,
            _nothing,
        )

    async def read_state(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> PersistedState:
        """Return the state of a share partition, and let only leaders of this epoch and later ones write it."""
        key = ShareKey(group_id, topic_id, partition)

        async def read_here() -> PersistedState:
            state = await _awaited(self._here.read(key, leader_epoch=leader_epoch))
            return PersistedState(state.state_epoch, state.start_offset, state.batches)

        data = reading.ReadShareGroupStatePartitionData(partition=partition, leader_epoch=leader_epoch)
        return await self._call(key, read_here, self._reading, data, _persisted)

    async def write_state(
        self,
        group_id: str,
        topic_id: UUID,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[tuple[int, int, int, int]],
    ) -> None:
        """Store changes of a share partition's state. A batch is (first offset, last offset, state, count)."""
        key = ShareKey(group_id, topic_id, partition)
        changed = [StateBatch(*each) for each in batches]

        def write_here() -> Answer[None]:
            return self._here.write(
                key,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=delivery_complete_count,
                batches=changed,
            )

        data = writing.WriteShareGroupStatePartitionData(
            partition=partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=[
                writing.WriteShareGroupStateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in changed
            ],
        )
        await self._call(key, write_here, self._writing, data, _nothing)

    async def delete_state(self, group_id: str, topic_id: UUID, partition: int) -> None:
        """Delete the state of a share partition, if any."""
        key = ShareKey(group_id, topic_id, partition)
        data = deleting.DeleteShareGroupStatePartitionData(partition=partition)
        await self._call(key, lambda: self._here.delete(key), self._deleting, data, _nothing)

    async def read_summary(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareSummary:
        """Return the state of a share partition without its batches, also of one that is not initialised."""
        key = ShareKey(group_id, topic_id, partition)
        data = summing_up.ReadShareGroupStateSummaryPartitionData(partition=partition, leader_epoch=leader_epoch)
        return await self._call(key, lambda: self._here.read_summary(key), self._summing_up, data, _summary)

    # --- attempts

    async def _call(
        self,
        key: ShareKey,
        here: Callable[[], Answer[T]],
        there: _Batches,
        data: Any,
        convert: Callable[[Any], T],
    ) -> T:
        """Return the result of an operation at the coordinator of a share partition, and retry for PATIENCE_MS."""
        deadline_ms = self._clock.monotonic_ms() + PATIENCE_MS
        pause_s = BACKOFF_S
        while True:
            try:
                leader_id = await self._coordinator_of(key)
                if leader_id == self._others.broker_id:
                    return await _awaited(here())
                result = await there.items.add(leader_id, key, _Item(key, data), 1)
                if result.error_code != ErrorCode.NONE:
                    raise KafkaError(ErrorCode(result.error_code), result.error_message)
                return convert(result)
            except KafkaError as error:
                if error.code not in _RETRIED or self._clock.monotonic_ms() + pause_s * 1000 >= deadline_ms:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, BACKOFF_MAX_S)

    async def _coordinator_of(self, key: ShareKey) -> int:
        """Return the broker that coordinates a share partition. Raises KafkaError if there is none."""
        if SHARE_STATE_TOPIC not in self._others.image.topics:
            await self._create_topic([SHARE_STATE_TOPIC])
        index = self._here.partition_for(key.coordinator_key)
        partitions = self._others.image.topics[SHARE_STATE_TOPIC].partitions
        leader_id = partitions[index].leader if index < len(partitions) else NO_LEADER
        if leader_id == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader_id

    def _batches(self, make_request: Callable[[str, _Topics], Any]) -> _Batches:
        async def send(broker_id: int, items: Sequence[_Item]) -> list[Any]:
            return await self._send(broker_id, items, make_request)

        return _Batches(make_request, RequestBatches(send))

    async def _send(
        self, broker_id: int, items: Sequence[_Item], make_request: Callable[[str, _Topics], Any]
    ) -> list[Any]:
        """Return the results of partitions, from one request for each share group."""
        by_group: dict[str, dict[UUID, list[Any]]] = {}
        for (group_id, topic_id, _), data in items:
            by_group.setdefault(group_id, {}).setdefault(topic_id, []).append(data)
        results: dict[ShareKey, Any] = {}

        async def send(group_id: str, topics: _Topics) -> None:
            try:
                response = await self._others.send(broker_id, make_request(group_id, topics))
            except Unreachable as error:
                failed = _Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
                results.update((item.key, failed) for item in items if item.key.group_id == group_id)
                return
            for topic in response.results:
                for each in topic.partitions:
                    results[ShareKey(group_id, topic.topic_id, each.partition)] = each

        await asyncio.gather(*(send(group_id, topics) for group_id, topics in by_group.items()))
        missing = _Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {broker_id} has sent no result")
        return [results.get(item.key, missing) for item in items]


class _Failed(NamedTuple):
    """Result of a partition that a broker has not answered."""

    error_code: ErrorCode
    error_message: str


async def _awaited(answer: Answer[T]) -> T:
    return await answer if isinstance(answer, Awaitable) else answer


# --- messages


def _nothing(result: Any) -> None:
    """Return nothing: the result has only an error code."""


def _persisted(result: reading.ReadShareGroupStatePartitionResult) -> PersistedState:
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in result.state_batches
    ]
    return PersistedState(result.state_epoch, result.start_offset, batches)


def _summary(result: summing_up.ReadShareGroupStateSummaryPartitionResult) -> ShareSummary:
    return ShareSummary(result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count)


def _initialize_request(group_id: str, topics: _Topics) -> initialising.InitializeShareGroupStateRequest:
    return initialising.InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=[initialising.InitializeStateData(topic_id=topic, partitions=each) for topic, each in topics.items()],
    )


def _read_request(group_id: str, topics: _Topics) -> reading.ReadShareGroupStateRequest:
    return reading.ReadShareGroupStateRequest(
        group_id=group_id,
        topics=[reading.ReadStateData(topic_id=topic, partitions=each) for topic, each in topics.items()],
    )


def _write_request(group_id: str, topics: _Topics) -> writing.WriteShareGroupStateRequest:
    return writing.WriteShareGroupStateRequest(
        group_id=group_id,
        topics=[writing.WriteStateData(topic_id=topic, partitions=each) for topic, each in topics.items()],
    )


def _delete_request(group_id: str, topics: _Topics) -> deleting.DeleteShareGroupStateRequest:
    return deleting.DeleteShareGroupStateRequest(
        group_id=group_id,
        topics=[deleting.DeleteStateData(topic_id=topic, partitions=each) for topic, each in topics.items()],
    )


def _summary_request(group_id: str, topics: _Topics) -> summing_up.ReadShareGroupStateSummaryRequest:
    return summing_up.ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[summing_up.ReadStateSummaryData(topic_id=topic, partitions=each) for topic, each in topics.items()],
    )
