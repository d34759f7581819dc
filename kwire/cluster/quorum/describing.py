"""DescribeQuorum: voters, observers, and the progress of each (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from kwire.cluster.quorum import answers
from kwire.cluster.quorum.config import RECONFIGURABLE
from kwire.cluster.quorum.core import Core, Incoming
from kwire.cluster.quorum.progress import NEVER, ReplicaProgress
from kwire.cluster.quorum.roles import Leader
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    QuorumListener,
    QuorumNode,
    QuorumReplicaState,
)
from kwire.protocol.primitives import ZERO_UUID

DIRECTORIES_SINCE = 2
"""First version whose response contains directory ids and node endpoints."""

NOT_HOSTED = "This server does not host this topic-partition."
NOT_LED = (
    "For requests intended only for the leader, this error indicates that the broker is not the current leader. For "
    "requests intended for any replica, this error indicates that the broker is not a replica of the topic partition."
)


def handle_describe_quorum(core: Core, incoming: Incoming) -> None:
    request: DescribeQuorumRequest = incoming.message
    topics = [(topic.topic_name, [it.partition_index for it in topic.partitions]) for topic in request.topics]
    if topics != [(answers.TOPIC, [answers.PARTITION])]:
        response = _rejection(topics, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
    elif not isinstance(core.role, Leader):
        response = _rejection(topics, ErrorCode.NOT_LEADER_OR_FOLLOWER, NOT_LED)
    else:
        response = _description(core, core.role, incoming.version)
    core.answer(incoming, response)


def _rejection(topics: list[tuple[str, list[int]]], error: ErrorCode, message: str) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=name,
                partitions=[
                    DescribeQuorumResponsePartitionData(partition_index=index, error_code=error, error_message=message)
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ]
    )


def _description(core: Core, leader: Leader, version: int) -> DescribeQuorumResponse:
    leader.progress.remove_silent_observers(core.now_ms)
    tells = version >= DIRECTORIES_SINCE
    # As in Kafka: with kraft.version 0, voters are identified by id alone, even if their directory id is known.
    names_voters = tells and core.history.kraft_version >= RECONFIGURABLE
    partition = DescribeQuorumResponsePartitionData(
        partition_index=answers.PARTITION,
        leader_id=core.config.node_id,
        leader_epoch=core.epoch,
        high_watermark=core.high_watermark if leader.has_high_watermark else -1,
        current_voters=[_replica(core, it, names_voters) for it in leader.progress.voters.values()],
        observers=[_replica(core, it, tells) for it in leader.progress.observers.values()],
    )
    response = DescribeQuorumResponse(
        topics=[DescribeQuorumResponseTopicData(topic_name=answers.TOPIC, partitions=[partition])]
    )
    if tells:
        response.nodes = [
            QuorumNode(
                node_id=voter.key.node_id,
                listeners=[QuorumListener(name=it.name, host=it.host, port=it.port) for it in voter.endpoints],
            )
            for voter in core.voters
        ]
    return response


def _replica(core: Core, replica: ReplicaProgress, names_directory: bool) -> QuorumReplicaState:
    last_fetch, last_caught_up = _wall(core, replica.last_fetch_ms), _wall(core, replica.last_caught_up_ms)
    if replica.key == core.config.key:
        last_fetch = last_caught_up = _wall(core, core.now_ms)
    return QuorumReplicaState(
        replica_id=replica.key.node_id,
        replica_directory_id=replica.key.directory_id if names_directory else ZERO_UUID,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=last_fetch,
        last_caught_up_timestamp=last_caught_up,
    )


def _wall(core: Core, time_ms: float) -> int:
    return -1 if time_ms == NEVER else int(time_ms + core.wall_offset_ms)
