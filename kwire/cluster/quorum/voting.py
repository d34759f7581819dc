"""Votes and pre-votes: granting them, and counting the ones received (KIP-595, KIP-996)."""

from __future__ import annotations

import logging
from uuid import UUID

from kwire.cluster.quorum import answers, requests
from kwire.cluster.quorum.core import Core, Incoming, Reply
from kwire.cluster.quorum.leaders import Outcome, consider_response
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned
from kwire.cluster.quorum.state import NO_NODE
from kwire.cluster.quorum.transitions import (
    add_vote,
    become_candidate,
    become_follower,
    become_leader,
    become_unattached,
)
from kwire.cluster.quorum.voters import ReplicaKey
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.vote import VoteRequest, VoteRequestPartitionData, VoteResponse
from kwire.protocol.primitives import ZERO_UUID

logger = logging.getLogger(__name__)


def handle_vote(core: Core, incoming: Incoming) -> None:
    """Grant or reject a vote. A granted vote is the voter's only one in its epoch; a pre-vote changes nothing."""
    request: VoteRequest = incoming.message
    requested = request.topics[0].partitions[0]
    error = _rejection(core, requested)
    if error:
        core.answer(incoming, answers.vote(core, incoming, error))
        return
    if requested.replica_epoch > core.epoch:
        become_unattached(core, requested.replica_epoch)
    if not is_addressed_to(core, request.voter_id, requested.voter_directory_id):
        core.answer(incoming, answers.vote(core, incoming, ErrorCode.INVALID_VOTER_KEY))
        return
    candidate = ReplicaKey(requested.replica_id, requested.replica_directory_id)
    is_up_to_date = OffsetAndEpoch(requested.last_offset, requested.last_offset_epoch).is_as_new_as(core.end)
    is_granted = can_grant(core, candidate, is_up_to_date=is_up_to_date, is_pre_vote=requested.pre_vote)
    if is_granted and not requested.pre_vote and core.voted is None:
        add_vote(core, candidate)
    logger.info(
        "node %d %s node %d a %s for epoch %d",
        *(core.config.node_id, "grants" if is_granted else "rejects", requested.replica_id),
        *("pre-vote" if requested.pre_vote else "vote", requested.replica_epoch),
    )
    core.answer(incoming, answers.vote(core, incoming, ErrorCode.NONE, is_granted=is_granted))


def _rejection(core: Core, requested: VoteRequestPartitionData) -> ErrorCode:
    # A candidate's epoch is new; a pre-vote is requested in the current epoch, which the last record may have.
    newest = requested.replica_epoch if requested.pre_vote else requested.replica_epoch - 1
    if requested.last_offset < 0 or requested.last_offset_epoch < 0 or requested.last_offset_epoch > newest:
        return ErrorCode.INVALID_REQUEST
    if requested.replica_epoch < core.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if (
        requested.replica_id < 0
        or requested.replica_id == core.config.node_id
        or not core.is_plausible_epoch(requested.replica_epoch)
    ):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def is_addressed_to(core: Core, voter_id: int, directory_id: UUID) -> bool:
    """Return True if a request is for this replica; old versions, and voters known by id alone, name no directory."""
    if voter_id < 0:
        return True
    return voter_id == core.config.node_id and directory_id in (ZERO_UUID, core.config.directory_id)


def can_grant(core: Core, candidate: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
    """Return True if this replica may grant the vote, by its role; the request has this replica's epoch."""
    role = core.role
    if isinstance(role, Leader):
        return False
    if isinstance(role, Follower):
        return is_pre_vote and not role.has_fetched and is_up_to_date
    if is_pre_vote:
        return is_up_to_date
    if isinstance(role, (Candidate, Resigned)):
        return False
    voted = core.voted
    if voted is not None:
        return voted.node_id == candidate.node_id and voted.directory_id in (ZERO_UUID, candidate.directory_id)
    return core.leader_id == NO_NODE and is_up_to_date


def handle_vote_response(core: Core, reply: Reply) -> bool:
    """Count a vote; return True if the peer's response was valid."""
    response: VoteResponse = reply.response
    role = core.role
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and isinstance(role, Prospective):
        become_candidate(core)  # the peer does not support pre-votes: skip them
        return True
    if response.error_code or not response.topics or not response.topics[0].partitions:
        return False
    partition = response.topics[0].partitions[0]
    error = ErrorCode(partition.error_code)
    outcome = consider_response(core, error, partition.leader_epoch, partition.leader_id, response.node_endpoints)
    if outcome is not Outcome.CONTINUE:
        return outcome is Outcome.HANDLED
    if error:
        return False
    is_pre_vote = reply.request.topics[0].partitions[0].pre_vote
    role = core.role
    if isinstance(role, Prospective if is_pre_vote else Candidate):
        _count(core, reply.source.node_id, is_granted=partition.vote_granted)
    return True


def _count(core: Core, voter_id: int, *, is_granted: bool) -> None:
    role = core.role
    assert isinstance(role, (Prospective, Candidate))
    role.ballot.record(voter_id, is_granted=is_granted)
    if role.ballot.is_won:
        if isinstance(role, Prospective):
            become_candidate(core)
        else:
            become_leader(core)
    elif role.ballot.is_lost and isinstance(role, Prospective):
        end_pre_vote(core)


def end_pre_vote(core: Core) -> None:
    """End a failed pre-vote: follow the known leader again, or wait without one."""
    role = core.role
    assert isinstance(role, Prospective)
    if core.has_remote_leader and role.leader_endpoints:
        become_follower(core, core.epoch, core.leader_id, role.leader_endpoints)
    else:
        become_unattached(core, core.epoch, core.leader_id)


def request_votes(core: Core, role: Prospective | Candidate) -> float:
    """Request votes from the voters that have not answered; return when to check again."""
    wait_until = role.election_deadline_ms
    if role.ballot.is_lost:
        return wait_until
    for voter in role.ballot.unrecorded:
        destination = core.destination(voter.node_id)
        if destination is not None:
            request = requests.vote(core, voter, is_pre_vote=isinstance(role, Prospective))
            wait_until = min(wait_until, core.send(destination, request))
    return wait_until
