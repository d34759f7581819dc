"""Steps of the members of consumer groups (KIP-848), of commits, and of administration."""

import random
from typing import Any

from compat_tests.group_script.known import (
    CONSUMER,
    STREAMS,
    Assigned,
    Known,
    Step,
    member_id,
    often,
    some,
    sorted_assigned,
    wrong_epoch,
)
from compat_tests.group_script.topics import PARTITIONS, any_topic
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

GROUPS = ("consumer-1", "consumer-2")
INSTANCES = 3
LEAVES, LEAVES_FOR_A_WHILE = -1, -2
REBALANCE_TIMEOUT_MS = 3_000_000
REGEX_OF = {"consumer-1": "apples|berries", "consumer-2": ".*es"}
"""Regular expression of each group: a second one is resolved at most every ten seconds."""
INVALID_REGEX = "a("


def heartbeat(source: random.Random) -> Step:
    group, number = source.choice(GROUPS), source.randrange(6)
    name = member_id(number)
    version = source.choice((0, 1, 1))

    def build(known: Known, source: random.Random) -> ConsumerGroupHeartbeatRequest:
        member = known.member(group, name)
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=name, member_epoch=member.epoch)
        request.instance_id = f"instance-{number}" if number < INSTANCES else None
        if member.epoch == 0 or often(source, 0.03):
            _join(request, source, version, number)
        elif often(source, 0.12):
            request.member_epoch = LEAVES_FOR_A_WHILE if request.instance_id and often(source, 0.5) else LEAVES
        else:
            _continue(request, member.owned, source, version, known)
        return request

    return Step(version=version, build=build, learn=learn, groups=(group,))


def _join(request: ConsumerGroupHeartbeatRequest, source: random.Random, version: int, number: int) -> None:
    request.member_epoch = 0
    request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS if often(source, 0.97) else source.choice((-1, 0))
    request.topic_partitions = [] if often(source, 0.97) else None
    _subscribe(request, source, version)
    request.server_assignor = source.choice((None, None, "uniform", "range", "range", "unknown"))
    request.rack_id = source.choice((None, None, "r1", ""))
    if often(source, 0.1):
        # A member never has two instance ids: Kafka keeps both, see docs/differences.md.
        request.instance_id = source.choice((None, "", f"instance-{number % INSTANCES}"))


def _subscribe(request: ConsumerGroupHeartbeatRequest, source: random.Random, version: int) -> None:
    if version and often(source, 0.3):
        regex = REGEX_OF[request.group_id]
        request.subscribed_topic_regex = source.choice((regex, regex, "")) if often(source, 0.95) else INVALID_REGEX
        if often(source, 0.5):
            return
    request.subscribed_topic_names = sorted({any_topic(source) for _ in range(source.randint(1, 3))})
    if often(source, 0.05):
        request.subscribed_topic_names = source.choice(([], None, [""]))


def _continue(
    request: ConsumerGroupHeartbeatRequest, owned: Assigned, source: random.Random, version: int, known: Known
) -> None:
    if often(source, 0.06):
        request.member_epoch = wrong_epoch(source, request.member_epoch)
    if often(source, 0.12):
        _subscribe(request, source, version)
    if often(source, 0.05):
        request.server_assignor = source.choice(("uniform", "range", "unknown"))
    if often(source, 0.03):
        request.instance_id = source.choice((None, "instance-1", "instance-9"))
    if often(source, 0.03):
        request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS - 1
    if often(source, 0.75):
        given = owned if often(source, 0.8) else {topic: some(source, owned[topic]) for topic in owned}
        if often(source, 0.03):
            given = {**given, any_topic(source): [0, 1, 99]}
        request.topic_partitions = [
            ConsumerGroupHeartbeatTopicPartitions(topic_id=known.topic_id(topic), partitions=partitions)
            for topic, partitions in given.items()
        ]


def learn(known: Known, request: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse) -> None:
    member = known.member(request.group_id, request.member_id)
    if member.answered(request, answer) and answer.assignment is not None:
        member.owned = sorted_assigned(
            {known.topic_name(each.topic_id): each.partitions for each in answer.assignment.topic_partitions}
        )


def commit(source: random.Random) -> Step:
    """Commit offsets as a member of a consumer or streams group, or of no group."""
    kind = source.choice((CONSUMER, CONSUMER, STREAMS))
    group, name = f"{kind}-{source.choice((1, 2))}", member_id(source.randrange(6))
    version = source.choice((8, 9, 9, 10))
    topics = sorted({any_topic(source) for _ in range(2)})

    def build(known: Known, source: random.Random) -> OffsetCommitRequest:
        epoch = known.member(group, name).epoch
        request = OffsetCommitRequest(group_id=group, member_id=name, generation_id_or_member_epoch=epoch)
        if often(source, 0.1):
            request.generation_id_or_member_epoch = wrong_epoch(source, epoch)
        if often(source, 0.1):
            request.member_id, request.generation_id_or_member_epoch = source.choice((("", -1), ("", epoch), ("x", 1)))
        for topic in topics:
            partitions = [
                OffsetCommitRequestPartition(partition_index=index, committed_offset=source.randrange(100))
                for index in range(PARTITIONS.get(topic, 1))
            ]
            named: dict[str, Any] = {"topic_id": known.topic_id(topic)} if version >= 10 else {"name": topic}
            request.topics.append(OffsetCommitRequestTopic(partitions=partitions, **named))
        return request

    return Step(version=version, build=build)


def fetch_offsets(source: random.Random) -> Step:
    group, name = source.choice((*GROUPS, "streams-1")), member_id(source.randrange(6))
    version = source.choice((8, 9, 9, 10))

    def build(known: Known, source: random.Random) -> OffsetFetchRequest:
        asked = OffsetFetchRequestGroup(group_id=group)
        if version >= 9 and often(source, 0.7):
            asked.member_id, asked.member_epoch = name, known.member(group, name).epoch
            if often(source, 0.2):
                asked.member_epoch = wrong_epoch(source, asked.member_epoch)
        if often(source, 0.5):
            asked.topics = None
        else:
            topic = any_topic(source)
            named: dict[str, Any] = {"topic_id": known.topic_id(topic)} if version >= 10 else {"name": topic}
            asked.topics = [OffsetFetchRequestTopics(partition_indexes=[0, 1], **named)]
        return OffsetFetchRequest(groups=[asked], require_stable=often(source, 0.3))

    return Step(version=version, build=build)


def delete_offsets(source: random.Random) -> Step:
    group = source.choice((*GROUPS, "streams-1", "share-1"))
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1)]
    topics = [OffsetDeleteRequestTopic(name=any_topic(source), partitions=partitions)]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    return Step(version=0, build=lambda known, source: request)
