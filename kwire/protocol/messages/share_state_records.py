"""Records of __share_group_state: acquired and acknowledged records of share groups in partitions (KIP-932).

A snapshot contains the whole state of a partition, an update the changes since the snapshot. A key begins with its
record type as an int16, which is the schema's key, and a value with its version as an int16. A null value is a
tombstone.
"""

from kwire.protocol.primitives import int8, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@message(key=0, kind="data", versions="0")
class ShareSnapshotKey:
    group_id: string = field("0")
    topic_id: uuid = field("0")
    partition: int32 = field("0")


@struct
class ShareStateBatch:
    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    """Inclusive."""
    delivery_state: int8 = field("0+")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int16 = field("0+")


@message(key=0, kind="data", versions="0", flexible="0+")
class ShareSnapshotValue:
    snapshot_epoch: int32 = field("0+")
    state_epoch: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    delivery_complete_count: int32 = field("0+", tag=0, tagged="0+", default=-1)
    """Offsets from the start offset on that are acknowledged or archived; -1 if unknown (KIP-1226)."""
    create_timestamp: int64 = field("0+")
    """Time at which the state was created, in ms."""
    write_timestamp: int64 = field("0+")
    """Time of the last write, in ms."""
    state_batches: list[ShareStateBatch] = field("0+")


@message(key=1, kind="data", versions="0")
class ShareUpdateKey:
    group_id: string = field("0")
    topic_id: uuid = field("0")
    partition: int32 = field("0")


@message(key=1, kind="data", versions="0", flexible="0+")
class ShareUpdateValue:
    snapshot_epoch: int32 = field("0+")
    """Epoch of the snapshot that is updated."""
    leader_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    """-1 if unchanged."""
    delivery_complete_count: int32 = field("0+", tag=0, tagged="0+", default=-1)
    """Offsets from the start offset on that are acknowledged or archived; -1 if unknown (KIP-1226)."""
    state_batches: list[ShareStateBatch] = field("0+")
