"""BeginQuorumEpoch and EndQuorumEpoch: a leader announces its leadership, or its resignation (KIP-595)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kwire.cluster.quorum import answers, requests
from kwire.cluster.quorum.core import Core, Incoming, Reply
from kwire.cluster.quorum.leaders import Outcome, consider_response, following, update_leader
from kwire.cluster.quorum.roles import Leader, Resigned
from kwire.cluster.quorum.voters import Endpoints, Listener
from kwire.cluster.quorum.voting import is_addressed_to
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochLeaderEndpoint,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from kwire.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochLeaderEndpoint,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochResponse,
)
from kwire.protocol.primitives import ZERO_UUID


def _claim(core: Core, leader_id: int, epoch: int, named: Endpoints) -> ErrorCode:
    """Process the claim of a node that it leads, or led, an epoch; return an error if it is invalid."""
    if epoch < core.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_id < 0 or leader_id == core.config.node_id or not core.is_plausible_epoch(epoch):
        return ErrorCode.INVALID_REQUEST
    endpoints = named or core.voters.endpoints(leader_id)
    return ErrorCode.NONE if update_leader(core, epoch, leader_id, endpoints) else ErrorCode.INVALID_REQUEST


def _endpoints(
    listeners: Sequence[BeginQuorumEpochLeaderEndpoint] | Sequence[EndQuorumEpochLeaderEndpoint],
) -> Endpoints:
    return tuple(Listener(it.name, it.host, it.port) for it in listeners)


def handle_begin_quorum_epoch(core: Core, incoming: Incoming) -> None:
    request: BeginQuorumEpochRequest = incoming.message
    requested = request.topics[0].partitions[0]
    error = _claim(core, requested.leader_id, requested.leader_epoch, _endpoints(request.leader_endpoints))
    if not error and not is_addressed_to(core, request.voter_id, requested.voter_directory_id):
        error = ErrorCode.INVALID_VOTER_KEY
    core.answer(incoming, answers.begin_quorum_epoch(core, incoming, error))


def handle_end_quorum_epoch(core: Core, incoming: Incoming) -> None:
    """Stop waiting for a leader that resigns; voters with longer logs become candidates first."""
    request: EndQuorumEpochRequest = incoming.message
    requested = request.topics[0].partitions[0]
    error = _claim(core, requested.leader_id, requested.leader_epoch, _endpoints(request.leader_endpoints))
    role = following(core)
    if not error and role is not None and core.leader_id == requested.leader_id:
        role.fetch_deadline_ms = core.now_ms + _succession_delay_ms(core, requested)
    core.answer(incoming, answers.end_quorum_epoch(core, incoming, error))


def _succession_delay_ms(core: Core, requested: EndQuorumEpochRequestPartitionData) -> float:
    """Return the delay by position in the successors: none for the first, then doubled for each further one."""
    mine = core.config.key
    if requested.preferred_candidates:
        keys = [(it.candidate_id, it.candidate_directory_id) for it in requested.preferred_candidates]
    else:
        keys = [(node_id, ZERO_UUID) for node_id in requested.preferred_successors]
    places = [
        place
        for place, (node_id, directory_id) in enumerate(keys)
        if node_id == mine.node_id and directory_id in (ZERO_UUID, mine.directory_id)
    ]
    longest = core.config.election_backoff_max_ms
    if not keys or places[:1] == [0]:
        return 0.0
    if not places:
        return float(longest)
    return float(min(longest, (longest >> (len(keys) - 1)) << (places[0] - 1)))


def handle_begin_quorum_epoch_response(core: Core, reply: Reply) -> bool:
    response: BeginQuorumEpochResponse = reply.response
    if response.error_code or not response.topics or not response.topics[0].partitions:
        return False
    partition = response.topics[0].partitions[0]
    error = ErrorCode(partition.error_code)
    outcome = consider_response(core, error, partition.leader_epoch, partition.leader_id, response.node_endpoints)
    return outcome is Outcome.HANDLED or (outcome is Outcome.CONTINUE and not error)


def handle_end_quorum_epoch_response(core: Core, reply: Reply) -> bool:
    response: EndQuorumEpochResponse = reply.response
    if response.error_code or not response.topics or not response.topics[0].partitions:
        return False
    partition = response.topics[0].partitions[0]
    error = ErrorCode(partition.error_code)
    outcome = consider_response(core, error, partition.leader_epoch, partition.leader_id, response.node_endpoints)
    if outcome is not Outcome.CONTINUE:
        return outcome is Outcome.HANDLED
    if not error and isinstance(core.role, Resigned):
        core.role.unacknowledged.discard(reply.source.node_id)
        core.role.unreachable.discard(reply.source.node_id)
    return not error


def announce(core: Core, leader: Leader) -> float:
    """Send BeginQuorumEpoch to the voters that do not fetch; return when to send it again."""
    if core.now_ms < leader.begin_quorum_ms:
        return leader.begin_quorum_ms
    period = core.config.fetch_timeout_ms / 2
    for voter in list(leader.progress.silent_voters(core.now_ms - period)):
        destination = core.destination(voter.node_id)
        if destination is not None:
            core.send(destination, requests.begin_quorum_epoch(core, voter))
    leader.begin_quorum_ms = core.now_ms + period
    return leader.begin_quorum_ms


def announce_resignation(core: Core, role: Resigned) -> float:
    """Send EndQuorumEpoch to the voters that have not acknowledged it; return when to check again."""
    wait_until = math.inf
    for voter_id in sorted(role.unacknowledged & core.voters.ids):
        destination = core.destination(voter_id)
        if destination is not None:
            wait_until = min(wait_until, core.send(destination, requests.end_quorum_epoch(core, role)))
    return wait_until
