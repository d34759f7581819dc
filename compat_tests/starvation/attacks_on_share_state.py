"""Attacks with requests to share coordinators, which are for brokers."""

from uuid import UUID

from compat_tests.starvation.attack import MANY, Attack
from kwire.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStatePartitionData,
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
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

NOWHERE = UUID(int=1)
GROUP = "shared-by-the-attacker"


def initialize(scene):
    data = [
        InitializeShareGroupStatePartitionData(partition=number, state_epoch=0, start_offset=0)
        for number in range(MANY)
    ]
    topics = [InitializeStateData(topic_id=NOWHERE, partitions=data)]
    return [(InitializeShareGroupStateRequest(group_id=GROUP, topics=topics), 0)]


def read(scene):
    data = [ReadShareGroupStatePartitionData(partition=number, leader_epoch=0) for number in range(MANY)]
    return [(ReadShareGroupStateRequest(group_id=GROUP, topics=[ReadStateData(topic_id=NOWHERE, partitions=data)]), 0)]


def write(scene):
    """Return a write of one partition with many state batches."""
    batches = [
        WriteShareGroupStateBatch(
            first_offset=number, last_offset=2 * MANY - number, delivery_state=2, delivery_count=1
        )
        for number in range(MANY)
    ]
    data = WriteShareGroupStatePartitionData(
        partition=0, state_epoch=0, leader_epoch=0, start_offset=0, state_batches=batches
    )
    topics = [WriteStateData(topic_id=NOWHERE, partitions=[data])]
    return [(WriteShareGroupStateRequest(group_id=GROUP, topics=topics), 1)]


def delete(scene):
    data = [DeleteShareGroupStatePartitionData(partition=number) for number in range(MANY)]
    topics = [DeleteStateData(topic_id=NOWHERE, partitions=data)]
    return [(DeleteShareGroupStateRequest(group_id=GROUP, topics=topics), 0)]


def read_summary(scene):
    data = [ReadShareGroupStateSummaryPartitionData(partition=number, leader_epoch=0) for number in range(MANY)]
    topics = [ReadStateSummaryData(topic_id=NOWHERE, partitions=data)]
    return [(ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=topics), 1)]


ATTACKS = (
    Attack("InitializeShareGroupState, many partitions", initialize),
    Attack("ReadShareGroupState, many partitions", read),
    Attack("WriteShareGroupState, many batches", write),
    Attack("DeleteShareGroupState, many partitions", delete),
    Attack("ReadShareGroupStateSummary, many partitions", read_summary),
)
