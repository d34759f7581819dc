"""Pitfall 6: no unnecessary rebalance, no member lost in concurrent rebalances; empty assignments are valid."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.raw.group_member import GroupMember, subscription
from kwire.protocol.error_codes import ErrorCode


@pytest.fixture
def member(bootstrap, group):
    """Return a function that makes members of one group; their connections are closed at the end."""
    made = []

    def make(**settings):
        made.append(GroupMember(bootstrap, group, **settings))
        return made[-1]

    yield make
    for each in made:
        each.socket.close()


@pytest.mark.short
def test_each_join_costs_one_generation(member):
    first = member()
    assert (first.join().error_code, first.generation, first.is_leader) == (0, 1, True)
    assert first.sync({first.member_id: b"all"}).assignment == b"all"
    assert first.heartbeat() == 0
    second = member()
    second.begin_to_join()
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "the news of a rebalance")
    first.send_join()
    answers = first.receive_join(), second.receive_join()
    assert [(each.error_code, each.generation_id) for each in answers] == [(0, 2), (0, 2)]
    assert first.is_leader
    assert {each.member_id for each in answers[0].members} == {first.member_id, second.member_id}
    assert answers[1].members == []


def live(own, members, seen):
    """Act like a client until all members have an assignment in one generation."""
    while not own.settled:
        seen.add(own.join().error_code)
        given = {each.member_id: each.member_id.encode() for each in own.members} if own.is_leader else {}
        seen.add(own.sync(given).error_code)
        own.settled = True
        while own.settled and not all(each.settled and each.generation == own.generation for each in members):
            code = own.heartbeat()
            seen.add(code)
            own.settled = code == 0


def test_five_members_that_come_at_once_end_in_one_generation_without_losses(member):
    members, seen = [member() for _ in range(5)], set()
    with ThreadPoolExecutor(5) as pool:
        for future in [pool.submit(live, each, members, seen) for each in members]:
            future.result(60)
    assert seen <= {0, ErrorCode.REBALANCE_IN_PROGRESS}
    assert len({each.generation for each in members}) == 1
    assert members[0].generation <= 6
    assert [each.sync().assignment for each in members] == [each.member_id.encode() for each in members]


def test_a_follower_that_joins_again_unchanged_gets_the_same_generation(member):
    first, second = member(), member()
    first.join()
    second.begin_to_join()
    leader = rebalance_with_waiting(first, second)
    follower = second if leader is first else first
    generation = follower.generation
    assert (follower.join_once().error_code, follower.generation) == (0, generation)
    assert leader.heartbeat() == 0


def rebalance_with_waiting(first, second):
    """Complete a rebalance that the second member's pending join started; the first learns of it by its heartbeat."""
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "the news of a rebalance")
    first.send_join()
    assert (first.receive_join().error_code, second.receive_join().error_code) == (0, 0)
    leader, follower = (first, second) if first.is_leader else (second, first)
    given = {leader.member_id: b"a", follower.member_id: b"b"}
    assert leader.sync(given).assignment == b"a"
    assert follower.sync().assignment == b"b"
    return leader


def test_a_leader_that_joins_again_starts_a_rebalance(member):
    only = member()
    only.join()
    only.sync({only.member_id: b"x"})
    assert (only.join_once().error_code, only.generation) == (0, 2)


@pytest.mark.short
@pytest.mark.parametrize("version", range(6))
def test_a_member_without_assignment_gets_an_empty_one(member, version):
    only = member()
    only.join()
    answer = only.sync({}, version)
    assert (answer.error_code, answer.assignment) == (0, b"")
    if version == 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert only.heartbeat() == 0


def test_a_protocol_that_all_members_know_is_chosen(member):
    notes = [subscription(b"%d" % number) for number in range(4)]
    first = member(protocols=(("sticky", notes[0]), ("range", notes[1])))
    first.join()
    second = member(protocols=(("range", notes[2]),))
    second.begin_to_join()
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "the news of a rebalance")
    first.send_join()
    answers = first.receive_join(), second.receive_join()
    assert {each.protocol_name for each in answers} == {"range"}
    assert {each.metadata for each in answers[0].members} == {notes[1], notes[2]}
    other = member(protocols=(("other", notes[3]),))
    assert other.join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_wrong_generations_and_members_are_rejected(member):
    only = member()
    only.join()
    only.sync({})
    only.generation += 1
    assert (only.heartbeat(), only.sync().error_code) == (ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION)
    only.generation -= 1
    known, only.member_id = only.member_id, "nobody"
    assert (only.heartbeat(), only.sync().error_code) == (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)
    assert (only.join_once().error_code, only.leave()) == (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)
    only.member_id = known
    assert only.heartbeat() == 0


@pytest.mark.parametrize("version", range(6))
def test_leave_group_removes_a_member_at_once(member, version):
    first, second = member(), member()
    first.join()
    second.begin_to_join()
    leader = rebalance_with_waiting(first, second)
    follower = second if leader is first else first
    assert follower.leave(version) == 0
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert (leader.join_once().error_code, leader.generation) == (0, 3)
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_ms", [10, 10_000_000])
def test_session_timeouts_have_bounds(member, session_ms):
    assert member(session_ms=session_ms).join().error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_an_empty_group_id_is_rejected(bootstrap):
    with GroupMember(bootstrap, "") as nameless:
        assert nameless.join_once().error_code == ErrorCode.INVALID_GROUP_ID
