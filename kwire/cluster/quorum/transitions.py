"""Transitions between roles. README.md in this folder lists the legal ones.

Each function asserts that its transition is legal, creates the new role, and does what belongs to the change: it
forgets requests in flight, and answers delayed fetches with an error.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from kwire.cluster.quorum import answers
from kwire.cluster.quorum.config import CHECK_QUORUM_FACTOR, RECONFIGURABLE
from kwire.cluster.quorum.core import Core
from kwire.cluster.quorum.progress import Progress
from kwire.cluster.quorum.ready import ControlBatch
from kwire.cluster.quorum.roles import (
    NOT_WRITTEN,
    Ballot,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    VoterChange,
)
from kwire.cluster.quorum.state import NO_NODE
from kwire.cluster.quorum.voter_history import NOT_IN_LOG
from kwire.cluster.quorum.voters import Endpoints, ReplicaKey, VoterSet
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
)

logger = logging.getLogger(__name__)


def become_unattached(core: Core, epoch: int, leader_id: int = NO_NODE) -> None:
    """Wait without a leader, in a newer epoch or after a failed pre-vote."""
    assert epoch > core.epoch or isinstance(core.role, Prospective), f"unattached in epoch {epoch} of {core.epoch}"
    if epoch == core.epoch and leader_id == NO_NODE:
        leader_id = core.leader_id
    role = Unattached(election_deadline_ms=_election_deadline(core))
    _enter(core, role, epoch=epoch, leader_id=leader_id)
    logger.info("node %d is unattached in epoch %d", core.config.node_id, epoch)


def _election_deadline(core: Core) -> float:
    """Return the deadline of a running election, else a new one; a replica that sees many new epochs still votes."""
    if not core.can_be_candidate:
        return math.inf
    role = core.role
    is_lost = isinstance(role, Prospective) and role.ballot.is_lost
    if not isinstance(role, (Leader, Follower)) and not is_lost and math.isfinite(role.election_deadline_ms):
        return role.election_deadline_ms
    return core.now_ms + core.random_election_timeout_ms()


def add_vote(core: Core, candidate: ReplicaKey) -> None:
    """Give the one vote of this epoch, and wait a whole election timeout for the outcome."""
    role = core.role
    assert isinstance(role, (Unattached, Prospective)), "only a replica without a leader votes"
    assert core.voted is None, "one vote an epoch"
    assert candidate.node_id != core.config.node_id, "only a candidate votes for itself"
    state = core.state_with(epoch=core.epoch, leader_id=core.leader_id, voted=candidate)
    deadline = core.now_ms + core.random_election_timeout_ms()
    if isinstance(role, Prospective):
        endpoints = role.leader_endpoints
        role = Prospective(election_deadline_ms=deadline, ballot=own_ballot(core), leader_endpoints=endpoints)
        core.connections.reset()  # requests in flight belong to the previous ballot
    else:
        role = Unattached(election_deadline_ms=deadline if core.can_be_candidate else math.inf)
    core.transition(role, state)


def own_ballot(core: Core) -> Ballot:
    return Ballot(voters=core.voters, granted={core.config.node_id} if core.is_voter else set())


def become_prospective(core: Core) -> None:
    assert core.can_be_candidate, "observers do not stand for election"
    assert not isinstance(core.role, (Leader, Prospective)), f"prospective after {core.role}"
    endpoints = core.leader_endpoints if core.has_remote_leader else ()
    role = Prospective(
        election_deadline_ms=core.now_ms + core.random_election_timeout_ms(),
        ballot=own_ballot(core),
        leader_endpoints=endpoints,
    )
    logger.info("node %d asks whether it would be elected after epoch %d", core.config.node_id, core.epoch)
    _enter(core, role, epoch=core.epoch, leader_id=core.leader_id)
    if role.ballot.is_won:
        become_candidate(core)


def become_candidate(core: Core) -> None:
    assert core.can_be_candidate, "observers do not stand for election"
    assert isinstance(core.role, Prospective), "a pre-vote comes first (KIP-996)"
    role = Candidate(election_deadline_ms=core.now_ms + core.random_election_timeout_ms(), ballot=own_ballot(core))
    logger.info("node %d is a candidate in epoch %d", core.config.node_id, core.epoch + 1)
    _enter(core, role, epoch=core.epoch + 1, voted=core.config.key)
    if role.ballot.is_won:
        become_leader(core)


def become_leader(core: Core) -> None:
    candidate = core.role
    assert isinstance(candidate, Candidate), "only a candidate is elected"
    assert candidate.ballot.is_won, "a majority elects"
    granting = sorted(candidate.ballot.granted)
    role = Leader(
        granting_voters=granting,
        epoch_start_offset=core.log.end_offset,
        progress=Progress(core.config.key, core.voters),
        begin_quorum_ms=core.now_ms,
        check_quorum_deadline_ms=core.now_ms + CHECK_QUORUM_FACTOR * core.config.fetch_timeout_ms,
    )
    logger.info("node %d leads epoch %d, elected by %s", core.config.node_id, core.epoch, granting)
    _enter(core, role, epoch=core.epoch, leader_id=core.config.node_id)
    core.ready.append_control.append(ControlBatch(epoch=core.epoch, records=_first_records(core, granting)))


def _first_records(core: Core, granting: Sequence[int]) -> list[tuple[ControlRecordType, object]]:
    """Return the first records of an epoch: the leader, and the voters if they are missing or outdated in the log."""
    voters = core.voters
    change = LeaderChangeMessage(
        leader_id=core.config.node_id,
        voters=[LeaderChangeVoter(voter_id=node_id) for node_id in sorted(voters.ids)],
        granting_voters=[LeaderChangeVoter(voter_id=node_id) for node_id in granting],
    )
    records: list[tuple[ControlRecordType, object]] = [(ControlRecordType.LEADER_CHANGE, change)]
    if core.history.kraft_version < RECONFIGURABLE:
        return records
    updated = voters.update(core.config.voter) or voters  # a leader that was removed is not one of them
    # Voters from the bootstrap snapshot have an offset before the log's first one.
    if core.history.voters_offset == NOT_IN_LOG or updated != voters:
        version = KRaftVersionRecord(kraft_version=core.history.kraft_version)
        records.append((ControlRecordType.KRAFT_VERSION, version))
        records.append((ControlRecordType.KRAFT_VOTERS, updated.to_record()))
    return records


def become_follower(core: Core, epoch: int, leader_id: int, endpoints: Endpoints) -> None:
    """Follow another node that leads; called again when more of its endpoints become known."""
    assert leader_id != core.config.node_id, "a node does not follow itself"
    assert endpoints, "the address of a leader to follow is known"
    assert epoch > core.epoch or not isinstance(core.role, Leader), "two leaders in one epoch"
    now = core.now_ms
    role = Follower(
        leader_endpoints=endpoints,
        fetch_deadline_ms=now + core.config.fetch_timeout_ms,
        voter_update_ms=now + core.config.fetch_timeout_ms,
    )
    logger.info("node %d follows node %d in epoch %d", core.config.node_id, leader_id, epoch)
    _enter(core, role, epoch=epoch, leader_id=leader_id)


def become_resigned(core: Core) -> None:
    role = core.role
    assert isinstance(role, Leader), "only a leader resigns"
    logger.info("node %d resigns from epoch %d", core.config.node_id, core.epoch)
    resign_at_start(core, role.progress.successors())


def resign_at_start(core: Core, successors: list[ReplicaKey] | None = None) -> None:
    """Resign, or start as the former leader of an epoch that ended with the last run."""
    resigned = Resigned(
        election_deadline_ms=core.now_ms + core.random_election_timeout_ms(),
        unacknowledged=set(core.voters.ids - {core.config.node_id}),
        preferred_successors=successors or [],
    )
    _enter(core, resigned, epoch=core.epoch, leader_id=core.config.node_id)


def _enter(core: Core, role: Role, *, epoch: int, leader_id: int = NO_NODE, voted: ReplicaKey | None = None) -> None:
    before = core.role
    core.transition(role, core.state_with(epoch=epoch, leader_id=leader_id, voted=voted))
    core.connections.reset()
    if isinstance(before, Leader):
        if before.change is not None:
            finish_change(core, before, before.change, ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node leads no more")
        reject_parked(core)


def reject_parked(core: Core) -> None:
    """Answer delayed fetches with NOT_LEADER_OR_FOLLOWER."""
    parked, core.parked = core.parked, []
    for fetch in parked:
        core.answer(fetch.incoming, answers.fetch(core, fetch.incoming, ErrorCode.NOT_LEADER_OR_FOLLOWER))


def finish_change(core: Core, leader: Leader, change: VoterChange, error: ErrorCode, text: str | None = None) -> None:
    """Finish the addition or removal in progress; another one may begin."""
    leader.change = None
    if change.ack_when_committed or change.offset == NOT_WRITTEN:
        core.ready.answers.append(answers.voter_change(change, error, text))


def write_voters(core: Core, voters: VoterSet) -> None:
    """Append another voter set to the log: it is in effect as soon as it is written."""
    assert core.voters.overlaps_majority(voters), f"{core.voters} cannot become {voters} in one step"
    assert core.history.voters_offset < core.high_watermark, "one change at a time"
    record = (ControlRecordType.KRAFT_VOTERS, voters.to_record())
    core.ready.append_control.append(ControlBatch(epoch=core.epoch, records=[record]))
