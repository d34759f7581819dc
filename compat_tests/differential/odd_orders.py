"""Short scenes: requests in an order that no correct client sends, or that need several steps to have an effect."""

from collections.abc import Callable, Iterator
from typing import Any

from compat_tests.differential.batches import batch
from compat_tests.differential.lazy import Known, Made
from compat_tests.differential.random_source import MISSING_ID, NO_ID, TOPICS, RandomSource
from compat_tests.differential.rules_of_groups import HALF_HOUR_MS, assignment, subscription
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.fetch import FetchForgottenTopic, FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

Requests = Iterator[tuple[Any, int]]


def a_group_of_one(random_source: RandomSource) -> Requests:
    """Join, sync, heartbeat, commit and leave, with an error somewhere."""
    group, number = f"lone-{random_source.step}", 0
    version = random_source.randint(0, 9)
    scene = [
        (_heartbeat(group, number), random_source.randint(0, 4)),
        (_join(group, number), version),
        (_join(group, number), version),
        (_heartbeat(group, number), random_source.randint(0, 4)),
        (_sync(group, number), random_source.randint(0, 5)),
        (_heartbeat(group, number), random_source.randint(0, 4)),
        (_commit(group, number), random_source.randint(2, 9)),
        (_fetch_offsets(group), 8),
        (DescribeGroupsRequest(groups=[group]), random_source.randint(0, 6)),
        (DeleteGroupsRequest(groups_names=[group]), random_source.randint(0, 2)),
        (_leave(group, number), random_source.randint(0, 5)),
        (_sync(group, number), random_source.randint(0, 5)),
        (_commit(group, number), random_source.randint(2, 9)),
        (DeleteGroupsRequest(groups_names=[group]), random_source.randint(0, 2)),
        (_commit(group, number), random_source.randint(2, 9)),
        (_fetch_offsets(group), 8),
    ]
    return _disordered(random_source, scene)


def a_group_of_two(random_source: RandomSource) -> Requests:
    """Let the second member's join wait for the first, which leaves, joins again, or commits to an old generation."""
    group = f"pair-{random_source.step}"
    version = random_source.randint(4, 9)
    scene = [
        *[(_join(group, 0), version)] * 2,
        (_sync(group, 0), 5),
        *[(_join(group, 1), version)] * 2,
        (_heartbeat(group, 0), 4),
        (_commit(group, 0), 8),
        random_source.choice([(_join(group, 0), version), (_leave(group, 0), 5), (_leave(group, 1), 5)]),
        (DescribeGroupsRequest(groups=[group]), 6),
        (_sync(group, 1), 5),
        (_sync(group, 0, followers=(1,)), 5),
        (_heartbeat(group, 1), 4),
        (_commit(group, 1), 8),
        (DescribeGroupsRequest(groups=[group]), 5),
        (_leave(group, 1), 5),
        (_leave(group, 0), 4),
        (DescribeGroupsRequest(groups=[group]), 6),
    ]
    return _disordered(random_source, scene)


def _disordered(random_source: RandomSource, scene: list[tuple[Any, int]]) -> Requests:
    """Remove one step, exchange two, duplicate one, or keep the scene unchanged."""
    at = random_source.randrange(len(scene) - 1)
    what = random_source.randrange(4)
    if what == 0:
        del scene[at]
    elif what == 1:
        scene[at], scene[at + 1] = scene[at + 1], scene[at]
    elif what == 2:
        scene.insert(at, scene[at])
    return iter(scene)


def a_topic_deleted_in_use(random_source: RandomSource) -> Requests:
    name = random_source.choice(TOPICS)
    session = random_source.randrange(3)
    yield _produce(name, MISSING_ID, 0), 9
    yield _fetch(name, session, fresh=True), 12
    yield (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=30_000),
        random_source.randint(1, 6),
    )
    yield _fetch(name, session), 12
    yield _produce(name, Known(("topic", name), MISSING_ID), 0), random_source.choice((11, 13))
    yield CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)]), 7
    yield _produce(name, Known(("topic before", name), MISSING_ID), 0), 13
    yield _produce(name, Known(("topic", name), MISSING_ID), 1), 13
    yield _fetch(name, session), random_source.choice((12, 13))
    yield _fetch(name, session), random_source.choice((12, 13))


def a_session_misused(random_source: RandomSource) -> Requests:
    """Open a session, continue it, use wrong epochs and names, forget a topic, and close it twice."""
    name, session, version = random_source.choice(TOPICS), random_source.randrange(3), random_source.randint(7, 17)
    yield _fetch(name, session, fresh=True), version
    yield _fetch(name, session), version
    yield _produce(name, NO_ID, 0), 9
    yield _fetch(None, session), version
    yield _fetch(None, session, epoch=random_source.choice((1, 7))), version
    yield _fetch(None, session, forget=name), version
    yield _fetch(name, session), random_source.randint(7, 17)
    yield _fetch(None, session, epoch=-1), version
    yield _fetch(None, session, epoch=-1), version
    yield _fetch(None, session), version


