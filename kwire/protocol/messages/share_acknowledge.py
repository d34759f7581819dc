"""ShareAcknowledge: acknowledge acquired records, without acquiring more (KIP-932).

Version 0 was an early access in Kafka 4.0 and was removed.

2  acknowledgements that renew the lock (KIP-1222)
"""

from kwire.protocol.primitives import BrokerId, GroupId, boolean, int8, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@struct
class ShareAcknowledgementBatch:
    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    """Inclusive."""
    acknowledge_types: list[int8] = field("0+")
    """Single value for the whole batch, or one per offset: 0 gap, 1 accept, 2 release, 3 reject, 4 renew."""


@struct
class AcknowledgePartition:
    partition_index: int32 = field("0+")
    acknowledgement_batches: list[ShareAcknowledgementBatch] = field("0+")


@struct
class AcknowledgeTopic:
    topic_id: uuid = field("0+")
    partitions: list[AcknowledgePartition] = field("0+")


@message(key=79, kind="request", versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    group_id: GroupId | None = field("0+", nullable="0+", default=None)
    member_id: string | None = field("0+", nullable="0+")
    share_session_epoch: int32 = field("0+")
    """-1 closes the share session; other values count requests."""
    is_renew_ack: boolean = field("2+")
    """True if the request contains acknowledgements of type 4."""
    topics: list[AcknowledgeTopic] = field("0+")


@frozen_struct
class ShareAcknowledgeLeaderIdAndEpoch:
    leader_id: int32 = field("0+")
    """-1 if unknown."""
    leader_epoch: int32 = field("0+")


@struct
class ShareAcknowledgePartitionData:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    current_leader: ShareAcknowledgeLeaderIdAndEpoch = field("0+")


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: uuid = field("0+")
    partitions: list[ShareAcknowledgePartitionData] = field("0+")


@struct
class ShareAcknowledgeNodeEndpoint:
    node_id: BrokerId = field("0+")
    host: string = field("0+")
    port: int32 = field("0+")
    rack: string | None = field("0+", nullable="0+", default=None)


@message(key=79, kind="response", versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int32 = field("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field("0+")
    node_endpoints: list[ShareAcknowledgeNodeEndpoint] = field("0+")
