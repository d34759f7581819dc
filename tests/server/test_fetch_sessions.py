"""Fetch sessions (KIP-227): each row of the table in fetching/fetch_sessions.py, over the wire and by a test clock."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.chunks import at_once
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import (
    FetchForgottenTopic,
    FetchPartition,
    FetchPartitionData,
    FetchReplicaState,
    FetchRequest,
)
from kwire.seams import SystemRandomSource
from kwire.server.fetching import fetch_session
from kwire.server.fetching.fetch_session import FetchSession, SessionPartition
from kwire.server.fetching.fetch_sessions import FetchSessions
from kwire.server.fetching.session_cache import EVICTION_MS, SessionCache
from kwire.server.fetching.session_watch import Key
from tests.log.support import ManualClock
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch_request, produce, unique

FULL, NONE = (0, 0), (0, -1)


def ask(
    client: RawClient, topic: str, session: tuple[int, int], *, offset: int = 0, version: int = 12, **more: Any
) -> Any:
    return client.ask(fetch_request(topic, offset, session=session, **more), version)


def opened(client: RawClient, topic: str) -> int:
    answer = ask(client, topic, FULL)
    session_id: int = answer.session_id
    assert session_id > 0
    return session_id


def test_a_full_fetch_opens_a_session_and_incremental_ones_return_changes(client: RawClient) -> None:
    topic, _ = create_topic(client)
    session = opened(client, topic)
    quiet = ask(client, "", (session, 1))
    assert (quiet.session_id, quiet.responses) == (session, [])
    produce(client, topic, batch(b"a"))
    news = ask(client, "", (session, 2))
    assert len(news.responses[0].partitions[0].records) == len(batch(b"a"))
    again = ask(client, "", (session, 3))
    assert again.responses[0].partitions[0].records, "as long as the offset stays, so does the data"
    moved = ask(client, topic, (session, 4), offset=1)
    assert moved.responses == []


def test_a_fetch_without_a_session(client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert ask(client, topic, NONE).session_id == 0


def test_a_session_is_closed_by_the_final_epoch(client: RawClient) -> None:
    topic, _ = create_topic(client)
    session = opened(client, topic)
    closed = ask(client, topic, (session, -1))
    assert closed.session_id == 0
    assert len(closed.responses) == 1
    assert ask(client, "", (session, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_is_replaced_by_epoch_0(client: RawClient) -> None:
    topic, _ = create_topic(client)
    session = opened(client, topic)
    other = ask(client, topic, (session, 0)).session_id
    assert other not in (0, session)
    assert ask(client, "", (session, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert ask(client, "", (other, 1)).error_code == 0


@pytest.mark.parametrize("epoch", [2, 3, 2**31 - 1])
def test_a_wrong_session_epoch_is_rejected(client: RawClient, epoch: int) -> None:
    topic, _ = create_topic(client)
    session = opened(client, topic)
    assert ask(client, "", (session, epoch)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask(client, "", (session, 1)).error_code == 0
    assert ask(client, "", (session, 1)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_id_is_rejected(client: RawClient) -> None:
    assert ask(client, "", (123456, 5)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_topics_join_and_are_forgotten(client: RawClient) -> None:
    one, _ = create_topic(client)
    two, _ = create_topic(client)
    session = opened(client, one)
    joined = ask(client, two, (session, 1))
    assert [topic.topic for topic in joined.responses] == [two], "a new partition is news"
    for topic in (one, two):
        produce(client, topic, batch(b"a"))
    both = ask(client, "", (session, 2))
    assert {topic.topic for topic in both.responses} == {one, two}
    forgotten = [FetchForgottenTopic(topic=one, partitions=[0])]
    rest = ask(client, "", (session, 3), forgotten=forgotten)
    assert [topic.topic for topic in rest.responses] == [two]
    nothing = ask(client, "", (session, 4), forgotten=[FetchForgottenTopic(topic=two, partitions=[0])])
    assert (nothing.error_code, nothing.responses) == (0, [])
    assert ask(client, "", (session, 5)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix_in_a_session(client: RawClient) -> None:
    topic, topic_id = create_topic(client)
    session = opened(client, topic)
    mixed = ask(client, "", (session, 1), version=13)
    assert mixed.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    by_id = ask(client, "", FULL, version=13, topic_id=topic_id).session_id
    assert ask(client, "", (by_id, 1), version=12).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_partition_error_is_returned_until_it_ends(client: RawClient) -> None:
    topic = unique()
    answer = ask(client, topic, FULL)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    again = ask(client, "", (answer.session_id, 1))
    assert again.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topic(client, name=topic)
    healed = ask(client, "", (answer.session_id, 2))
    assert healed.responses[0].partitions[0].error_code == 0
    assert ask(client, "", (answer.session_id, 3)).responses == []


def test_an_empty_full_fetch_opens_a_session_that_ends_with_the_next(client: RawClient) -> None:
    opened = ask(client, "", FULL).session_id
    assert opened != 0
    assert ask(client, "", (opened, 1)).session_id == 0


# --- with a test clock


def request(topic: str, session: tuple[int, int]) -> FetchRequest:
    return fetch_request(topic, session=session)


def open_one(
    sessions: FetchSessions, topic: str, *, size: int = 1, replica_id: int = -1, broker_epoch: int | None = None
) -> int:
    """Open a session with this number of partitions, for a consumer or a follower; return its id, or 0 without room."""
    asked = request(topic, FULL)
    asked.replica_id = replica_id
    if broker_epoch is not None:
        asked.replica_state = FetchReplicaState(replica_id=replica_id, replica_epoch=broker_epoch)
    asked.topics[0].partitions = [
        replace(partition, partition=index) for partition in asked.topics[0].partitions for index in range(size)
    ]
    plan = at_once(sessions.plan(asked, uses_topic_ids=False))
    answers = [(key, FetchPartitionData(partition_index=key[1])) for key, _ in plan.partitions]
    return at_once(sessions.conclude(plan, answers, uses_topic_ids=False))[0]


def test_row_45_a_full_cache_gives_up_only_sessions_that_were_idle_long() -> None:
    clock = ManualClock()
    sessions = FetchSessions(slots=2, random_source=SystemRandomSource(1), clock=clock)
    first, second = open_one(sessions, "a"), open_one(sessions, "b")
    assert open_one(sessions, "c") == 0, "no room: served without a session"
    clock.now_ms += EVICTION_MS - 1
    at_once(sessions.plan(request("", (first, 1)), uses_topic_ids=False))
    assert open_one(sessions, "c") == 0
    clock.now_ms += 2
    third = open_one(sessions, "c")
    assert third > 0
    with pytest.raises(KafkaError) as gone:
        at_once(sessions.plan(request("", (second, 1)), uses_topic_ids=False))
    assert gone.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    at_once(sessions.plan(request("", (first, 2)), uses_topic_ids=False))
    assert len(sessions) == 2


def lives(sessions: FetchSessions, session_id: int, epoch: int = 1) -> bool:
    """Return True if the session accepts its next fetch."""
    try:
        at_once(sessions.plan(request("", (session_id, epoch)), uses_topic_ids=False))
    except KafkaError as error:
        assert error.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return False
    return True


def test_a_restarted_follower_replaces_its_earlier_sessions() -> None:
    sessions = FetchSessions(slots=10, random_source=SystemRandomSource(1), clock=ManualClock())
    open_one(sessions, "a", replica_id=2, broker_epoch=5)
    open_one(sessions, "b", replica_id=2, broker_epoch=5)
    assert len(sessions) == 2, "a broker may fetch in several sessions at a time"
    others = [
        open_one(sessions, "a", replica_id=3, broker_epoch=4),
        open_one(sessions, "a", replica_id=2),
        open_one(sessions, "a"),
    ]
    newest = open_one(sessions, "a", replica_id=2, broker_epoch=8)
    assert set(sessions._cache._sessions) == {others[0], others[2], newest}


def test_followers_evict_consumer_sessions_and_not_the_reverse() -> None:
    sessions = FetchSessions(slots=2, random_source=SystemRandomSource(1), clock=ManualClock())
    large, small = open_one(sessions, "a", size=5), open_one(sessions, "b", size=2)
    first = open_one(sessions, "c", replica_id=2)
    assert first > 0
    assert not lives(sessions, small), "the smallest goes first"
    second = open_one(sessions, "c", replica_id=3)
    assert second > 0
    assert not lives(sessions, large)
    assert open_one(sessions, "d", size=9) == 0
    assert open_one(sessions, "c", size=9, replica_id=4) == 0, "a follower does not drive out another one either"
    assert lives(sessions, first)
    assert lives(sessions, second)


def test_old_sessions_are_evicted_for_larger_ones() -> None:
    clock = ManualClock()
    sessions = FetchSessions(slots=3, random_source=SystemRandomSource(1), clock=clock)
    follower = open_one(sessions, "a", replica_id=2)
    small, large = open_one(sessions, "b", size=2), open_one(sessions, "b", size=3)
    for epoch in (1, 2):
        assert open_one(sessions, "c", size=9) == 0, "those here are new"
        clock.now_ms += EVICTION_MS * 6 // 10
        assert all(lives(sessions, session, epoch) for session in (follower, small, large))
    assert open_one(sessions, "c", size=2) == 0, "it is not larger"
    assert open_one(sessions, "c", size=3) > 0
    assert [lives(sessions, session, 3) for session in (follower, small, large)] == [True, False, True]
    assert open_one(sessions, "c", size=4, replica_id=3) > 0
    assert open_one(sessions, "c", size=4, replica_id=4) > 0
    assert open_one(sessions, "c", size=4, replica_id=5) > 0
    assert not lives(sessions, follower, 4), "the last one drives out an older and smaller follower"


def test_followers_find_room_for_their_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.server.fetching.session_cache.PARTITIONS_MAX", 6)
    sessions = FetchSessions(slots=10, random_source=SystemRandomSource(1), clock=ManualClock())
    small, large = open_one(sessions, "a"), open_one(sessions, "b", size=5)
    follower = open_one(sessions, "c", size=5, replica_id=2)
    assert follower > 0
    assert not lives(sessions, large), "what has most is given up"
    assert lives(sessions, small)
    assert open_one(sessions, "d", size=2, replica_id=3) == 0, "followers have too many among themselves"
    assert lives(sessions, small, 2), "nothing is given up in vain"
    at_once(sessions.plan(request("e", (follower, 1)), uses_topic_ids=False))
    assert not lives(sessions, small, 3), "a follower's session that grows finds room too"
    with pytest.raises(KafkaError) as dropped:
        at_once(sessions.plan(request("f", (follower, 2)), uses_topic_ids=False))
    assert dropped.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_session_above_the_partition_limit_evicts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.server.fetching.session_cache.PARTITIONS_MAX", 6)
    clock = ManualClock()
    sessions = FetchSessions(slots=3, random_source=SystemRandomSource(1), clock=clock)
    consumers = [open_one(sessions, "a", size=2) for _ in range(3)]
    assert open_one(sessions, "c", size=7, replica_id=2) == 0
    assert [lives(sessions, session) for session in consumers] == [True, True, True]
    clock.now_ms += EVICTION_MS + 1
    assert open_one(sessions, "c", size=7, replica_id=2) == 0, "nor that of one that is idle"
    assert [lives(sessions, session, 2) for session in consumers] == [True, True, True]
    assert open_one(sessions, "c", size=6, replica_id=2) > 0, "one that fits alone takes all"
    assert [lives(sessions, session, 3) for session in consumers] == [False, False, False]


def test_row_45_partitions_are_bounded_over_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.server.fetching.session_cache.PARTITIONS_MAX", 2)
    sessions = FetchSessions(slots=10, random_source=SystemRandomSource(1), clock=ManualClock())
    first, second = open_one(sessions, "a"), open_one(sessions, "b")
    assert open_one(sessions, "c") == 0, "served without a session"
    with pytest.raises(KafkaError) as dropped:
        at_once(sessions.plan(request("d", (first, 1)), uses_topic_ids=False))
    assert dropped.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 1
    assert at_once(sessions.plan(request("", (second, 1)), uses_topic_ids=False)).partitions[0][0] == ("b", 0)


def test_a_session_that_is_being_opened_counts_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is opened in steps, and other sessions may be opened between them."""
    monkeypatch.setattr("kwire.server.fetching.session_cache.PARTITIONS_MAX", 3000)
    monkeypatch.setattr("kwire.server.fetching.fetch_sessions.CONCLUDED_AT_ONCE", 10)
    sessions = FetchSessions(slots=10, random_source=SystemRandomSource(1), clock=ManualClock())
    asked = request("a", FULL)
    asked.topics[0].partitions = [replace(asked.topics[0].partitions[0], partition=index) for index in range(2000)]
    plan = at_once(sessions.plan(asked, uses_topic_ids=False))
    answers = [(key, FetchPartitionData(partition_index=key[1])) for key, _ in plan.partitions]
    opening = sessions.conclude(plan, answers, uses_topic_ids=False)
    next(opening)
    assert open_one(sessions, "b", size=2000) == 0
    session_id, _ = at_once(opening)
    assert lives(sessions, session_id)
    assert sessions._cache._partition_count() == 2000


