"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932).

Fields that are unchanged since the last heartbeat are None in the request.
"""

from kwire.protocol.primitives import GroupId, TopicName, int16, int32, string, uuid
from kwire.protocol.schema import field, message, struct


@message(key=76, kind="request", versions="1", flexible="0+", elements_max=10_000)
class ShareGroupHeartbeatRequest:
    group_id: GroupId = field("0+")
    member_id: string = field("0+")
    member_epoch: int32 = field("0+")
    """0 joins, -1 leaves."""
    rack_id: string | None = field("0+", nullable="0+", default=None)
    subscribed_topic_names: list[TopicName] | None = field("0+", nullable="0+", default=None)


@struct
class ShareGroupHeartbeatTopicPartitions:
    topic_id: uuid = field("0+")
    partitions: list[int32] = field("0+")


@struct
class ShareGroupHeartbeatAssignment:
    topic_partitions: list[ShareGroupHeartbeatTopicPartitions] = field("0+")


@message(key=76, kind="response", versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    member_id: string | None = field("0+", nullable="0+", default=None)
    member_epoch: int32 = field("0+")
    heartbeat_interval_ms: int32 = field("0+")
    assignment: ShareGroupHeartbeatAssignment | None = field("0+", nullable="0+", default=None)
