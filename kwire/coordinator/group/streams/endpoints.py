"""Partitions by endpoint: which client answers interactive queries about a partition (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.streams.configured_topology import ConfiguredTopology, read_topics
from kwire.coordinator.group.streams.member import Endpoint, StreamsMember
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.group.streams.tasks import TaskEpochs, TaskSets
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupEndpointPartitions,
    StreamsGroupHeartbeatEndpoint,
    StreamsGroupHeartbeatTopicPartition,
)


def endpoint_partitions(
    group: StreamsGroup, updated: StreamsMember, configured: ConfiguredTopology, image: MetadataImage
) -> list[StreamsGroupEndpointPartitions]:
    """Return the partitions of each member that has an endpoint; `updated` is the member after its heartbeat."""
    others = (member for member in group.members.values() if member.member_id != updated.member_id)
    return [
        _partitions(group, member, member.endpoint, configured, image)
        for member in (*others, updated)
        if member.endpoint is not None
    ]


def _partitions(
    group: StreamsGroup,
    member: StreamsMember,
    endpoint: Endpoint,
    configured: ConfiguredTopology,
    image: MetadataImage,
) -> StreamsGroupEndpointPartitions:
    key = (member, configured, image.topics)
    stored = group.endpoint_partitions.get(member.member_id)
    if stored is not None and all(old is new for old, new in zip(stored[0], key, strict=True)):
        return stored[1]
    partitions = StreamsGroupEndpointPartitions(
        user_endpoint=StreamsGroupHeartbeatEndpoint(host=endpoint.host, port=endpoint.port),
        active_partitions=_of_tasks(member.assigned.active, configured, image),
        standby_partitions=_of_tasks(member.assigned.standby, configured, image),
    )
    if member.member_id in group.members:  # the join of a new member may fail
        group.endpoint_partitions[member.member_id] = key, partitions
    return partitions


def _of_tasks(
    tasks: TaskSets | TaskEpochs, configured: ConfiguredTopology, image: MetadataImage
) -> list[StreamsGroupHeartbeatTopicPartition]:
    subtopologies = configured.subtopologies or {}
    return [
        StreamsGroupHeartbeatTopicPartition(
            topic=topic, partitions=_numbers(tasks[subtopology], len(image.topics[topic].partitions))
        )
        for subtopology in sorted(tasks)
        if subtopology in subtopologies
        for topic in read_topics(subtopologies[subtopology])
        if topic in image.topics
    ]


def _numbers(tasks: Iterable[int], count: int) -> list[int]:
    """Return the partitions of a topic that tasks read: as in Kafka, the first ones if the topic has fewer."""
    return sorted(tasks)[:count]