def test_with_zero_slots_no_session_is_created() -> None:
    sessions = FetchSessions(slots=0, random_source=SystemRandomSource(1), clock=ManualClock())
    assert open_one(sessions, "a") == 0


def test_the_session_epoch_wraps_to_one() -> None:
    sessions = FetchSessions(slots=1, random_source=SystemRandomSource(1), clock=ManualClock())
    session = open_one(sessions, "a")
    sessions._cache._sessions[session].epoch = 2**31 - 1
    at_once(sessions.plan(request("", (session, 2**31 - 1)), uses_topic_ids=False))
    at_once(sessions.plan(request("", (session, 1)), uses_topic_ids=False))
    assert sessions._cache._sessions[session].epoch == 2


def test_a_session_closed_between_two_steps_checks_the_remaining_partitions() -> None:
    """Another connection may end the session between two steps of a fetch."""
    session = FetchSession(session_id=1, created_ms=0.0, last_used_ms=0.0, uses_topic_ids=False, follower=None)
    for index in range(3):
        asked = FetchPartition(partition=index)
        session.partitions["t", index] = SessionPartition(request=asked, topic="t", place=session.new_place())
        session.mark_unchecked(("t", index))
    session.is_over = True
    session.partitions.popitem()
    checked, has_more = session.to_check({("t", 2): FetchPartition(partition=2)})
    assert ([key for key, _ in checked], has_more) == ([("t", 0), ("t", 1)], False)


