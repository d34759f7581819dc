"""Requests to share coordinators, as brokers send them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStatePartitionData,
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStatePartitionData,
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from kwire.protocol.messages.read_share_group_state import (
    ReadShareGroupStatePartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)
from kwire.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryPartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from kwire.protocol.messages.write_share_group_state import (
    WriteShareGroupStateBatch,
    WriteShareGroupStatePartitionData,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from tests.support.raw_client import RawClient

SHARE = 2
"""FindCoordinator's key type of share partitions."""


def find(client: RawClient, key: str, version: int = 6) -> Any:
    return client.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key]), version).coordinators[0]


def initialise(
    client: RawClient, topic_id: UUID, *partitions: int, group: str = "g", epoch: int = 0, start: int = -1
) -> list[ErrorCode]:
    data = [
        InitializeShareGroupStatePartitionData(partition=each, state_epoch=epoch, start_offset=start)
        for each in partitions
    ]
    topics = [InitializeStateData(topic_id=topic_id, partitions=data)]
    return codes(client.ask(InitializeShareGroupStateRequest(group_id=group, topics=topics), 0))


def read(client: RawClient, topic_id: UUID, partition: int, *, leader_epoch: int = -1, group: str = "g") -> Any:
    data = [ReadShareGroupStatePartitionData(partition=partition, leader_epoch=leader_epoch)]
    topics = [ReadStateData(topic_id=topic_id, partitions=data)]
    return only(client.ask(ReadShareGroupStateRequest(group_id=group, topics=topics), 0))


def write(
    client: RawClient,
    topic_id: UUID,
    partition: int,
    *batches: tuple[int, int, int, int],
    version: int = 1,
    **fields: int,
) -> ErrorCode:
    data = WriteShareGroupStatePartitionData(
        **({"state_epoch": 0, "leader_epoch": 0, "start_offset": -1} | fields),
        partition=partition,
        state_batches=[
            WriteShareGroupStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in batches
        ],
    )
    topics = [WriteStateData(topic_id=topic_id, partitions=[data])]
    return ErrorCode(only(client.ask(WriteShareGroupStateRequest(group_id="g", topics=topics), version)).error_code)


def delete(client: RawClient, topic_id: UUID, partition: int) -> ErrorCode:
    topics = [DeleteStateData(topic_id=topic_id, partitions=[DeleteShareGroupStatePartitionData(partition=partition)])]
    return ErrorCode(only(client.ask(DeleteShareGroupStateRequest(group_id="g", topics=topics), 0)).error_code)


def summary(client: RawClient, topic_id: UUID, partition: int, version: int = 1) -> Any:
    data = [ReadShareGroupStateSummaryPartitionData(partition=partition, leader_epoch=0)]
    topics = [ReadStateSummaryData(topic_id=topic_id, partitions=data)]
    return only(client.ask(ReadShareGroupStateSummaryRequest(group_id="g", topics=topics), version))


def only(response: Any) -> Any:
    (topic,) = response.results
    (partition,) = topic.partitions
    return partition


def codes(response: Any) -> list[ErrorCode]:
    return [ErrorCode(each.error_code) for topic in response.results for each in topic.partitions]


def batches(state: Any) -> list[tuple[int, int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in state.state_batches
    ]
