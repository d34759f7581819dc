"""Memory limit for state that clients create in groups: JoinGroup requests, and commits without offsets.

A member's metadata may be as large as a request, clients choose ids freely, and both stay until a session ends. Each
join is therefore counted before it is accepted. Removals are not subtracted. When the count reaches the limit, the
sizes of all groups are computed again. Only if they really reach the limit are joins rejected, with a retriable error,
until sessions have ended. A member that rejoins with little data is always accepted, since it is already counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import getsizeof

from kwire.coordinator.group.any_group import AnyGroup
from kwire.coordinator.group.classic.classic_group import ClassicGroup
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.member import ConsumerMember
from kwire.coordinator.group.share.share_group import ShareGroup, ShareMember
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatSubtopology,
)
from kwire.protocol.messages.streams_group_records import StreamsGroupTopologySubtopology
from kwire.seams import Clock

GROUP_BYTES = 2_500
MEMBER_BYTES = 2_500
"""Memory besides the data that clients send, including timers and answers."""
PARTITION_BYTES = 200
"""Memory of an assigned partition, in its member, in the target and among the owners."""
STATE_BYTES = 100
"""Memory of a share group's partition that is being initialized."""
PAIR_BYTES = 200
"""Memory of a named value besides its text."""
LITTLE_BYTES = 16 * 1024
RECOUNT_INTERVAL_MS = 1_000
"""Minimum time between two computations of all groups' sizes."""


class GroupMemory:
    """Memory limit for all groups of a coordinator."""

    def __init__(self, limit_bytes: int, groups: Callable[[], Iterable[AnyGroup]], clock: Clock) -> None:
        self._limit_bytes = limit_bytes
        self._groups = groups
        self._clock = clock
        self._counted = limit_bytes
        """Upper bound of the groups' memory. Loaded groups are counted with the first join."""
        self._recounted_ms = float("-inf")

    def reserve(self, request: JoinGroupRequest, client_id: str, *, is_member: bool) -> bool:
        """Return True if a join may be accepted, and count it in that case."""
        size = _size_of_join(request, client_id)
        return self._count(size, is_exempt=is_member and size <= LITTLE_BYTES)

    def reserve_member(
        self, request: ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest, client_id: str, *, is_member: bool
    ) -> bool:
        """Return True if a heartbeat may be accepted, and count what it stores in that case."""
        regex = instance_id = None
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            regex, instance_id = request.subscribed_topic_regex, request.instance_id
        size = _size_of_subscription(request.subscribed_topic_names or (), regex)
        if is_member and not size:
            return True  # it stores nothing new
        names = getsizeof(request.group_id) + 2 * getsizeof(client_id) + getsizeof(instance_id)
        names += getsizeof(request.member_id)
        size += GROUP_BYTES + MEMBER_BYTES + names + getsizeof(request.rack_id)
        return self._count(size, is_exempt=is_member and size <= LITTLE_BYTES)

    def reserve_streams_member(
        self, request: StreamsGroupHeartbeatRequest, client_id: str, *, is_member: bool, has_topology: bool
    ) -> bool:
        """Return True if a heartbeat may be accepted, and count what it stores in that case.

        A group with a topology keeps it, and does not store another one.
        """
        size = sum(getsizeof(tag.key) + getsizeof(tag.value) + PAIR_BYTES for tag in request.client_tags or ())
        if request.topology is not None and not has_topology:
            size += sum(map(_size_of_subtopology, request.topology.subtopologies))
        if is_member and not size:
            return True  # it stores nothing new
        names = getsizeof(request.group_id) + 2 * getsizeof(client_id) + getsizeof(request.process_id)
        names += getsizeof(request.member_id)
        size += GROUP_BYTES + MEMBER_BYTES + names + getsizeof(request.rack_id)
        return self._count(size, is_exempt=is_member and size <= LITTLE_BYTES)

    def reserve_group(self, group_id: str) -> bool:
        """Return True if a group without a record may be created, as by an empty commit; count it in that case."""
        return self._count(GROUP_BYTES + getsizeof(group_id), is_exempt=False)

    def reserve_states(self, partitions: int) -> bool:
        """Return True if so many partitions of a share group may be initialized, and count them in that case."""
        return self._count(STATE_BYTES * partitions, is_exempt=not partitions)

    def _count(self, size: int, *, is_exempt: bool) -> bool:
        if self._counted + size > self._limit_bytes:
            self._recount()
        if self._counted + size > self._limit_bytes and not is_exempt:
            return False
        self._counted += size
        return True

    def _recount(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._recounted_ms >= RECOUNT_INTERVAL_MS:
            self._recounted_ms = now_ms
            self._counted = sum(_size_of_group(group) for group in self._groups())


def _size_of_join(request: JoinGroupRequest, client_id: str) -> int:
    names = getsizeof(request.group_id) + 2 * getsizeof(client_id) + getsizeof(request.group_instance_id)
    protocols = sum(len(protocol.metadata) + getsizeof(protocol.name) + 100 for protocol in request.protocols)
    return GROUP_BYTES + MEMBER_BYTES + names + getsizeof(request.protocol_type) + protocols


def _size_of_subscription(names: Iterable[str], regex: str | None) -> int:
    return sum(map(getsizeof, names)) + (getsizeof(regex) if regex else 0)


def _size_of_group(group: AnyGroup) -> int:
    if isinstance(group, ConsumerGroup):
        return GROUP_BYTES + getsizeof(group.group_id) + sum(map(_size_of_consumer, group.members.values()))
    if isinstance(group, ShareGroup):
        return _size_of_share_group(group)
    if isinstance(group, StreamsGroup):
        return _size_of_streams_group(group)
    return _size_of_classic_group(group)


def _size_of_streams_group(group: StreamsGroup) -> int:
    subtopologies = () if group.topology is None else group.topology.subtopologies.values()
    members = sum(map(_size_of_streams_member, group.members.values()))
    return GROUP_BYTES + getsizeof(group.group_id) + sum(map(_size_of_subtopology, subtopologies)) + members


def _size_of_streams_member(member: StreamsMember) -> int:
    tags = sum(getsizeof(key) + getsizeof(value) + PAIR_BYTES for key, value in member.client_tags.items())
    tasks = member.assigned.total() + member.pending_revocation.total()
    ids = getsizeof(member.member_id) + getsizeof(member.process_id) + getsizeof(member.rack_id)
    return MEMBER_BYTES + ids + 2 * getsizeof(member.client_id) + tags + PARTITION_BYTES * tasks


def _size_of_subtopology(subtopology: StreamsGroupTopologySubtopology | StreamsGroupHeartbeatSubtopology) -> int:
    """Return the size of a subtopology, stored and configured: its topics, with their settings."""
    names = sum(map(getsizeof, (*subtopology.source_topics, *subtopology.repartition_sink_topics)))
    names += PAIR_BYTES * (len(subtopology.source_topics) + len(subtopology.repartition_sink_topics))
    indices = sum(
        PAIR_BYTES + PARTITION_BYTES * (len(each.source_topics) + len(each.repartition_source_topics))
        for each in subtopology.copartition_groups
    )
    topics = sum(
        2 * (getsizeof(topic.name) + PAIR_BYTES)
        + sum(2 * (getsizeof(each.key) + getsizeof(each.value) + PAIR_BYTES) for each in topic.topic_configs)
        for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics)
        for topic in topics
    )
    return MEMBER_BYTES + names + indices + topics


