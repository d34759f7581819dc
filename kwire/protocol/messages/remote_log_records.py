"""Records of __remote_log_metadata: segments in tiered storage (KIP-405).

Records are framed like those of __cluster_metadata.
"""

from kwire.protocol.primitives import boolean, bytes_, int8, int32, int64, string, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@frozen_struct
class RemoteLogTopicIdPartition:
    name: string = field("0+")
    id: uuid = field("0+")
    partition: int32 = field("0+")


@frozen_struct
class RemoteLogSegmentId:
    topic_id_partition: RemoteLogTopicIdPartition = field("0+")
    id: uuid = field("0+")


@struct
class RemoteLogSegmentLeaderEpoch:
    leader_epoch: int32 = field("0+")
    offset: int64 = field("0+")
    """First offset of the epoch within the segment."""


@message(key=0, kind="data", versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord:
    remote_log_segment_id: RemoteLogSegmentId = field("0+")
    start_offset: int64 = field("0+")
    end_offset: int64 = field("0+")
    """Inclusive."""
    broker_id: int32 = field("0+")
    max_timestamp_ms: int64 = field("0+")
    event_timestamp_ms: int64 = field("0+")
    segment_leader_epochs: list[RemoteLogSegmentLeaderEpoch] = field("0+")
    segment_size_in_bytes: int32 = field("0+")
    custom_metadata: bytes_ | None = field("0+", nullable="0+", default=None)
    """Data of the storage plug-in."""
    remote_log_segment_state: int8 = field("0+")
    """0 copy started, 1 copy finished, 2 deletion started, 3 deletion finished."""
    txn_index_empty: boolean = field("0+", tag=0, tagged="0+")


@message(key=1, kind="data", versions="0", flexible="0+")
class RemoteLogSegmentMetadataUpdateRecord:
    remote_log_segment_id: RemoteLogSegmentId = field("0+")
    broker_id: int32 = field("0+")
    event_timestamp_ms: int64 = field("0+")
    custom_metadata: bytes_ | None = field("0+", nullable="0+", default=None)
    """Data of the storage plug-in."""
    remote_log_segment_state: int8 = field("0+")
    """0 copy started, 1 copy finished, 2 deletion started, 3 deletion finished."""


@message(key=2, kind="data", versions="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord:
    topic_id_partition: RemoteLogTopicIdPartition = field("0+")
    broker_id: int32 = field("0+")
    event_timestamp_ms: int64 = field("0+")
    remote_partition_delete_state: int8 = field("0+")
    """0 marked, 1 started, 2 finished."""


@message(key=3, kind="data", versions="0", flexible="0+")
class RemoteLogSegmentMetadataSnapshotRecord:
    """Snapshot of one segment's metadata, for a broker's cache of a partition's segments."""

    segment_id: uuid = field("0+")
    start_offset: int64 = field("0+")
    end_offset: int64 = field("0+")
    """Inclusive."""
    broker_id: int32 = field("0+")
    max_timestamp_ms: int64 = field("0+")
    event_timestamp_ms: int64 = field("0+")
    segment_leader_epochs: list[RemoteLogSegmentLeaderEpoch] = field("0+")
    segment_size_in_bytes: int32 = field("0+")
    custom_metadata: bytes_ | None = field("0+", nullable="0+", default=None)
    """Data of the storage plug-in."""
    remote_log_segment_state: int8 = field("0+")
    """0 copy started, 1 copy finished, 2 deletion started, 3 deletion finished."""
    txn_index_empty: boolean = field("0+", tag=0, tagged="0+")
