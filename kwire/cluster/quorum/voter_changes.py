"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter: the leader changes the voter set, one voter at a time (KIP-853).

A change does not wait for others. If another change is in progress, or the epoch has not committed a record, the
request fails with REQUEST_TIMED_OUT, and the client retries. The leader first asks an added voter for its supported
versions (ApiVersions).
"""

from __future__ import annotations

import logging

from kwire.cluster.quorum import answers
from kwire.cluster.quorum.answers import TOPIC
from kwire.cluster.quorum.config import RECONFIGURABLE
from kwire.cluster.quorum.core import Core, Incoming, Reply
from kwire.cluster.quorum.leading import leader_rejection
from kwire.cluster.quorum.ready import Destination
from kwire.cluster.quorum.roles import NOT_WRITTEN, Leader, VoterChange
from kwire.cluster.quorum.transitions import finish_change, write_voters
from kwire.cluster.quorum.voters import Listener, ReplicaKey, Voter, VoterSet, endpoint_of
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kwire.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from kwire.protocol.primitives import ZERO_UUID

logger = logging.getLogger(__name__)

KRAFT_VERSION = "kraft.version"
Rejection = tuple[ErrorCode, str]


def _obstacle(core: Core, leader: Leader, verb: str) -> Rejection | None:
    """Return the reason why no change of voters is possible now; None if one is."""
    if leader.change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader is at work on an earlier change of voters"
    if not leader.has_high_watermark:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed a record of its epoch yet"
    version = core.history.kraft_version
    if version < RECONFIGURABLE:
        return ErrorCode.UNSUPPORTED_VERSION, f"voters cannot be {verb}: {KRAFT_VERSION} is {version}"
    if core.history.voters_offset >= core.high_watermark:
        text = f"the voters of offset {core.history.voters_offset} are not committed yet, {core.high_watermark} is"
        return ErrorCode.REQUEST_TIMED_OUT, text
    return None


# --- adding


def handle_add_voter(core: Core, incoming: Incoming) -> None:
    request: AddRaftVoterRequest = incoming.message
    endpoints = tuple(Listener(it.name, it.host, it.port) for it in request.listeners)
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    rejected = _reject_addition(core, key, endpoint_of(endpoints, core.config.listener))
    if rejected is not None:
        core.answer(incoming, AddRaftVoterResponse(error_code=rejected[0], error_message=rejected[1]))
        return
    leader = core.role
    assert isinstance(leader, Leader)
    destination = core.destination(key.node_id, endpoints)
    assert destination is not None
    if core.connections.ready_at_ms(key.node_id) > core.now_ms:
        text = f"the leader cannot send a request to the new voter {key.node_id} yet; try again"
        response = AddRaftVoterResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=text)
        core.answer(incoming, response)
        return
    leader.change = VoterChange(
        token=incoming.token,
        is_addition=True,
        ack_when_committed=request.ack_when_committed,
        key=key,
        endpoints=endpoints,
        deadline_ms=core.send(destination, ApiVersionsRequest()),
    )


def _reject_addition(core: Core, key: ReplicaKey, endpoint: Listener | None) -> Rejection | None:
    error = leader_rejection(core, core.epoch)
    if error:
        return error, error.meaning
    if key.node_id < 0 or key.directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "a voter has an id and a directory id"
    if endpoint is None:
        text = f"the new voter does not say where its listener {core.config.listener} is"
        return ErrorCode.INVALID_REQUEST, text
    assert isinstance(core.role, Leader)
    obstacle = _obstacle(core, core.role, "added")
    if obstacle is None and key.node_id in core.voters.ids:
        return ErrorCode.DUPLICATE_VOTER, f"{key.node_id} is one of the voters {sorted(core.voters.ids)} already"
    return obstacle


def handle_api_versions_response(core: Core, reply: Reply) -> bool:
    """Process the versions that the new voter supports: add it to the voter set if they and its log suffice."""
    response: ApiVersionsResponse = reply.response
    leader = core.role
    if not isinstance(leader, Leader) or leader.change is None:
        return True
    change = leader.change
    if not change.is_addition or change.offset != NOT_WRITTEN or change.key.node_id != reply.source.node_id:
        return True
    if response.error_code:
        text = f"the new voter answers {ErrorCode(response.error_code).name}"
        finish_change(core, leader, change, ErrorCode.REQUEST_TIMED_OUT, text)
        return False
    range_ = next((it for it in response.supported_features if it.name == KRAFT_VERSION), None)
    lowest, highest = (range_.min_version, range_.max_version) if range_ is not None else (0, 0)
    version = core.history.kraft_version
    voter = Voter(key=change.key, endpoints=change.endpoints, min_kraft_version=lowest, max_kraft_version=highest)
    if not voter.supports(version):
        text = f"the new voter supports {KRAFT_VERSION} {lowest} to {highest}, not {version}"
        finish_change(core, leader, change, ErrorCode.INVALID_REQUEST, text)
    elif not leader.progress.is_caught_up(change.key, core.now_ms):
        finish_change(core, leader, change, ErrorCode.REQUEST_TIMED_OUT, "the new voter's log is far behind")
    else:
        voters = core.voters.add(voter)
        assert voters is not None, "no other change came between"
        change.deadline_ms = core.now_ms + core.config.request_timeout_ms
        write_voters(core, voters)
    return True


# --- removing


def handle_remove_voter(core: Core, incoming: Incoming) -> None:
    request: RemoveRaftVoterRequest = incoming.message
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    voters = core.voters.remove(key)
    rejected = _reject_removal(core, key, voters)
    if rejected is not None:
        core.answer(incoming, RemoveRaftVoterResponse(error_code=rejected[0], error_message=rejected[1]))
        return
    leader = core.role
    assert isinstance(leader, Leader)
    assert voters is not None
    leader.change = VoterChange(
        token=incoming.token,
        is_addition=False,
        key=key,
        deadline_ms=core.now_ms + core.config.request_timeout_ms,
    )
    write_voters(core, voters)


def _reject_removal(core: Core, key: ReplicaKey, voters: VoterSet | None) -> Rejection | None:
    error = leader_rejection(core, core.epoch)
    if error:
        return error, error.meaning
    if key.node_id < 0 or key.directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "a voter has an id and a directory id"
    assert isinstance(core.role, Leader)
    obstacle = _obstacle(core, core.role, "removed")
    if obstacle is None and voters is None:
        return ErrorCode.VOTER_NOT_FOUND, f"{key.node_id} with that directory is no voter, or the only one"
    return obstacle


# --- updating


def handle_update_voter(core: Core, incoming: Incoming) -> None:
    """Update a voter's endpoints or versions; answered at once, and the voter retries after a failure."""
    request: UpdateRaftVoterRequest = incoming.message
    core.answer(incoming, answers.update_voter(core, incoming, _update(core, request)))


