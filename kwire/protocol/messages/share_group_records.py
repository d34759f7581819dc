"""Records of __consumer_offsets that share groups write (KIP-932).

A key begins with its record type as an int16, which is the schema's key, and a value with its version as an int16. A
null value is a tombstone.
"""

from kwire.protocol.primitives import int8, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@message(key=10, kind="data", versions="0")
class ShareGroupMemberMetadataKey:
    group_id: string = field("0")
    member_id: string = field("0")


@message(key=10, kind="data", versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    rack_id: string | None = field("0+", nullable="0+")
    client_id: string = field("0+")
    client_host: string = field("0+")
    subscribed_topic_names: list[string] = field("0+")


@message(key=11, kind="data", versions="0")
class ShareGroupMetadataKey:
    group_id: string = field("0")


@message(key=11, kind="data", versions="0", flexible="0+")
class ShareGroupMetadataValue:
    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+")
    """Hash of all subscribed topics; a change triggers a rebalance (KIP-1101)."""


@message(key=12, kind="data", versions="0")
class ShareGroupTargetAssignmentMetadataKey:
    group_id: string = field("0")


@message(key=12, kind="data", versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", tag=0, tagged="0+", ignorable=True)
    """Time at which the assignment was computed, in ms (KIP-1263)."""


@message(key=13, kind="data", versions="0")
class ShareGroupTargetAssignmentMemberKey:
    group_id: string = field("0")
    member_id: string = field("0")


@struct
class ShareGroupTargetPartitions:
    topic_id: uuid = field("0+")
    partitions: list[int32] = field("0+")


@message(key=13, kind="data", versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[ShareGroupTargetPartitions] = field("0+")


@message(key=14, kind="data", versions="0")
class ShareGroupCurrentMemberAssignmentKey:
    group_id: string = field("0")
    member_id: string = field("0")


@struct
class ShareGroupCurrentPartitions:
    topic_id: uuid = field("0+")
    partitions: list[int32] = field("0+")


@message(key=14, kind="data", versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    """Previous epoch, still accepted because the response with the new one may have been lost."""
    state: int8 = field("0+")
    assigned_partitions: list[ShareGroupCurrentPartitions] = field("0+")


@message(key=15, kind="data", versions="0")
class ShareGroupStatePartitionMetadataKey:
    group_id: string = field("0")


@struct
class ShareGroupStatePartitions:
    topic_id: uuid = field("0+")
    topic_name: string = field("0+")
    partitions: list[int32] = field("0+")


@struct
class ShareGroupStateTopic:
    topic_id: uuid = field("0+")
    topic_name: string = field("0+")


@message(key=15, kind="data", versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    """Partitions whose state exists at the share coordinator, or is being created or deleted there."""

    initializing_topics: list[ShareGroupStatePartitions] = field("0+")
    initialized_topics: list[ShareGroupStatePartitions] = field("0+")
    deleting_topics: list[ShareGroupStateTopic] = field("0+")
