"""Attacks with requests to the coordinator of consumer, share and streams groups (KIP-848, KIP-932, KIP-1071)."""

from uuid import UUID

from compat_tests.starvation.attack import MANY, UNKNOWN, Attack
from kwire.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kwire.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgementBatch,
    ShareAcknowledgeRequest,
)
from kwire.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from kwire.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTopology,
)

GROUP = "joined-by-the-attacker"
SHARE_GROUP = "shared-by-the-attacker"
STREAMS_GROUP = "streamed-by-the-attacker"
NOWHERE = UUID(int=1)


def consumer_group_heartbeat(scene):
    """Return a join with many topics, and a heartbeat that reports many partitions."""
    join = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="attacker",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=list(UNKNOWN),
        topic_partitions=[],
    )
    owned = [ConsumerGroupHeartbeatTopicPartitions(topic_id=NOWHERE, partitions=list(range(MANY)))]
    beat = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="attacker", member_epoch=1, topic_partitions=owned)
    return [(join, 1), (beat, 1)]


def consumer_group_describe(scene):
    return [(ConsumerGroupDescribeRequest(group_ids=list(UNKNOWN)), 1)]


def share_group_heartbeat(scene):
    join = ShareGroupHeartbeatRequest(
        group_id=SHARE_GROUP, member_id="attacker", member_epoch=0, subscribed_topic_names=list(UNKNOWN)
    )
    return [(join, 1)]


def share_session(scene):
    """Return a fetch that opens a share session of many partitions, and acknowledgements of all of them."""
    fetched = [ShareFetchPartition(partition_index=number) for number in range(MANY)]
    fetch = ShareFetchRequest(
        group_id=SHARE_GROUP,
        member_id="attacker",
        share_session_epoch=0,
        max_bytes=1 << 20,
        max_records=500,
        topics=[ShareFetchTopic(topic_id=NOWHERE, partitions=fetched)],
    )
    batches = [ShareAcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])]
    acknowledged = [
        AcknowledgePartition(partition_index=number, acknowledgement_batches=batches) for number in range(MANY)
    ]
    acknowledge = ShareAcknowledgeRequest(
        group_id=SHARE_GROUP,
        member_id="attacker",
        share_session_epoch=1,
        topics=[AcknowledgeTopic(topic_id=NOWHERE, partitions=acknowledged)],
    )
    return [(fetch, 2), (acknowledge, 2)]


def share_group_describe(scene):
    return [(ShareGroupDescribeRequest(group_ids=list(UNKNOWN)), 1)]


def describe_share_group_offsets(scene):
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=scene.topics[0], partitions=list(range(MANY)))]
    group = DescribeShareGroupOffsetsRequestGroup(group_id=SHARE_GROUP, topics=topics)
    return [(DescribeShareGroupOffsetsRequest(groups=[group]), 1)]


def alter_share_group_offsets(scene):
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=0) for number in range(MANY)
    ]
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=scene.topics[0], partitions=partitions)]
    return [(AlterShareGroupOffsetsRequest(group_id=SHARE_GROUP, topics=topics), 0)]


def delete_share_group_offsets(scene):
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in UNKNOWN]
    return [(DeleteShareGroupOffsetsRequest(group_id=SHARE_GROUP, topics=topics), 0)]


def streams_group_heartbeat(scene):
    """Return a join with a large topology, and a heartbeat that reports many tasks."""
    subtopologies = [
        StreamsGroupHeartbeatSubtopology(subtopology_id=str(number), source_topics=list(UNKNOWN[:10]))
        for number in range(MANY // 10)
    ]
    common = {"group_id": STREAMS_GROUP, "member_id": "attacker"}
    join = StreamsGroupHeartbeatRequest(
        **common,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        process_id="attacker",
        topology=StreamsGroupHeartbeatTopology(epoch=0, subtopologies=subtopologies),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    tasks = [StreamsGroupHeartbeatTaskIds(subtopology_id="0", partitions=list(range(MANY)))]
    beat = StreamsGroupHeartbeatRequest(**common, member_epoch=1, active_tasks=tasks, standby_tasks=[], warmup_tasks=[])
    return [(join, 0), (beat, 0)]


def streams_group_describe(scene):
    return [(StreamsGroupDescribeRequest(group_ids=list(UNKNOWN)), 0)]


ATTACKS = (
    Attack("ConsumerGroupHeartbeat with many topics and partitions", consumer_group_heartbeat),
    Attack("ConsumerGroupDescribe of many groups", consumer_group_describe),
    Attack("ShareGroupHeartbeat with many topics", share_group_heartbeat),
    Attack("ShareFetch and ShareAcknowledge of many partitions", share_session),
    Attack("ShareGroupDescribe of many groups", share_group_describe),
    Attack("DescribeShareGroupOffsets of many partitions", describe_share_group_offsets),
    Attack("AlterShareGroupOffsets of many partitions", alter_share_group_offsets),
    Attack("DeleteShareGroupOffsets of many topics", delete_share_group_offsets),
    Attack("StreamsGroupHeartbeat with a large topology and many tasks", streams_group_heartbeat),
    Attack("StreamsGroupDescribe of many groups", streams_group_describe),
)