def _update(core: Core, request: UpdateRaftVoterRequest) -> ErrorCode:
    error = leader_rejection(core, request.current_leader_epoch)
    if error:
        return error
    leader = core.role
    assert isinstance(leader, Leader)
    feature = request.kraft_version_feature
    voter = Voter(
        key=ReplicaKey(request.voter_id, request.voter_directory_id),
        endpoints=tuple(Listener(it.name, it.host, it.port) for it in request.listeners),
        min_kraft_version=feature.min_supported_version,
        max_kraft_version=feature.max_supported_version,
    )
    if not _is_sound(core, voter):
        return ErrorCode.INVALID_REQUEST
    if core.history.kraft_version < RECONFIGURABLE:
        # Version 0 has no record for it: keep it for an upgrade of kraft.version.
        if not core.voters.is_voter(voter.key):
            return ErrorCode.VOTER_NOT_FOUND
        leader.claimed_voters[voter.key.node_id] = voter
        return ErrorCode.NONE
    obstacle = _obstacle(core, leader, "updated")
    if obstacle is not None:
        return obstacle[0]
    voters = core.voters.update(voter)
    if voters is None:
        return ErrorCode.VOTER_NOT_FOUND
    if voters != core.voters:
        write_voters(core, voters)
    return ErrorCode.NONE


def _is_sound(core: Core, voter: Voter) -> bool:
    lowest, highest = voter.min_kraft_version, voter.max_kraft_version
    return (
        voter.key.node_id >= 0
        and voter.key.directory_id != ZERO_UUID
        and endpoint_of(voter.endpoints, core.config.listener) is not None
        and 0 <= lowest <= highest
        and voter.supports(core.history.kraft_version)
    )


# --- progress over time


def voters_written(core: Core, offset: int) -> None:
    """Process that the record of a voter change is in the log."""
    leader = core.role
    if isinstance(leader, Leader):
        leader.progress.voters_changed(core.voters)
        change = leader.change
        if change is not None and change.offset == NOT_WRITTEN:
            change.offset = offset
            if not change.ack_when_committed:
                core.ready.answers.append(answers.voter_change(change, ErrorCode.NONE, None))


def complete_change(core: Core, leader: Leader) -> float:
    """Finish a committed or timed-out change; resign if this leader was removed. Return the change's deadline."""
    change = leader.change
    if change is not None and change.offset != NOT_WRITTEN and core.high_watermark > change.offset:
        leader.change = None
        if change.ack_when_committed:
            core.ready.answers.append(answers.voter_change(change, ErrorCode.NONE, None))
    elif change is not None and core.now_ms >= change.deadline_ms:
        leader.change = None
        if change.ack_when_committed or change.offset == NOT_WRITTEN:
            text = "the change was not committed in time; it may still be"
            core.ready.answers.append(answers.voter_change(change, ErrorCode.REQUEST_TIMED_OUT, text))
    if core.history.voters_offset < core.high_watermark and leader.has_high_watermark and not core.is_voter:
        logger.info("node %d is no longer a voter of %s", core.config.node_id, TOPIC)
        leader.is_resigning = True
    return leader.change.deadline_ms if leader.change is not None else float("inf")


def new_voter_unreachable(core: Core, destination: Destination) -> None:
    """Fail the addition of a voter that could not be asked for its versions."""
    leader = core.role
    if isinstance(leader, Leader) and leader.change is not None and leader.change.offset == NOT_WRITTEN:
        change = leader.change
        if change.is_addition and change.key.node_id == destination.node_id:
            finish_change(core, leader, change, ErrorCode.REQUEST_TIMED_OUT, "the new voter cannot be reached")
