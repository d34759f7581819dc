"""Share groups over the wire: members, and the offsets of empty groups, with a share coordinator on the same broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, produce, unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

LEAST, MOST = -(1 << 63), (1 << 63) - 1
SINGLE = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), SINGLE) as running:
        yield running


@pytest.fixture
def group(client: RawClient) -> str:
    """Return a group id whose coordinator is available."""
    name = unique("group")
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[name])
    eventually(lambda: client.ask(request, 6).coordinators[0].error_code == 0, "there is a coordinator")
    return name


def alter(client: RawClient, group: str, topic: str, offset: int) -> int:
    """Set the start offset of partition 0, and return the error code of the request or the partition."""
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    named = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[partition])
    answer = client.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=[named]), 0)
    codes = [answer.error_code, *(each.error_code for topic in answer.responses for each in topic.partitions)]
    return int(next(filter(None, codes), 0))


def described(client: RawClient, group: str) -> list[Any]:
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    (answer,) = client.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), 1).groups
    return [each for topic in answer.topics for each in topic.partitions]


@pytest.mark.parametrize(("offset", "lag"), [(LEAST, LEAST + 3), (-9, 12), (1, 2), (MOST, 3 - MOST)])
def test_the_lag_of_any_start_offset_is_described(client: RawClient, group: str, offset: int, lag: int) -> None:
    topic, _ = create_topic(client)
    assert produce(client, topic, batch(b"a", b"b", b"c")).error_code == 0
    eventually(lambda: alter(client, group, topic, offset) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is loaded")
    (found,) = described(client, group)
    assert (found.start_offset, found.lag) == (offset, lag)
