"""Votes: each role, log and kind of vote (Q7), and outcomes that must never happen."""

from __future__ import annotations

from itertools import product

import pytest

from kwire.cluster.quorum.core import Core
from kwire.cluster.quorum.machine import Quorum
from kwire.cluster.quorum.roles import Ballot, Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from kwire.cluster.quorum.state import NO_NODE, QuorumState
from kwire.cluster.quorum.transitions import add_vote, become_follower, become_unattached
from kwire.cluster.quorum.voters import ReplicaKey, VoterSet
from kwire.cluster.quorum.voting import can_grant
from kwire.protocol.primitives import ZERO_UUID
from kwire.seams import SystemRandomSource
from tests.cluster.quorum.memory_log import MemoryLog
from tests.cluster.quorum.script import ScriptRunner
from tests.cluster.quorum.world import World, directory, endpoints, voter

CANDIDATE = ReplicaKey(2, directory(2))
VOTERS = VoterSet(voter(node_id) for node_id in (1, 2, 3))


def core_with(role: Role, *, leader: int = NO_NODE, voted: ReplicaKey | None = None, epoch: int = 5) -> Core:
    world = World()
    config = world.add_node(1).config
    state = QuorumState(
        leader_epoch=epoch,
        leader_id=leader,
        voted_id=voted.node_id if voted else NO_NODE,
        voted_directory_id=voted.directory_id if voted else ZERO_UUID,
    )
    quorum = Quorum(
        config=config,
        state=state,
        log=MemoryLog(),
        random_source=SystemRandomSource(1),
        records=[(-1, VOTERS.to_record())],
    )
    quorum._core.role = role
    return quorum._core


def unattached() -> Role:
    return Unattached(election_deadline_ms=1)


def prospective() -> Role:
    return Prospective(election_deadline_ms=1, ballot=Ballot(voters=VOTERS), leader_endpoints=())


def candidate() -> Role:
    return Candidate(election_deadline_ms=1, ballot=Ballot(voters=VOTERS))


def resigned() -> Role:
    return Resigned(election_deadline_ms=1, unacknowledged=set())


def follower(*, has_fetched: bool) -> Role:
    return Follower(leader_endpoints=endpoints(3), fetch_deadline_ms=1, voter_update_ms=1, has_fetched=has_fetched)


@pytest.mark.parametrize(("is_up_to_date", "is_pre_vote"), list(product([False, True], repeat=2)))
@pytest.mark.parametrize("made", [unattached, prospective])
def test_a_voter_without_a_leader_grants_votes_to_up_to_date_candidates(
    made: object, is_up_to_date: bool, is_pre_vote: bool
) -> None:
    core = core_with(unattached() if made is unattached else prospective())
    assert can_grant(core, CANDIDATE, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote) is is_up_to_date


@pytest.mark.parametrize(
    ("voted", "is_pre_vote", "is_granted"),
    [
        (CANDIDATE, False, True),
        (ReplicaKey(2, directory(2, 9)), False, False),
        (ReplicaKey(2), False, True),
        (ReplicaKey(3, directory(3)), False, False),
        (ReplicaKey(3, directory(3)), True, True),
    ],
)
@pytest.mark.parametrize("made", [unattached, prospective])
def test_a_voter_grants_only_the_candidate_that_it_voted_for(
    made: object, voted: ReplicaKey, is_pre_vote: bool, is_granted: bool
) -> None:
    core = core_with(unattached() if made is unattached else prospective(), voted=voted)
    assert can_grant(core, CANDIDATE, is_up_to_date=True, is_pre_vote=is_pre_vote) is is_granted


@pytest.mark.parametrize("is_pre_vote", [False, True])
def test_a_voter_that_knows_the_leader_id_grants_only_pre_votes(is_pre_vote: bool) -> None:
    core = core_with(unattached(), leader=3)
    assert can_grant(core, CANDIDATE, is_up_to_date=True, is_pre_vote=is_pre_vote) is is_pre_vote


@pytest.mark.parametrize(("is_up_to_date", "is_pre_vote"), list(product([False, True], repeat=2)))
def test_candidates_and_resigned_leaders_grant_only_pre_votes(is_up_to_date: bool, is_pre_vote: bool) -> None:
    for role in (candidate(), resigned()):
        granted = can_grant(core_with(role), CANDIDATE, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)
        assert granted is (is_up_to_date and is_pre_vote)


@pytest.mark.parametrize(("has_fetched", "is_up_to_date", "is_pre_vote"), list(product([False, True], repeat=3)))
def test_a_follower_grants_pre_votes_until_its_first_fetch_response(
    has_fetched: bool, is_up_to_date: bool, is_pre_vote: bool
) -> None:
    core = core_with(follower(has_fetched=has_fetched), leader=3)
    granted = can_grant(core, CANDIDATE, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)
    assert granted is (is_pre_vote and is_up_to_date and not has_fetched)


@pytest.mark.parametrize("is_pre_vote", [False, True])
def test_a_leader_grants_no_votes(is_pre_vote: bool) -> None:
    runner = ScriptRunner()
    runner.run("start voters=1")
    core = runner.quorum._core
    assert isinstance(core.role, Leader)
    assert not can_grant(core, CANDIDATE, is_up_to_date=True, is_pre_vote=is_pre_vote)


# --- ballots


def test_a_ballot_is_decided_by_a_majority() -> None:
    ballot = Ballot(voters=VOTERS, granted={1})
    assert not ballot.is_won
    assert [key.node_id for key in ballot.unrecorded] == [2, 3]
    ballot.record(9, is_granted=True)
    ballot.record(-2, is_granted=True)
    assert not ballot.is_won, "votes of non-voters do not count"
    ballot.record(2, is_granted=False)
    ballot.record(3, is_granted=False)
    assert ballot.is_lost


def test_a_later_vote_of_a_voter_replaces_its_rejection() -> None:
    ballot = Ballot(voters=VOTERS, granted={1}, rejected={2})
    ballot.record(2, is_granted=True)
    assert ballot.is_won


# --- what is asserted


def test_an_epoch_never_goes_back() -> None:
    core = core_with(unattached())
    with pytest.raises(AssertionError, match="epoch goes back"):
        core.transition(unattached(), QuorumState(leader_epoch=4))


def test_an_epoch_has_one_leader() -> None:
    core = core_with(follower(has_fetched=True), leader=3)
    with pytest.raises(AssertionError, match="two leaders"):
        become_follower(core, 5, 2, endpoints(2))


def test_an_epoch_has_one_vote() -> None:
    core = core_with(unattached(), voted=ReplicaKey(3, directory(3)))
    with pytest.raises(AssertionError, match="one vote"):
        add_vote(core, CANDIDATE)
    with pytest.raises(AssertionError, match="two votes"):
        core.transition(unattached(), QuorumState(leader_epoch=5, voted_id=2))


def test_a_follower_does_not_forget_its_leader_within_an_epoch() -> None:
    core = core_with(follower(has_fetched=True), leader=3)
    with pytest.raises(AssertionError, match="unattached in epoch"):
        become_unattached(core, 5)


def test_committed_records_are_never_truncated() -> None:
    runner = ScriptRunner()
    runner.run("start voters=1,2,3 log=1,1,1 state=1,2,-1")
    runner.run("reply 2 known=3")
    with pytest.raises(AssertionError, match="below the high watermark 3"):
        runner.run("reply 2 diverging=2@1")
