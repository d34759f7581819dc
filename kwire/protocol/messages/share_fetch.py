"""ShareFetch: acquire records for a member of a share group, and acknowledge others (KIP-932).

Version 0 was an early access in Kafka 4.0 and was removed.

2  acquire mode (KIP-1206), acknowledgements that renew the lock (KIP-1222)
"""

from kwire.protocol.primitives import BrokerId, GroupId, Records, boolean, int8, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@struct
class ShareFetchAcknowledgementBatch:
    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    """Inclusive."""
    acknowledge_types: list[int8] = field("0+")
    """Single value for the whole batch, or one per offset: 0 gap, 1 accept, 2 release, 3 reject, 4 renew."""


@struct
class ShareFetchPartition:
    partition_index: int32 = field("0+")
    partition_max_bytes: int32 = field("0")
    acknowledgement_batches: list[ShareFetchAcknowledgementBatch] = field("0+")


@struct
class ShareFetchTopic:
    topic_id: uuid = field("0+")
    partitions: list[ShareFetchPartition] = field("0+")


@struct
class ShareFetchForgottenTopic:
    topic_id: uuid = field("0+")
    partitions: list[int32] = field("0+")


@message(key=78, kind="request", versions="1-2", flexible="0+")
class ShareFetchRequest:
    group_id: GroupId | None = field("0+", nullable="0+", default=None)
    member_id: string | None = field("0+", nullable="0+")
    share_session_epoch: int32 = field("0+")
    """0 opens a share session, -1 closes it; other values count requests."""
    max_wait_ms: int32 = field("0+")
    min_bytes: int32 = field("0+")
    max_bytes: int32 = field("0+", default=0x7FFFFFFF)
    max_records: int32 = field("1+")
    """May be exceeded to include a whole batch of the log."""
    batch_size: int32 = field("1+")
    """Preferred number of records in an acquired batch."""
    share_acquire_mode: int8 = field("2+", ignorable=True)
    """0 whole batches, 1 at most max_records."""
    is_renew_ack: boolean = field("2+")
    """True if the request contains acknowledgements of type 4."""
    topics: list[ShareFetchTopic] = field("0+")
    forgotten_topics_data: list[ShareFetchForgottenTopic] = field("0+")


@frozen_struct
class ShareFetchLeaderIdAndEpoch:
    leader_id: int32 = field("0+")
    """-1 if unknown."""
    leader_epoch: int32 = field("0+")


@struct
class AcquiredRecords:
    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    """Inclusive."""
    delivery_count: int16 = field("0+")


@struct
class ShareFetchPartitionData:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    acknowledge_error_code: int16 = field("0+")
    acknowledge_error_message: string | None = field("0+", nullable="0+", default=None)
    current_leader: ShareFetchLeaderIdAndEpoch = field("0+")
    records: Records | None = field("0+", nullable="0")
    acquired_records: list[AcquiredRecords] = field("0+")


@struct
class ShareFetchableTopicResponse:
    topic_id: uuid = field("0+")
    partitions: list[ShareFetchPartitionData] = field("0+")


@struct
class ShareFetchNodeEndpoint:
    node_id: BrokerId = field("0+")
    host: string = field("0+")
    port: int32 = field("0+")
    rack: string | None = field("0+", nullable="0+", default=None)


@message(key=78, kind="response", versions="1-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int32 = field("1+")
    responses: list[ShareFetchableTopicResponse] = field("0+")
    node_endpoints: list[ShareFetchNodeEndpoint] = field("0+")