def a_producer_out_of_step(random_source: RandomSource) -> Requests:
    """Send sequences in order, a duplicate, a gap, a duplicate of the last five, an older one, and another epoch."""
    name, number = f"seq-{random_source.step}", random_source.producer()
    yield CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]), 7
    yield InitProducerIdRequest(transaction_timeout_ms=1000, producer_id=Known(("producer id", number), -1)), 5
    for sequence in (random_source.choice((0, 0, 3)), 2, 4, 4, 8, 6, 8, 10, 12, 0, 2, 12, 11):
        yield _produce(name, NO_ID, 0, number=number, sequence=sequence), random_source.randint(3, 12)
    yield _produce(name, NO_ID, 0, number=number, sequence=14, epoch=random_source.choice((1, -1))), 12
    yield _produce(name, NO_ID, 0, number=number, sequence=0, epoch=random_source.choice((0, 1, 2))), 12
    yield DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), 5


def _member(group: str, number: int) -> Known:
    return Known(("member", group, number), "")


def _generation(group: str) -> Known:
    return Known(("generation", group), -1)


def _join(group: str, number: int) -> JoinGroupRequest:
    metadata = Made(subscription, {"topics": ("t0",), "note": number})
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=HALF_HOUR_MS,
        rebalance_timeout_ms=HALF_HOUR_MS,
        member_id=_member(group, number),  # type: ignore[arg-type]
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],  # type: ignore[arg-type]
    )


def _sync(group: str, number: int, followers: tuple[int, ...] = ()) -> SyncGroupRequest:
    given = [
        SyncGroupRequestAssignment(member_id=_member(group, each), assignment=Made(assignment, {"note": each}))  # type: ignore[arg-type]
        for each in (number, *followers)
    ]
    return SyncGroupRequest(
        group_id=group,
        generation_id=_generation(group),  # type: ignore[arg-type]
        member_id=_member(group, number),  # type: ignore[arg-type]
        protocol_type="consumer",
        protocol_name="range",
        assignments=given,
    )


def _heartbeat(group: str, number: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=_generation(group), member_id=_member(group, number))  # type: ignore[arg-type]


def _leave(group: str, number: int) -> LeaveGroupRequest:
    member = _member(group, number)
    return LeaveGroupRequest(group_id=group, member_id=member, members=[MemberIdentity(member_id=member)])  # type: ignore[arg-type]


def _commit(group: str, number: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number + 5, committed_metadata="m")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_generation(group),  # type: ignore[arg-type]
        member_id=_member(group, number),  # type: ignore[arg-type]
        topics=[OffsetCommitRequestTopic(name="t0", partitions=[partition])],
    )


def _fetch_offsets(group: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])


def _fetch(
    name: str | None, session: int, *, fresh: bool = False, epoch: int | None = None, forget: str | None = None
) -> FetchRequest:
    topics, forgotten = [], []
    if name is not None:
        partitions = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(2)]
        topics = [FetchTopic(topic=name, topic_id=Known(("topic", name), MISSING_ID), partitions=partitions)]  # type: ignore[arg-type]
    if forget is not None:
        known = Known(("topic", forget), MISSING_ID)
        forgotten = [FetchForgottenTopic(topic=forget, topic_id=known, partitions=[0])]  # type: ignore[arg-type]
    number = Known(("session", session), 0)
    if fresh:
        epoch = 0
        number = Known(("session opened by", session), 0)
    return FetchRequest(
        min_bytes=1,
        session_id=number,  # type: ignore[arg-type]
        session_epoch=Known(("session epoch", session), 0) if epoch is None else epoch,  # type: ignore[arg-type]
        topics=topics,
        forgotten_topics_data=forgotten,
    )


def _produce(
    name: str,
    topic_id: object,
    partition: int,
    *,
    number: int | None = None,
    sequence: int = -1,
    epoch: int | None = None,
) -> ProduceRequest:
    made: dict[str, object] = {"seed": sequence, "count": 2, "codec": 0}
    if number is not None:
        known = Known(("producer epoch", number), 0) if epoch is None else epoch
        identity = Known(("producer id", number), 9_000_000 + number)
        made |= {"producer_id": identity, "producer_epoch": known, "base_sequence": sequence}
    data = PartitionProduceData(index=partition, records=Made(batch, made))  # type: ignore[arg-type]
    return ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=name, topic_id=topic_id, partition_data=[data])],  # type: ignore[arg-type]
    )


SCENES: tuple[Callable[[RandomSource], Requests], ...] = (
    a_group_of_one,
    a_group_of_two,
    a_topic_deleted_in_use,
    a_session_misused,
    a_producer_out_of_step,
)
