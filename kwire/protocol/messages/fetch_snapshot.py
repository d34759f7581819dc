"""FetchSnapshot: read a part of a snapshot of the metadata log (KIP-630).

1  directory id of the follower, endpoints of the leader (KIP-853)
"""

from kwire.protocol.primitives import BrokerId, Records, TopicName, int16, int32, int64, string, uint16, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@frozen_struct
class SnapshotId:
    end_offset: int64 = field("0+")
    epoch: int32 = field("0+")


@struct
class FetchSnapshotRequestPartitionSnapshot:
    partition: int32 = field("0+")
    current_leader_epoch: int32 = field("0+")
    """-1 if unknown."""
    snapshot_id: SnapshotId = field("0+")
    position: int64 = field("0+")
    """In bytes."""
    replica_directory_id: uuid = field("1+", tag=0, tagged="1+", ignorable=True)


@struct
class FetchSnapshotRequestTopicSnapshot:
    name: TopicName = field("0+")
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = field("0+")


@message(key=59, kind="request", versions="0-1", flexible="0+")
class FetchSnapshotRequest:
    cluster_id: string | None = field("0+", nullable="0+", tag=0, tagged="0+", default=None)
    replica_id: BrokerId = field("0+", default=-1)
    max_bytes: int32 = field("0+", default=0x7FFFFFFF)
    """Limit over all snapshots of the request."""
    topics: list[FetchSnapshotRequestTopicSnapshot] = field("0+")


@frozen_struct
class FetchSnapshotLeaderIdAndEpoch:
    leader_id: BrokerId = field("0+")
    """-1 if unknown."""
    leader_epoch: int32 = field("0+")


@struct
class FetchSnapshotResponsePartitionSnapshot:
    index: int32 = field("0+")
    error_code: int16 = field("0+")
    snapshot_id: SnapshotId = field("0+")
    current_leader: FetchSnapshotLeaderIdAndEpoch = field("0+", tag=0, tagged="0+")
    size: int64 = field("0+")
    """Size of the whole snapshot, in bytes."""
    position: int64 = field("0+")
    """In bytes."""
    unaligned_records: Records = field("0+")
    """Bytes of the snapshot from `position` on; they may begin and end within a batch."""


@struct
class FetchSnapshotResponseTopicSnapshot:
    name: TopicName = field("0+")
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = field("0+")


@struct
class FetchSnapshotNodeEndpoint:
    node_id: BrokerId = field("1+")
    host: string = field("1+")
    port: uint16 = field("1+")


@message(key=59, kind="response", versions="0-1", flexible="0+")
class FetchSnapshotResponse:
    throttle_time_ms: int32 = field("0+", ignorable=True)
    error_code: int16 = field("0+")
    topics: list[FetchSnapshotResponseTopicSnapshot] = field("0+")
    node_endpoints: list[FetchSnapshotNodeEndpoint] = field("1+", tag=0, tagged="1+")
