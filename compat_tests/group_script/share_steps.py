"""Steps of the members of share groups (KIP-932): heartbeats, records acquired and acknowledged, and their offsets."""

import random
from typing import Any

from compat_tests.group_script.known import Known, Step, member_id, often, wrong_epoch
from compat_tests.group_script.topics import LASTING, PARTITIONS, any_topic
from kwire.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgementBatch,
    ShareAcknowledgeRequest,
)
from kwire.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchForgottenTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

FETCHED = ("share-1", "share-2")
"""Groups whose records are acquired. A member keeps them from becoming empty."""
GROUPS = (*FETCHED, "share-3")
LEAVES = -1
OPENS, CLOSES = 0, -1
WAIT_MS = 200
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
MEMBERS = 3


def heartbeat(source: random.Random) -> Step:
    group, name = source.choice(GROUPS), member_id(source.randrange(MEMBERS))

    def build(known: Known, source: random.Random) -> ShareGroupHeartbeatRequest:
        epoch = known.member(group, name).epoch
        request = ShareGroupHeartbeatRequest(group_id=group, member_id=name, member_epoch=epoch)
        if epoch == 0 or often(source, 0.03):
            request.member_epoch = 0
            _subscribe(request, source)
            request.rack_id = source.choice((None, None, "r1"))
        elif often(source, 0.1):
            request.member_epoch = LEAVES if often(source, 0.9) else -2
        else:
            if often(source, 0.06):
                request.member_epoch = wrong_epoch(source, epoch)
            if often(source, 0.15):
                _subscribe(request, source)
        return request

    return Step(version=1, build=build, learn=_learn_heartbeat, groups=(group,))


def _subscribe(request: ShareGroupHeartbeatRequest, source: random.Random) -> None:
    request.subscribed_topic_names = sorted({any_topic(source) for _ in range(source.randint(1, 3))})
    if often(source, 0.05):
        request.subscribed_topic_names = source.choice(([], None, [""]))


def _learn_heartbeat(known: Known, request: ShareGroupHeartbeatRequest, answer: ShareGroupHeartbeatResponse) -> None:
    known.member(request.group_id, request.member_id).answered(request, answer)


def fetch(source: random.Random) -> Step:
    """Fetch from one topic, mostly within a session, sometimes with acknowledgements of what was acquired before."""
    group, name = source.choice(FETCHED), member_id(source.randrange(MEMBERS))
    topic = source.choice(LASTING)

    def build(known: Known, source: random.Random) -> ShareFetchRequest:
        member = known.member(group, name)
        request = ShareFetchRequest(
            group_id=group,
            member_id=name,
            share_session_epoch=member.session_epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,  # with 0, an answer would depend on how fast share partitions are initialised
            max_bytes=1 << 20,
            max_records=500,  # with fewer, an answer would depend on the order of the partitions, which differs
            batch_size=source.choice((1, 2, 100, 500)),
            share_acquire_mode=source.choice((0, 0, 1)),
        )
        if often(source, 0.05):
            request.share_session_epoch = source.choice((CLOSES, member.session_epoch + 1))
        acknowledged: dict[tuple[str, int], list[Any]] = {}
        if request.share_session_epoch != OPENS and often(source, 0.5):
            # A released record may be acquired by the same request, but only if that is stored fast enough.
            acknowledged = acknowledgements(member.acquired, source, ShareFetchAcknowledgementBatch, releases=False)
        indexes = range(PARTITIONS.get(topic, 1))
        if request.share_session_epoch > 0 and often(source, 0.7):
            indexes = range(0)
        places = dict.fromkeys([*((topic, index) for index in indexes), *acknowledged])
        request.topics = [
            ShareFetchTopic(
                topic_id=known.topic_id(each),
                partitions=[
                    ShareFetchPartition(
                        partition_index=index, acknowledgement_batches=acknowledged.get((each, index), [])
                    )
                    for of_topic, index in places
                    if of_topic == each
                ],
            )
            for each in dict.fromkeys(name for name, _ in places)
        ]
        if request.share_session_epoch > 0 and often(source, 0.1):
            forgotten = ShareFetchForgottenTopic(topic_id=known.topic_id(topic), partitions=[0])
            request.forgotten_topics_data = [forgotten]
        return request

    def learn(known: Known, request: ShareFetchRequest, answer: Any) -> None:
        member = known.member(group, name)
        _session_used(known, request, answer)
        if answer.error_code:
            return
        member.acquired += [
            (known.topic_name(each.topic_id), partition.partition_index, one.first_offset, one.last_offset)
            for each in answer.responses
            for partition in each.partitions
            for one in partition.acquired_records
        ]
        member.acquired.sort()

    return Step(version=source.choice((1, 2, 2)), build=build, learn=learn)


