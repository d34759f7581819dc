"""Strings from clients (ids, names, metadata): stored within bounds that do not depend on their length."""

from __future__ import annotations

from pathlib import Path
from sys import getsizeof
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.chunks import at_once
from kwire.coordinator.group.classic.classic_group import ClassicGroup
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.member import ConsumerMember
from kwire.coordinator.group.memory import LITTLE_BYTES, RECOUNT_INTERVAL_MS, GroupMemory
from kwire.coordinator.group.share.share_group import ShareGroup, ShareMember
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.seams import SystemRandomSource
from kwire.server.fetching.fetch_sessions import FetchSessions
from kwire.server.quotas.limits import QuotaLimits
from kwire.server.quotas.measures import NAME_LENGTH_MAX, Rates
from kwire.server.quotas.rate import SampledRate
from tests.log.support import ManualClock
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic, unique
from tests.support.running import RunningBroker

LONG_METADATA = "m" * 5000
LONGEST = "😀" * 8191
"""Maximum number of characters in a client id of 32767 bytes, each of four bytes."""


def test_a_client_id_that_is_long_is_measured_and_not_kept() -> None:
    rates = Rates(lambda: SampledRate(samples_max=11, window_ms=1000))
    rates.set_limits(QuotaLimits({(("client-id", None),): {"producer_byte_rate": 1.0}}, "producer_byte_rate"))
    for number in range(20):
        rates.record(("", f"{LONGEST}{number}"), 1e6, 0)
    assert rates.record(("", f"{LONGEST}7"), 0, 0) > 0, "its rate is its own"
    assert len(rates._by_client) == 20
    assert all(getsizeof(name) < 4 * NAME_LENGTH_MAX for _, name in rates._by_client)


def fetch_of(name: str, session: tuple[int, int]) -> FetchRequest:
    topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0)])]
    return FetchRequest(session_id=session[0], session_epoch=session[1], topics=topics)


def test_a_session_does_not_remember_names_that_no_topic_has() -> None:
    sessions = FetchSessions(slots=10, random_source=SystemRandomSource(1), clock=ManualClock())
    plan = at_once(sessions.plan(fetch_of(LONGEST, (0, 0)), uses_topic_ids=False))
    assert at_once(sessions.conclude(plan, [], uses_topic_ids=False))[0] == 0
    plan = at_once(sessions.plan(fetch_of("a" * 249, (0, 0)), uses_topic_ids=False))
    kept, _ = at_once(sessions.conclude(plan, [], uses_topic_ids=False))
    assert kept
    with pytest.raises(KafkaError) as dropped:
        at_once(sessions.plan(fetch_of(LONGEST, (kept, 1)), uses_topic_ids=False))
    assert dropped.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0


def join_of(group_id: str, size: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(size))],
    )


def test_row_45_joins_are_rejected_while_groups_fill_their_memory() -> None:
    clock = ManualClock()
    groups: list[ClassicGroup] = []
    memory = GroupMemory(1_000_000, lambda: groups, clock)
    assert memory.reserve(join_of("a", 600_000), "client", is_member=False)
    group = ClassicGroup("a", state_timestamp_ms=0)
    groups.append(group)
    member = SimpleNamespace(member_id="m", client_id="client", assignment=b"", protocols=(("range", bytes(900_000)),))
    group.members["m"] = cast("Any", member)
    clock.now_ms += RECOUNT_INTERVAL_MS
    assert not memory.reserve(join_of("b", 600_000), "client", is_member=False)
    assert memory.reserve(join_of("a", 1_000), "client", is_member=True), "who is in it may come back"
    assert not memory.reserve(join_of("a", LITTLE_BYTES + 90_000), "client", is_member=True)
    del group.members["m"]
    assert not memory.reserve(join_of("b", 600_000), "client", is_member=False), "not weighed again at once"
    clock.now_ms += RECOUNT_INTERVAL_MS
    assert memory.reserve(join_of("b", 600_000), "client", is_member=False)


def test_row_45_unused_member_ids_count_for_group_memory() -> None:
    clock = ManualClock()
    group = ClassicGroup("a", state_timestamp_ms=0)
    group.pending_join.update(f"{LONGEST}{number}" for number in range(30))
    memory = GroupMemory(1_000_000, lambda: [group], clock)
    clock.now_ms += RECOUNT_INTERVAL_MS
    assert not memory.reserve(join_of("a", 0), LONGEST, is_member=False)


def test_client_ids_of_members_count_for_group_memory() -> None:
    clock = ManualClock()
    consumers, shares, streams = ConsumerGroup("c"), ShareGroup("s"), StreamsGroup("t")
    consumers.put_member(ConsumerMember(member_id="m", client_id=LONGEST))
    shares.put_member(ShareMember(member_id="m", client_id=LONGEST))
    streams.put_member(StreamsMember(member_id="m", client_id=LONGEST))
    for group in (consumers, shares, streams):
        memory = GroupMemory(60_000, lambda group=group: [group], clock)  # type: ignore[misc]
        clock.now_ms += RECOUNT_INTERVAL_MS
        assert not memory.reserve(join_of("a", 0), "client", is_member=False)


def test_rejected_commits_create_no_groups(tmp_path: Path) -> None:
    def commit(client: RawClient, group: str) -> list[int]:
        too_long = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=LONG_METADATA)
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[too_long])]
        answer = client.ask(OffsetCommitRequest(group_id=group, topics=topics), 9)
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        client.ask(FindCoordinatorRequest(coordinator_keys=["any"]), 6)
        broker.server.services.groups._memory._limit_bytes = 100_000
        answers = [commit(client, f"group-{number}") for number in range(100)]
        rejected = [code for codes in answers for code in codes if code == ErrorCode.COORDINATOR_NOT_AVAILABLE]
        groups = broker.call(lambda: len(list(broker.server.services.groups._weighed_groups())))
        assert groups == 100 - len(rejected) < 50
        assert commit(client, "group-0") == [ErrorCode.OFFSET_METADATA_TOO_LARGE], "it is there already"


def test_a_client_whose_join_is_rejected_for_memory_may_try_again(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        broker.server.services.groups._memory._limit_bytes = 100_000
        group = unique("group")
        client.ask(FindCoordinatorRequest(coordinator_keys=[group]), 6)
        assert client.ask(join_of(group, 200_000), 9).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert client.ask(join_of(group, 100), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_groups_that_are_committed_offsets_alone_keep_no_member_out(tmp_path: Path) -> None:
    """Such groups exist for days: if they counted, new groups would be rejected for as long."""
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        client.ask(FindCoordinatorRequest(coordinator_keys=["any"]), 6)
        broker.server.services.groups._memory._limit_bytes = 50_000
        offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        for number in range(100):
            topics = [OffsetCommitRequestTopic(name=topic, partitions=[offset])]
            answer = client.ask(OffsetCommitRequest(group_id=f"group-{number}", topics=topics), 9)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert client.ask(join_of("new", 0), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED
