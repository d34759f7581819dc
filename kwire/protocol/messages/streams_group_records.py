"""Records of __consumer_offsets that groups of Kafka Streams clients write (KIP-1071).

A key begins with its record type as an int16, which is the schema's key, and a value with its version as an int16. A
null value is a tombstone.
"""

from kwire.protocol.primitives import int8, int16, int32, int64, string, uint16
from kwire.protocol.schema import field, message, struct


@message(key=17, kind="data", versions="0")
class StreamsGroupMetadataKey:
    group_id: string = field("0")


@struct
class StreamsGroupAssignmentConfig:
    key: string = field("0+")
    value: string = field("0+")


@message(key=17, kind="data", versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+")
    """Hash of all topics of the topology; a change triggers a rebalance (KIP-1101)."""
    validated_topology_epoch: int32 = field("0+", tag=0, tagged="0+", default=-1)
    """Epoch of the last topology whose topics were found valid."""
    last_assignment_configs: list[StreamsGroupAssignmentConfig] | None = field("0+", nullable="0+", tag=1, tagged="0+")
    """Configuration of the last task assignment."""


@message(key=19, kind="data", versions="0")
class StreamsGroupMemberMetadataKey:
    group_id: string = field("0")
    member_id: string = field("0")


@struct
class StreamsGroupMemberEndpoint:
    host: string = field("0+")
    port: uint16 = field("0+")


@struct
class StreamsGroupMemberTag:
    key: string = field("0+")
    value: string = field("0+")


@message(key=19, kind="data", versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    instance_id: string | None = field("0+", nullable="0+")
    rack_id: string | None = field("0+", nullable="0+")
    client_id: string = field("0+")
    client_host: string = field("0+")
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    topology_epoch: int32 = field("0+")
    process_id: string = field("0+")
    """Id of the instance, which may have several members."""
    user_endpoint: StreamsGroupMemberEndpoint | None = field("0+", nullable="0+", default=None)
    """Address at which the instance answers interactive queries."""
    client_tags: list[StreamsGroupMemberTag] = field("0+")


@message(key=20, kind="data", versions="0")
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: string = field("0")


@message(key=20, kind="data", versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", tag=0, tagged="0+", ignorable=True)
    """Time at which the assignment was computed, in ms (KIP-1263)."""


@message(key=21, kind="data", versions="0")
class StreamsGroupTargetAssignmentMemberKey:
    group_id: string = field("0")
    member_id: string = field("0")


@struct
class StreamsGroupTargetTasks:
    subtopology_id: string = field("0+")
    partitions: list[int32] = field("0+")


@message(key=21, kind="data", versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[StreamsGroupTargetTasks] = field("0+")
    standby_tasks: list[StreamsGroupTargetTasks] = field("0+")
    warmup_tasks: list[StreamsGroupTargetTasks] = field("0+")


@message(key=22, kind="data", versions="0")
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: string = field("0")
    member_id: string = field("0")


@struct
class StreamsGroupCurrentTasks:
    subtopology_id: string = field("0+")
    partitions: list[int32] = field("0+")
    assignment_epochs: list[int32] | None = field("0+", nullable="0+", tag=0, tagged="0+")
    """Epoch at which the member received each of `partitions`; only for active tasks."""


@message(key=22, kind="data", versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    """Previous epoch, still accepted because the response with the new one may have been lost."""
    state: int8 = field("0+")
    """1 stable, 2 tasks must be revoked, 3 tasks are not released yet."""
    active_tasks: list[StreamsGroupCurrentTasks] = field("0+")
    standby_tasks: list[StreamsGroupCurrentTasks] = field("0+")
    warmup_tasks: list[StreamsGroupCurrentTasks] = field("0+")
    active_tasks_pending_revocation: list[StreamsGroupCurrentTasks] = field("0+")
    standby_tasks_pending_revocation: list[StreamsGroupCurrentTasks] = field("0+")
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentTasks] = field("0+")


@message(key=23, kind="data", versions="0")
class StreamsGroupTopologyKey:
    group_id: string = field("0")


@struct
class StreamsGroupTopologyTopicConfig:
    key: string = field("0+")
    value: string = field("0+")


@struct
class StreamsGroupTopologyTopic:
    name: string = field("0+")
    partitions: int32 = field("0+")
    """0 if it is not fixed, as for all changelogs."""
    replication_factor: int16 = field("0+")
    """0 is the broker's default."""
    topic_configs: list[StreamsGroupTopologyTopicConfig] = field("0+")


@struct
class StreamsGroupTopologyCopartitionGroup:
    """Topics that must have the same number of partitions, as indices into the subtopology's lists."""

    source_topics: list[int16] = field("0+")
    source_topic_regex: list[int16] = field("0+")
    repartition_source_topics: list[int16] = field("0+")


@struct
class StreamsGroupTopologySubtopology:
    subtopology_id: string = field("0+")
    source_topics: list[string] = field("0+")
    source_topic_regex: list[string] = field("0+")
    state_changelog_topics: list[StreamsGroupTopologyTopic] = field("0+")
    repartition_sink_topics: list[string] = field("0+")
    repartition_source_topics: list[StreamsGroupTopologyTopic] = field("0+")
    copartition_groups: list[StreamsGroupTopologyCopartitionGroup] = field("0+")


@message(key=23, kind="data", versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    epoch: int32 = field("0+")
    subtopologies: list[StreamsGroupTopologySubtopology] = field("0+")
