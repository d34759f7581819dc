"""Clients in the model of groups that migrate (migration_model.py): consumers of the classic and the new protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.any_group import AnyGroup
from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.member import ConsumerMember
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kwire.protocol.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
    decode_consumer_protocol,
    encode_consumer_protocol,
)
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.fuzz.logged_world import GROUP

SESSION_MS: Final = 30_000
REBALANCE_MS: Final = 20_000
EAGER: Final = "range"
COOPERATIVE: Final = "cooperative-sticky"
SUBSCRIPTIONS: Final = (("t",), ("t", "u"), ("u",), ("t", "v"))
REGEXES: Final = {"[tu]": ("t", "u"), "t.*": ("t", "tt")}
"""Topics that a regular expression matches, if they exist."""
NAMES: Final = ("t", "u", "v", "tt")

Partition = tuple[UUID, int]
Topics = Mapping[str, tuple[UUID, int]]
"""Ids and numbers of partitions."""


class Client:
    """Process of a consumer, which is replaced by another one with the same name and instance id."""

    def __init__(self, name: str, instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.lives = 0
        self.begin_again(None, 0)

    def begin_again(self, protocol: str | None, choice: int) -> None:
        """Become another process, which uses a classic protocol, or the new one if that is None."""
        self.lives += 1
        self.protocol = protocol
        self.regex: str | None = None
        self.names: tuple[str, ...] = SUBSCRIPTIONS[choice % len(SUBSCRIPTIONS)]
        if protocol is None and choice % 3 == 0:
            self.regex, self.names = list(REGEXES)[choice % len(REGEXES)], ()
        self.member_id = f"{self.name}{self.lives}" if protocol is None else ""
        self.pending: asyncio.Future[Any] | None = None
        self.drop()

    def drop(self) -> None:
        """Stop reading, and join again with the next request."""
        self.held: set[Partition] = set()
        """Partitions that it reads; revoked ones until it has reported that."""
        self.assigned: set[Partition] = set()
        self.is_member = False
        self.sends_all_fields = True
        self.phase = "join"
        """Next request of a classic member: join, sync or heartbeat."""
        self.assignments: list[SyncGroupRequestAssignment] = []
        self.metadata: Topics | None = None
        """Topics for which it has assigned partitions as the leader."""
        self.epoch = 0 if self.protocol is None else -1
        if self.protocol is not None:
            self.member_id = ""

    @property
    def read_names(self) -> tuple[str, ...]:
        return self.names if self.regex is None else REGEXES[self.regex]

    def rejoin(self) -> None:
        """Rejoin a classic group; an eager member revokes all its partitions first."""
        self.phase = "join"
        if self.protocol == EAGER:
            self.held = set()

    def close_revoked(self) -> None:
        self.held &= self.assigned

    def subscription(self, image: MetadataImage) -> bytes:
        owned = [
            SubscriptionTopicPartition(topic=image.topic_names[each.topic_id], partitions=each.partitions)
            for each in by_topic(self.held)
            if each.topic_id in image.topic_names
        ]
        message = ConsumerProtocolSubscription(topics=list(self.names), owned_partitions=owned)
        return encode_consumer_protocol(message, 1)


def by_topic(partitions: Iterable[Partition]) -> list[ConsumerGroupHeartbeatTopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions, key=str):
        topics.setdefault(topic_id, []).append(index)
    return [ConsumerGroupHeartbeatTopicPartitions(topic_id=each, partitions=topics[each]) for each in topics]


def heartbeat_request(client: Client) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=client.member_id,
        member_epoch=client.epoch if client.is_member else 0,
        instance_id=client.instance_id,
        topic_partitions=by_topic(client.held),
    )
    if client.sends_all_fields:
        request.rebalance_timeout_ms = REBALANCE_MS
        request.subscribed_topic_names = list(client.names)
        request.subscribed_topic_regex = client.regex or ""
    return request


def join_request(client: Client, image: MetadataImage) -> JoinGroupRequest:
    assert client.protocol is not None
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=client.member_id,
        group_instance_id=client.instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=client.protocol, metadata=client.subscription(image))],
    )


def sync_request(client: Client) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=client.epoch,
        member_id=client.member_id,
        group_instance_id=client.instance_id,
        protocol_type="consumer",
        protocol_name=client.protocol,
        assignments=client.assignments,
    )


def topics_in(image: MetadataImage) -> Topics:
    return {
        name: (image.topics[name].topic_id, len(image.topics[name].partitions)) for name in NAMES & image.topics.keys()
    }


def read_by(response: JoinGroupResponse, topics: Topics) -> Topics:
    """Return the topics that the members in a leader's list read."""
    names = {name for each in response.members for name in _subscription(bytes(each.metadata)).topics}
    return {name: topics[name] for name in sorted(names & topics.keys())}


def assign(response: JoinGroupResponse, topics: Topics) -> list[SyncGroupRequestAssignment]:
    """Return a leader's assignments; with the cooperative protocol, partitions of others must be revoked first."""
    members = {each.member_id: _subscription(bytes(each.metadata)) for each in response.members}
    owners = {
        (each.topic, index): member_id
        for member_id, subscription in members.items()
        for each in subscription.owned_partitions
        for index in each.partitions
    }
    given: dict[str, list[AssignmentTopicPartition]] = {member_id: [] for member_id in members}
    for name, (_, count) in topics.items():
        readers = sorted(each for each, subscription in members.items() if name in subscription.topics)
        for index in range(count) if readers else ():
            reader = readers[index % len(readers)]
            if response.protocol_name == EAGER or owners.get((name, index), reader) == reader:
                given[reader].append(AssignmentTopicPartition(topic=name, partitions=[index]))
    return [SyncGroupRequestAssignment(member_id=each, assignment=_encoded(given[each])) for each in given]


def _encoded(partitions: list[AssignmentTopicPartition]) -> bytes:
    return encode_consumer_protocol(ConsumerProtocolAssignment(assigned_partitions=partitions), 1)


def _subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    return decode_consumer_protocol(ConsumerProtocolSubscription, metadata)


def partitions_in(assignment: bytes, topics: Topics) -> set[Partition]:
    """Return the partitions of an assignment in a SyncGroup response, of topics that exist."""
    if not assignment:
        return set()
    decoded = decode_consumer_protocol(ConsumerProtocolAssignment, assignment)
    return {
        (topics[each.topic][0], index)
        for each in decoded.assigned_partitions
        if each.topic in topics
        for index in each.partitions
    }


def code_of_commit(group: AnyGroup | None, client: Client, epoch: int, partition: Partition) -> ErrorCode:
    """Return Kafka's error code for a commit of a client at an epoch or generation."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ConsumerGroup):
        member = group.members.get(client.member_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _code_of_member(member, epoch, partition)
    assert isinstance(group, ClassicGroup)
    if client.instance_id is not None and client.instance_id in group.static_members:
        if group.static_members[client.instance_id] != client.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    elif client.instance_id is not None or client.member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    is_syncing = group.state is GroupState.COMPLETING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if is_syncing else ErrorCode.NONE


def _code_of_member(member: ConsumerMember, epoch: int, partition: Partition) -> ErrorCode:
    stale = ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
    if epoch >= member.member_epoch:
        return ErrorCode.NONE if epoch == member.member_epoch else stale
    topic_id, index = partition
    for partitions in (member.assigned_partitions, member.partitions_pending_revocation):
        since = partitions.get(topic_id, {}).get(index)
        if since is not None:
            return ErrorCode.NONE if since <= epoch else stale
    return stale
