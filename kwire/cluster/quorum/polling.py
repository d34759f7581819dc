"""Actions of each role that become due with time. Each function does what is due and returns when to check again."""

from __future__ import annotations

import logging
import math

from kwire.cluster.quorum import requests
from kwire.cluster.quorum.config import RECONFIGURABLE
from kwire.cluster.quorum.core import Core, Reply
from kwire.cluster.quorum.epochs import announce, announce_resignation
from kwire.cluster.quorum.following import fetch_from_any, fetch_from_leader, follow_high_watermark
from kwire.cluster.quorum.leading import advance, answer_parked
from kwire.cluster.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kwire.cluster.quorum.transitions import become_prospective, become_resigned, become_unattached
from kwire.cluster.quorum.voter_changes import complete_change
from kwire.cluster.quorum.voting import end_pre_vote, request_votes
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kwire.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

logger = logging.getLogger(__name__)

ROUNDS_MAX = 10
"""Maximum roles that a replica may pass through in one step: a single voter needs four."""


def poll(core: Core) -> float:
    """Do all that is due at core.now_ms; return the time of the next due action."""
    for _ in range(ROUNDS_MAX):
        before = core.role
        deadline = _poll_role(core)
        if core.role is before:
            core.notify_leadership()
            return deadline
    raise AssertionError(f"the roles of {core.config.node_id} do not settle: {core.role}")


def _poll_role(core: Core) -> float:
    role = core.role
    if isinstance(role, Leader):
        return _poll_leader(core, role)
    if isinstance(role, Follower):
        return _poll_follower(core, role)
    if isinstance(role, Unattached):
        return _poll_unattached(core, role)
    if isinstance(role, Resigned):
        return _poll_resigned(core, role)
    return _poll_nominee(core, role)


def _poll_leader(core: Core, leader: Leader) -> float:
    leader.progress.leader_flushed(min(core.log.flushed_end_offset, core.log.end_offset))
    advance(core, leader)
    change_deadline = complete_change(core, leader)
    check_quorum = leader.check_quorum_deadline_ms if leader.progress.needs_followers else math.inf
    if core.is_shutting_down or leader.is_resigning or core.now_ms >= check_quorum:
        become_resigned(core)
        return core.now_ms
    parked_deadline = answer_parked(core)
    return min(change_deadline, check_quorum, parked_deadline, announce(core, leader))


def _poll_resigned(core: Core, role: Resigned) -> float:
    next_check_ms = announce_resignation(core, role)
    if core.is_shutting_down:
        return next_check_ms
    if core.now_ms >= role.election_deadline_ms:
        become_unattached(core, core.epoch + 1)
    return min(next_check_ms, role.election_deadline_ms)


def _poll_nominee(core: Core, role: Prospective | Candidate) -> float:
    if not core.can_be_candidate:
        become_unattached(core, core.epoch if isinstance(role, Prospective) else core.epoch + 1)
        return core.now_ms
    if core.is_shutting_down:
        # The election continues: a winner can resign, and another's victory ends it as well.
        return max(request_votes(core, role), core.now_ms + core.config.retry_backoff_ms)
    if core.now_ms >= role.election_deadline_ms:
        if isinstance(role, Prospective):
            end_pre_vote(core)
        else:
            become_prospective(core)
        return core.now_ms
    return request_votes(core, role)


def _poll_unattached(core: Core, role: Unattached) -> float:
    if core.can_be_candidate and math.isinf(role.election_deadline_ms):
        role.election_deadline_ms = core.now_ms + core.random_election_timeout_ms()
    if core.can_be_candidate and core.is_shutting_down:
        return math.inf
    if core.can_be_candidate and core.now_ms >= role.election_deadline_ms:
        become_prospective(core)
        return core.now_ms
    return min(role.election_deadline_ms, fetch_from_any(core))


def _poll_follower(core: Core, role: Follower) -> float:
    follow_high_watermark(core)
    if core.is_shutting_down:
        return math.inf
    is_late = core.now_ms >= role.fetch_deadline_ms
    if is_late and core.can_be_candidate:
        become_prospective(core)
        return core.now_ms
    if is_late:
        return fetch_from_any(core)
    _send_voter_update(core, role)
    return min(fetch_from_leader(core, role), role.fetch_deadline_ms)


# --- requests to the leader about this replica


def _send_voter_update(core: Core, role: Follower) -> None:
    """Request an update of endpoints, or joining, periodically in place of a fetch (KIP-853, KIP-1186)."""
    if core.now_ms < role.voter_update_ms or not core.is_log_durable:
        return
    leader = core.destination(core.leader_id, role.leader_endpoints)
    if leader is not None and core.connections.has_timed_out(leader.node_id, core.now_ms):
        return
    request = _next_voter_request(core, role)
    if request is None:
        role.voter_update_ms = core.now_ms + core.config.fetch_timeout_ms
    elif leader is not None and core.connections.ready_at_ms(leader.node_id) <= core.now_ms:
        role.voter_update_ms = core.now_ms + core.config.fetch_timeout_ms
        core.send(leader, request)


def _next_voter_request(
    core: Core, role: Follower
) -> UpdateRaftVoterRequest | AddRaftVoterRequest | RemoveRaftVoterRequest | None:
    is_reconfigurable = core.history.kraft_version >= RECONFIGURABLE
    own_voter = core.voters.get(core.config.node_id)
    if core.is_voter:
        is_changed = own_voter != core.config.voter if is_reconfigurable else not role.has_updated_leader
        return requests.update_voter(core) if is_changed else None
    if not (is_reconfigurable and core.config.can_become_voter and core.config.auto_join):
        return None
    if own_voter is not None:
        # The earlier voter has this id with another directory: it must be removed first.
        return requests.remove_voter(core, own_voter.key)
    return requests.add_voter(core)


def handle_update_voter_response(core: Core, reply: Reply) -> bool:
    response: UpdateRaftVoterResponse = reply.response
    error = ErrorCode(response.error_code)
    if not error and isinstance(core.role, Follower):
        core.role.has_updated_leader = True
    return error not in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)


def handle_change_response(core: Core, reply: Reply) -> bool:
    """Log a rejected change; it is requested again after a while if this replica is still not a voter."""
    response: AddRaftVoterResponse | RemoveRaftVoterResponse = reply.response
    if response.error_code:
        logger.info("node %d may not join the quorum yet: %s", core.config.node_id, ErrorCode(response.error_code).name)
    return response.error_code not in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)
