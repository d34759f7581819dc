"""StreamsGroupDescribe: state, topology, members and tasks of streams groups (KIP-1071)."""

from kwire.protocol.primitives import GroupId, TopicName, boolean, int16, int32, int64, string, uint16
from kwire.protocol.schema import field, frozen_struct, message, struct


@message(key=89, kind="request", versions="0", flexible="0+")
class StreamsGroupDescribeRequest:
    group_ids: list[GroupId] = field("0+")
    include_authorized_operations: boolean = field("0+")


@struct
class StreamsGroupDescribeKeyValue:
    key: string = field("0+")
    value: string = field("0+")


@struct
class StreamsGroupDescribeTopicInfo:
    name: TopicName = field("0+")
    partitions: int32 = field("0+")
    """0 if it is not fixed, as for all changelogs."""
    replication_factor: int16 = field("0+")
    """0 is the broker's default."""
    topic_configs: list[StreamsGroupDescribeKeyValue] = field("0+")


@struct
class StreamsGroupDescribeSubtopology:
    subtopology_id: string = field("0+")
    source_topics: list[TopicName] = field("0+")
    repartition_sink_topics: list[TopicName] = field("0+")
    state_changelog_topics: list[StreamsGroupDescribeTopicInfo] = field("0+")
    repartition_source_topics: list[StreamsGroupDescribeTopicInfo] = field("0+")


@struct
class StreamsGroupDescribeTopology:
    epoch: int32 = field("0+")
    subtopologies: list[StreamsGroupDescribeSubtopology] | None = field("0+", nullable="0+", default=None)


@struct
class StreamsGroupDescribeEndpoint:
    host: string = field("0+")
    port: uint16 = field("0+")


@struct
class StreamsGroupDescribeTaskOffset:
    subtopology_id: string = field("0+")
    partition: int32 = field("0+")
    offset: int64 = field("0+")


@struct
class StreamsGroupDescribeTaskIds:
    subtopology_id: string = field("0+")
    partitions: list[int32] = field("0+")


@frozen_struct
class StreamsGroupDescribeAssignment:
    active_tasks: list[StreamsGroupDescribeTaskIds] = field("0+")
    standby_tasks: list[StreamsGroupDescribeTaskIds] = field("0+")
    warmup_tasks: list[StreamsGroupDescribeTaskIds] = field("0+")


@struct
class StreamsGroupDescribeMember:
    member_id: string = field("0+")
    member_epoch: int32 = field("0+")
    instance_id: string | None = field("0+", nullable="0+", default=None)
    rack_id: string | None = field("0+", nullable="0+", default=None)
    client_id: string = field("0+")
    client_host: string = field("0+")
    topology_epoch: int32 = field("0+")
    process_id: string = field("0+")
    user_endpoint: StreamsGroupDescribeEndpoint | None = field("0+", nullable="0+", default=None)
    client_tags: list[StreamsGroupDescribeKeyValue] = field("0+")
    task_offsets: list[StreamsGroupDescribeTaskOffset] = field("0+")
    """Sums over the changelogs of tasks that are catching up."""
    task_end_offsets: list[StreamsGroupDescribeTaskOffset] = field("0+")
    assignment: StreamsGroupDescribeAssignment = field("0+")
    target_assignment: StreamsGroupDescribeAssignment = field("0+")
    is_classic: boolean = field("0+")
    """True if the member still uses the classic protocol."""


@struct
class StreamsGroupDescribeGroup:
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    group_id: GroupId = field("0+")
    group_state: string = field("0+")
    group_epoch: int32 = field("0+")
    assignment_epoch: int32 = field("0+")
    topology: StreamsGroupDescribeTopology | None = field("0+", nullable="0+", default=None)
    members: list[StreamsGroupDescribeMember] = field("0+")
    authorized_operations: int32 = field("0+", default=-0x80000000)
    """Bit set of operations; the default means that they were not requested."""


@message(key=89, kind="response", versions="0", flexible="0+")
class StreamsGroupDescribeResponse:
    throttle_time_ms: int32 = field("0+")
    groups: list[StreamsGroupDescribeGroup] = field("0+")