def test_partitions_with_data_go_to_the_end() -> None:
    sessions = FetchSessions(slots=1, random_source=SystemRandomSource(1), clock=ManualClock())
    plan = at_once(sessions.plan(request("a", FULL), uses_topic_ids=False))
    plan.partitions += [(("b", 0), plan.partitions[0][1])]
    answers = [(key, FetchPartitionData(partition_index=0)) for key, _ in plan.partitions]
    session, _ = at_once(sessions.conclude(plan, answers, uses_topic_ids=False))
    plan = at_once(sessions.plan(request("", (session, 1)), uses_topic_ids=False))
    assert [key for key, _ in plan.partitions] == [("a", 0), ("b", 0)]
    answers = [
        (("a", 0), FetchPartitionData(partition_index=0, records=b"x")),
        (("b", 0), FetchPartitionData(partition_index=0)),
    ]
    _, news = at_once(sessions.conclude(plan, answers, uses_topic_ids=False))
    assert [key for key, _ in news] == [("a", 0)]
    plan = at_once(sessions.plan(request("", (session, 2)), uses_topic_ids=False))
    assert [key for key, _ in plan.partitions] == [("b", 0), ("a", 0)]


def test_a_session_gets_an_id_that_no_other_has() -> None:
    drawn = [5.0, 5.0, 6.0]
    random_source = SimpleNamespace(uniform=lambda low, high: drawn.pop(0))
    sessions = SessionCache(clock=ManualClock(), random_source=cast("Any", random_source), slots=10)
    first = sessions._new_id()
    sessions._sessions[first] = object()  # type: ignore[assignment]
    assert (first, sessions._new_id()) == (5, 6)


def test_unchanged_partitions_do_not_complete_a_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that may not join in-sync sets is checked on each fetch."""
    monkeypatch.setattr(fetch_session, "CHECKED_AT_ONCE", 1)
    known: dict[Key, SessionPartition] = {
        ("t", index): SessionPartition(request=FetchPartition(partition=index), place=index) for index in range(3)
    }
    session = FetchSession(session_id=1, uses_topic_ids=False, follower=(2, 1), created_ms=0, last_used_ms=0)
    session.partitions.update(known)
    session.unread = dict.fromkeys(known, False)
    assert session.to_check({}) == ([(("t", 0), known["t", 0].request)], False)
    session.mark_unchecked(("t", 2))
    assert session.to_check({})[1]
    assert [key for key, _ in session.to_check({("t", 2): None})[0]] == [("t", 0), ("t", 2)]
    assert not session.to_check({("t", 2): None})[1]