def acknowledge(source: random.Random) -> Step:
    group, name = source.choice(FETCHED), member_id(source.randrange(MEMBERS))

    def build(known: Known, source: random.Random) -> ShareAcknowledgeRequest:
        member = known.member(group, name)
        request = ShareAcknowledgeRequest(
            group_id=group, member_id=name, share_session_epoch=member.session_epoch, topics=[]
        )
        if often(source, 0.1):
            request.share_session_epoch = source.choice((CLOSES, member.session_epoch + 1))
        acknowledged = acknowledgements(member.acquired, source, ShareAcknowledgementBatch)
        for topic in dict.fromkeys(name for name, _ in acknowledged):
            partitions = [
                AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
                for (of_topic, index), batches in acknowledged.items()
                if of_topic == topic
            ]
            request.topics.append(AcknowledgeTopic(topic_id=known.topic_id(topic), partitions=partitions))
        return request

    return Step(version=source.choice((1, 2, 2)), build=build, learn=_session_used)


def _session_used(known: Known, request: Any, answer: Any) -> None:
    member = known.member(request.group_id, request.member_id)
    if answer.error_code:
        if request.share_session_epoch == member.session_epoch:
            member.session_epoch = OPENS
            member.acquired.clear()
        return
    member.session_epoch = request.share_session_epoch + 1
    if request.share_session_epoch <= OPENS:
        member.acquired.clear()
    done = {
        (known.topic_name(topic.topic_id), partition.partition_index, batch.first_offset)
        for topic in request.topics
        for partition in topic.partitions
        for batch in partition.acknowledgement_batches
    }
    member.acquired = [each for each in member.acquired if each[:3] not in done]


def acknowledgements(
    acquired: list[tuple[str, int, int, int]], source: random.Random, make: type, *, releases: bool = True
) -> dict[tuple[str, int], list[Any]]:
    """Return acknowledgements of some ranges by partition: of all records alike, one by one, in part, or wrong ones."""
    found: dict[tuple[str, int], list[Any]] = {}
    for topic, partition, first, last in acquired:
        if often(source, 0.4):
            continue
        kinds = (ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT) if releases else (ACCEPT, ACCEPT, REJECT)
        types, end = [source.choice(kinds)], last
        if often(source, 0.3):
            types = [source.choice((0, *kinds)) for _ in range(last - first + 1)]
        elif often(source, 0.05):
            types = source.choice(([], [RENEW], [ACCEPT] * (last - first + 2)))
        elif often(source, 0.1):
            end = last + 1
        elif last > first and often(source, 0.3):
            end = last - 1
        batch = make(first_offset=first, last_offset=end, acknowledge_types=types)
        found.setdefault((topic, partition), []).append(batch)
    if often(source, 0.05):
        wrong = make(first_offset=5, last_offset=2, acknowledge_types=[ACCEPT])
        found.setdefault(("berries", 1), []).append(wrong)
    return found


def alter_offsets(source: random.Random) -> Step:
    group, topic = source.choice(GROUPS), any_topic(source)
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=source.randrange(10))
        for index in range(source.choice((PARTITIONS.get(topic, 1), 1, 9)))
    ]
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)]
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=topics)
    return Step(version=0, build=lambda known, source: request, groups=(group,))


def delete_offsets(source: random.Random) -> Step:
    group = source.choice(GROUPS)
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=any_topic(source))]
    request = DeleteShareGroupOffsetsRequest(group_id=group, topics=topics)
    return Step(version=0, build=lambda known, source: request, groups=(group,))
