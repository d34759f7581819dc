"""StreamsGroupDescribe: a streams group with its topology, its members, and their tasks and targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.chunks import Pieces, mapped
from kwire.coordinator.group.streams.configured_topology import ConfiguredTopology, InternalTopic
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.group.streams.tasks import TaskEpochs, Tasks, TaskSets
from kwire.coordinator.group.streams.topology import Topology
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeAssignment,
    StreamsGroupDescribeEndpoint,
    StreamsGroupDescribeGroup,
    StreamsGroupDescribeKeyValue,
    StreamsGroupDescribeMember,
    StreamsGroupDescribeSubtopology,
    StreamsGroupDescribeTaskIds,
    StreamsGroupDescribeTopicInfo,
    StreamsGroupDescribeTopology,
)
from kwire.protocol.messages.streams_group_records import StreamsGroupTopologyTopic


def described_streams_group(group: StreamsGroup) -> Pieces[StreamsGroupDescribeGroup]:
    """Describe a group as it is now."""
    described = StreamsGroupDescribeGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_described_topology(group),
    )
    members = [(member, group.target_of(member.member_id)) for member in group.members.values()]
    described.members = yield from mapped(members, _described_member)
    return described


def rejected_streams_description(
    group_id: str, code: ErrorCode, message: str | None = None
) -> StreamsGroupDescribeGroup:
    return StreamsGroupDescribeGroup(group_id=group_id, error_code=code, error_message=message)


# --- topology


def _described_topology(group: StreamsGroup) -> StreamsGroupDescribeTopology | None:
    """Return the topology with decided numbers of partitions if it is ready, else as the client sent it."""
    configured = None if group.configured is None else group.configured.topology
    if configured is not None and configured.is_ready:
        return _configured_topology(configured)
    return None if group.topology is None else _stored_topology(group.topology)


def _configured_topology(configured: ConfiguredTopology) -> StreamsGroupDescribeTopology:
    return StreamsGroupDescribeTopology(
        epoch=configured.topology_epoch,
        subtopologies=[
            StreamsGroupDescribeSubtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                state_changelog_topics=_internal_topics(each.changelog_topics),
                repartition_source_topics=_internal_topics(each.repartition_source_topics),
            )
            for subtopology_id, each in (configured.subtopologies or {}).items()
        ],
    )


def _stored_topology(topology: Topology) -> StreamsGroupDescribeTopology:
    return StreamsGroupDescribeTopology(
        epoch=topology.epoch,
        subtopologies=[
            StreamsGroupDescribeSubtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                state_changelog_topics=_stored_topics(each.state_changelog_topics),
                repartition_source_topics=_stored_topics(each.repartition_source_topics),
            )
            for subtopology_id, each in sorted(topology.subtopologies.items())
        ],
    )


def _internal_topics(topics: Mapping[str, InternalTopic]) -> list[StreamsGroupDescribeTopicInfo]:
    return [
        StreamsGroupDescribeTopicInfo(
            name=name,
            partitions=topics[name].partitions,
            replication_factor=topics[name].replication_factor,
            topic_configs=_pairs(topics[name].configs),
        )
        for name in sorted(topics)
    ]


def _stored_topics(topics: Iterable[StreamsGroupTopologyTopic]) -> list[StreamsGroupDescribeTopicInfo]:
    return [
        StreamsGroupDescribeTopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[
                StreamsGroupDescribeKeyValue(key=each.key, value=each.value) for each in topic.topic_configs
            ],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _pairs(values: Mapping[str, str]) -> list[StreamsGroupDescribeKeyValue]:
    return [StreamsGroupDescribeKeyValue(key=key, value=value) for key, value in values.items()]


# --- members


def _described_member(member_and_target: tuple[StreamsMember, Tasks]) -> StreamsGroupDescribeMember:
    member, target = member_and_target
    endpoint = member.endpoint
    return StreamsGroupDescribeMember(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if endpoint is None
        else StreamsGroupDescribeEndpoint(host=endpoint.host, port=endpoint.port),
        client_tags=_pairs(member.client_tags),
        assignment=_assignment(member.assigned.active, member.assigned.standby, member.assigned.warmup),
        target_assignment=_assignment(target.active, target.standby, target.warmup),
    )


def _assignment(active: TaskSets | TaskEpochs, standby: TaskSets, warmup: TaskSets) -> StreamsGroupDescribeAssignment:
    return StreamsGroupDescribeAssignment(
        active_tasks=_task_ids(active), standby_tasks=_task_ids(standby), warmup_tasks=_task_ids(warmup)
    )


def _task_ids(tasks: TaskSets | TaskEpochs) -> list[StreamsGroupDescribeTaskIds]:
    return [
        StreamsGroupDescribeTaskIds(subtopology_id=subtopology, partitions=sorted(tasks[subtopology]))
        for subtopology in sorted(tasks)
    ]
