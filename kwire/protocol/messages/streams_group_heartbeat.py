"""StreamsGroupHeartbeat: join, stay in and leave a group of Kafka Streams clients (KIP-1071).

The first member's topology becomes the group's. The coordinator creates its internal topics and assigns tasks, which
are partitions of a subtopology. Fields that are unchanged since the last heartbeat are None.
"""

from kwire.protocol.primitives import GroupId, TopicName, boolean, int8, int16, int32, int64, string, uint16
from kwire.protocol.schema import field, frozen_struct, message, struct


@struct
class StreamsGroupHeartbeatKeyValue:
    key: string = field("0+")
    value: string = field("0+")


@struct
class StreamsGroupHeartbeatTopicInfo:
    name: TopicName = field("0+")
    partitions: int32 = field("0+")
    """0: the coordinator chooses, as for all changelogs."""
    replication_factor: int16 = field("0+")
    """0: the broker's default."""
    topic_configs: list[StreamsGroupHeartbeatKeyValue] = field("0+")


@struct
class StreamsGroupHeartbeatCopartitionGroup:
    """Topics that must have the same number of partitions, as indices into the subtopology's lists."""

    source_topics: list[int16] = field("0+")
    source_topic_regex: list[int16] = field("0+")
    repartition_source_topics: list[int16] = field("0+")


@struct
class StreamsGroupHeartbeatSubtopology:
    subtopology_id: string = field("0+")
    source_topics: list[TopicName] = field("0+")
    source_topic_regex: list[string] = field("0+")
    state_changelog_topics: list[StreamsGroupHeartbeatTopicInfo] = field("0+")
    repartition_sink_topics: list[TopicName] = field("0+")
    repartition_source_topics: list[StreamsGroupHeartbeatTopicInfo] = field("0+")
    copartition_groups: list[StreamsGroupHeartbeatCopartitionGroup] = field("0+")


@struct
class StreamsGroupHeartbeatTopology:
    epoch: int32 = field("0+")
    subtopologies: list[StreamsGroupHeartbeatSubtopology] = field("0+")


@struct
class StreamsGroupHeartbeatTaskIds:
    subtopology_id: string = field("0+")
    partitions: list[int32] = field("0+")


@frozen_struct
class StreamsGroupHeartbeatEndpoint:
    host: string = field("0+")
    port: uint16 = field("0+")


@struct
class StreamsGroupHeartbeatTaskOffset:
    subtopology_id: string = field("0+")
    partition: int32 = field("0+")
    offset: int64 = field("0+")


@message(key=88, kind="request", versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest:
    group_id: GroupId = field("0+")
    member_id: string = field("0+")
    member_epoch: int32 = field("0+")
    """0 joins, -1 leaves, -2 leaves as a static member that will rejoin."""
    endpoint_information_epoch: int32 = field("0+")
    """Epoch of the endpoints that the member received last."""
    instance_id: string | None = field("0+", nullable="0+", default=None)
    rack_id: string | None = field("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    topology: StreamsGroupHeartbeatTopology | None = field("0+", nullable="0+", default=None)
    active_tasks: list[StreamsGroupHeartbeatTaskIds] | None = field("0+", nullable="0+", default=None)
    standby_tasks: list[StreamsGroupHeartbeatTaskIds] | None = field("0+", nullable="0+", default=None)
    warmup_tasks: list[StreamsGroupHeartbeatTaskIds] | None = field("0+", nullable="0+", default=None)
    process_id: string | None = field("0+", nullable="0+", default=None)
    """Id of the instance, which may have several members."""
    user_endpoint: StreamsGroupHeartbeatEndpoint | None = field("0+", nullable="0+", default=None)
    """Address at which the instance answers interactive queries."""
    client_tags: list[StreamsGroupHeartbeatKeyValue] | None = field("0+", nullable="0+", default=None)
    task_offsets: list[StreamsGroupHeartbeatTaskOffset] | None = field("0+", nullable="0+", default=None)
    """Sums over the changelogs of tasks that are catching up."""
    task_end_offsets: list[StreamsGroupHeartbeatTaskOffset] | None = field("0+", nullable="0+", default=None)
    shutdown_application: boolean = field("0+")


@struct
class StreamsGroupStatus:
    status_code: int8 = field("0+")
    """0 stale topology, 1 missing source topics, 2 wrongly partitioned topics, 3 missing internal topics, 4 shut down,
    5 assignment delayed."""
    status_detail: string = field("0+")


@struct
class StreamsGroupHeartbeatTopicPartition:
    topic: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@struct
class StreamsGroupEndpointPartitions:
    user_endpoint: StreamsGroupHeartbeatEndpoint = field("0+")
    active_partitions: list[StreamsGroupHeartbeatTopicPartition] = field("0+")
    standby_partitions: list[StreamsGroupHeartbeatTopicPartition] = field("0+")


@message(key=88, kind="response", versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    member_id: string = field("0+")
    member_epoch: int32 = field("0+")
    heartbeat_interval_ms: int32 = field("0+")
    acceptable_recovery_lag: int32 = field("0+")
    """Lag in offsets below which a warm-up task counts as caught up."""
    task_offset_interval_ms: int32 = field("0+")
    status: list[StreamsGroupStatus] | None = field("0+", nullable="0+")
    active_tasks: list[StreamsGroupHeartbeatTaskIds] | None = field("0+", nullable="0+", default=None)
    standby_tasks: list[StreamsGroupHeartbeatTaskIds] | None = field("0+", nullable="0+", default=None)
    warmup_tasks: list[StreamsGroupHeartbeatTaskIds] | None = field("0+", nullable="0+", default=None)
    endpoint_information_epoch: int32 = field("0+")
    partitions_by_user_endpoint: list[StreamsGroupEndpointPartitions] | None = field("0+", nullable="0+", default=None)
    """Partitions by the endpoint that answers interactive queries for them."""