def _size_of_share_group(group: ShareGroup) -> int:
    initializing = sum(len(topic.partitions) for topic in group.states.initializing.values())
    members = sum(map(_size_of_share_member, group.members.values()))
    return GROUP_BYTES + getsizeof(group.group_id) + STATE_BYTES * initializing + members


def _size_of_share_member(member: ShareMember) -> int:
    partitions = sum(map(len, member.assigned_partitions.values()))
    ids = getsizeof(member.member_id) + 2 * getsizeof(member.client_id) + getsizeof(member.rack_id)
    ids += _size_of_subscription(member.subscribed_topic_names, None)
    return MEMBER_BYTES + ids + PARTITION_BYTES * partitions


def _size_of_consumer(member: ConsumerMember) -> int:
    partitions = sum(
        len(indexes)
        for held in (member.assigned_partitions, member.partitions_pending_revocation)
        for indexes in held.values()
    )
    classic = member.classic_metadata
    protocols = 0 if classic is None else sum(len(each.metadata) + 100 for each in classic.supported_protocols)
    subscription = _size_of_subscription(member.subscribed_topic_names, member.subscribed_topic_regex)
    ids = getsizeof(member.member_id) + 2 * getsizeof(member.client_id)
    ids += getsizeof(member.instance_id) + getsizeof(member.rack_id)
    return MEMBER_BYTES + ids + subscription + protocols + PARTITION_BYTES * partitions


def _size_of_classic_group(group: ClassicGroup) -> int:
    pending = sum(getsizeof(member_id) + MEMBER_BYTES for member_id in group.pending_join)
    members = sum(
        MEMBER_BYTES
        + getsizeof(member.member_id)
        + getsizeof(member.client_id)
        + len(member.assignment)
        + sum(len(metadata) + getsizeof(name) + 100 for name, metadata in member.protocols)
        for member in group.members.values()
    )
    return GROUP_BYTES + getsizeof(group.group_id) + pending + members
