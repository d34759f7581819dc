"""Records of __consumer_offsets that consumer groups of KIP-848 write.

A key begins with its record type as an int16, which is the schema's key, and a value with its version as an int16. A
null value is a tombstone.
"""

from kwire.protocol.primitives import bytes_, int8, int32, int64, string, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@message(key=3, kind="data", versions="0")
class ConsumerGroupMetadataKey:
    group_id: string = field("0")


@message(key=3, kind="data", versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+", tag=0, tagged="0+")
    """Hash of all subscribed topics; a change triggers a rebalance (KIP-1101)."""


@message(key=4, kind="data", versions="0")
class ConsumerGroupPartitionMetadataKey:
    group_id: string = field("0")


@struct
class ConsumerGroupPartitionRacks:
    partition: int32 = field("0+")
    racks: list[string] = field("0+")


@struct
class ConsumerGroupTopicMetadata:
    topic_id: uuid = field("0+")
    topic_name: string = field("0+")
    num_partitions: int32 = field("0+")
    partition_metadata: list[ConsumerGroupPartitionRacks] = field("0+")


@message(key=4, kind="data", versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """Before Kafka 4.1; replaced by the hash in ConsumerGroupMetadataValue (KIP-1101)."""

    topics: list[ConsumerGroupTopicMetadata] = field("0+")


@message(key=5, kind="data", versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: string = field("0")
    member_id: string = field("0")


@struct
class ConsumerGroupClassicProtocol:
    name: string = field("0+")
    metadata: bytes_ = field("0+")


@frozen_struct
class ConsumerGroupClassicMemberMetadata:
    session_timeout_ms: int32 = field("0+")
    supported_protocols: list[ConsumerGroupClassicProtocol] = field("0+")


@message(key=5, kind="data", versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: string | None = field("0+", nullable="0+")
    rack_id: string | None = field("0+", nullable="0+")
    client_id: string = field("0+")
    client_host: string = field("0+")
    subscribed_topic_names: list[string] = field("0+")
    subscribed_topic_regex: string | None = field("0+", nullable="0+")
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    server_assignor: string | None = field("0+", nullable="0+")
    classic_member_metadata: ConsumerGroupClassicMemberMetadata | None = field("0+", nullable="0+", tag=0, tagged="0+")
    """None unless the member uses the classic protocol."""


@message(key=6, kind="data", versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: string = field("0")


@message(key=6, kind="data", versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", tag=0, tagged="0+", ignorable=True)
    """Time at which the assignment was computed, in ms (KIP-1263)."""


@message(key=7, kind="data", versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: string = field("0")
    member_id: string = field("0")


@struct
class ConsumerGroupTargetPartitions:
    topic_id: uuid = field("0+")
    partitions: list[int32] = field("0+")


@message(key=7, kind="data", versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[ConsumerGroupTargetPartitions] = field("0+")


@message(key=8, kind="data", versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: string = field("0")
    member_id: string = field("0")


@struct
class ConsumerGroupCurrentPartitions:
    topic_id: uuid = field("0+")
    partitions: list[int32] = field("0+")
    assignment_epochs: list[int32] | None = field("0+", nullable="0+", tag=0, tagged="0+")
    """Epoch at which the member received each of `partitions`; offset commits with an older one are rejected."""


@message(key=8, kind="data", versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    """Previous epoch, still accepted because the response with the new one may have been lost."""
    state: int8 = field("0+")
    """0 stable, 1 partitions must be revoked, 2 partitions are not released by other members yet."""
    assigned_partitions: list[ConsumerGroupCurrentPartitions] = field("0+")
    partitions_pending_revocation: list[ConsumerGroupCurrentPartitions] = field("0+")


@message(key=16, kind="data", versions="0")
class ConsumerGroupRegularExpressionKey:
    group_id: string = field("0")
    regular_expression: string = field("0")


@message(key=16, kind="data", versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[string] = field("0+")
    """Topics that the expression matched."""
    version: int64 = field("0+")
    """Offset of the metadata image that was matched."""
    timestamp: int64 = field("0+")
    """Time of the match, in ms."""
