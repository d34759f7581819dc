"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group with server-side assignment (KIP-848).

Fields that are unchanged since the last heartbeat are None, or -1, in the request. The response contains an assignment
only if it changed.

1  subscription by regular expression; the member generates its own id (KIP-1082)
"""

from kwire.protocol.primitives import GroupId, TopicName, int16, int32, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class ConsumerGroupHeartbeatTopicPartitions:
    topic_id: uuid = field("0+")
    partitions: list[int32] = field("0+")


@message(key=68, kind="request", versions="0-1", flexible="0+", elements_max=20_000)
class ConsumerGroupHeartbeatRequest:
    group_id: GroupId = field("0+")
    member_id: string = field("0+")
    member_epoch: int32 = field("0+")
    """0 joins, -1 leaves, -2 leaves as a static member that will rejoin."""
    instance_id: string | None = field("0+", nullable="0+", default=None)
    rack_id: string | None = field("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    subscribed_topic_names: list[TopicName] | None = field("0+", nullable="0+", default=None)
    subscribed_topic_regex: string | None = field("1+", nullable="1+", default=None)
    """In the syntax of RE2/J."""
    server_assignor: string | None = field("0+", nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] | None = field("0+", nullable="0+", default=None)
    """Partitions that the member owns."""


@struct
class ConsumerGroupHeartbeatAssignment:
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] = field("0+")


@message(key=68, kind="response", versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    member_id: string | None = field("0+", nullable="0+", default=None)
    member_epoch: int32 = field("0+")
    heartbeat_interval_ms: int32 = field("0+")
    assignment: ConsumerGroupHeartbeatAssignment | None = field("0+", nullable="0+", default=None)
