"""Bugs in the quorum and its metadata log that seeds of the simulated quorum find: votes, epochs, commits.

Production code asserts many of the violated invariants. If an assertion only duplicates a rule of the simulation, the
bug removes it as well, because the simulation is the subject of this test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from kwire.cluster.metadata.image_records import records_of
from kwire.cluster.quorum import (
    epochs,
    following,
    leading,
    log_view,
    polling,
    requests,
    transitions,
    voter_changes,
    voting,
)
from kwire.cluster.quorum.core import Core
from kwire.cluster.quorum.log_view import OffsetAndEpoch, PositionCheck
from kwire.cluster.quorum.progress import Progress
from kwire.cluster.quorum.ready import ControlBatch, Leadership, Ready
from kwire.cluster.quorum.roles import Candidate, Follower, Leader, Resigned
from kwire.cluster.quorum.state import store_quorum_state
from kwire.cluster.quorum.voter_history import VoterHistory
from kwire.cluster.quorum.voters import ReplicaKey, VoterSet
from kwire.cluster.raft import raft_node, snapshotting
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.raft.raft_log import RaftLog
from kwire.cluster.raft.raft_node import RaftNode
from kwire.log.disk import Disk
from kwire.log.flushing import FlushJob
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.messages.fetch import FetchRequest
from tests.planted.bug import Catalogue, Plant, always, nothing

QUORUM_BUGS: Final = Catalogue()


def _bug(breaks: str) -> Callable[[Plant], Plant]:
    return QUORUM_BUGS.bug(breaks, "simulation/quorum.py")


# --- durable state


@_bug("Q2")
def votes_and_epochs_are_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """The quorum-state file is written but not synced: a power cut reverts a vote."""

    def store(disk: Disk, directory: str, state: Any) -> None:
        disk.replace(f"{directory}/quorum-state", state.to_bytes(), sync=False)

    patch.setattr(raft_node, "store_quorum_state", store)


@_bug("Q2")
def the_directory_of_quorum_state_is_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """The quorum-state file is synced but its rename is not: a power cut restores the previous file."""

    def store(disk: Disk, directory: str, state: Any) -> None:
        temporary = f"{directory}/quorum-state.tmp"
        disk.replace(temporary, state.to_bytes(), sync=False)
        disk.sync_file(temporary)
        disk.rename(temporary, f"{directory}/quorum-state")

    patch.setattr(raft_node, "store_quorum_state", store)


@_bug("Q2")
def quorum_state_is_stored_after_the_answer(patch: pytest.MonkeyPatch) -> None:
    """The vote is sent a few milliseconds before the quorum-state file is written."""
    carry_out = RaftNode._carry_out

    def late(node: RaftNode, ready: Ready) -> None:
        state, ready.store = ready.store, None
        carry_out(node, ready)
        if state is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(0.003, store_quorum_state, node._disk, node._directory, state)

    patch.setattr(RaftNode, "_carry_out", late)


@_bug("Q2")
def a_candidate_does_not_store_its_own_vote(patch: pytest.MonkeyPatch) -> None:
    """A candidate counts its own vote without storing it, and may vote for another candidate after a restart."""
    transition = Core.transition

    def forgetful(core: Core, role: Any, state: Any) -> None:
        before = core.ready.store
        transition(core, role, state)
        if isinstance(role, Candidate):
            core.ready.store = before

    patch.setattr(Core, "transition", forgetful)


@_bug("Q3")
def the_log_is_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """A flush completes without an fsync."""
    patch.setattr(FlushJob, "run", nothing)


@_bug("Q4")
def followers_confirm_before_their_fsync(patch: pytest.MonkeyPatch) -> None:
    """A follower fetches the next records before its last ones are durable."""

    def is_log_durable(core: Core) -> bool:
        return core.taken is None and core.ready.append_records is None and core.ready.truncate_to is None

    fetch = requests.fetch

    def fetch_from_the_end(core: Core) -> FetchRequest:
        request = fetch(core)
        request.topics[0].partitions[0].fetch_offset = core.log.end_offset
        return request

    patch.setattr(Core, "is_log_durable", property(is_log_durable))
    patch.setattr(requests, "fetch", fetch_from_the_end)


@_bug("Q4")
def the_leader_counts_what_it_has_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """The leader counts its own records up to its log end: they are acknowledged before its fsync."""
    poll = polling._poll_leader

    def eager(core: Core, leader: Leader) -> float:
        own = leader.progress.replica(core.config.key)
        own.end_offset = core.log.end_offset
        leading.advance(core, leader)
        leader.progress.leader_flushed = nothing  # type: ignore[method-assign]
        return poll(core, leader)

    patch.setattr(polling, "_poll_leader", eager)


# --- elections


@_bug("Q1")
def a_voter_votes_twice(patch: pytest.MonkeyPatch) -> None:
    """A voter grants a vote to every candidate, even if it has voted for another one in this epoch."""
    can_grant = voting.can_grant

    def generous(core: Core, candidate: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        if not is_pre_vote and not isinstance(core.role, (Leader, Follower)):
            return is_up_to_date
        return can_grant(core, candidate, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)

    def add_vote(core: Core, candidate: ReplicaKey) -> None:
        if not isinstance(core.role, (Candidate, Resigned)):
            transitions.add_vote(core, candidate)

    patch.setattr(voting, "can_grant", generous)
    patch.setattr(voting, "add_vote", add_vote)


@_bug("Q5")
def a_vote_goes_to_any_log(patch: pytest.MonkeyPatch) -> None:
    """A voter does not check that the candidate's log is as new as its own."""
    patch.setattr(OffsetAndEpoch, "is_as_new_as", always)


@_bug("Q5")
def the_longer_log_wins(patch: pytest.MonkeyPatch) -> None:
    """Logs are compared by length; the epoch of the last record is ignored."""

    def is_as_new_as(one: OffsetAndEpoch, other: OffsetAndEpoch) -> bool:
        return one.offset >= other.offset

    patch.setattr(OffsetAndEpoch, "is_as_new_as", is_as_new_as)


@_bug("Q7")
def a_pre_vote_is_granted_although_the_leader_lives(patch: pytest.MonkeyPatch) -> None:
    """A single follower that loses the leader deposes it, because followers of a live leader grant pre-votes."""
    can_grant = voting.can_grant

    def generous(core: Core, candidate: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        if is_pre_vote and isinstance(core.role, Follower):
            return is_up_to_date
        return can_grant(core, candidate, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)

    patch.setattr(voting, "can_grant", generous)


@_bug("Q9")
def a_leader_stays_leader_without_fetches(patch: pytest.MonkeyPatch) -> None:
    """Check-quorum is disabled: an isolated leader stays leader."""
    patch.setattr(Progress, "needs_followers", property(lambda _: False))


@_bug("Q8")
def a_wiped_disk_is_the_old_voter(patch: pytest.MonkeyPatch) -> None:
    """A replica is a voter by its id alone; its directory id is ignored."""

    def is_voter(voters: VoterSet, key: ReplicaKey) -> bool:
        return key.node_id in voters.ids

    def is_addressed_to(core: Core, voter_id: int, directory_id: Any) -> bool:
        return voter_id in (-1, core.config.node_id)

    patch.setattr(VoterSet, "is_voter", is_voter)
    for module in (voting, epochs):
        patch.setattr(module, "is_addressed_to", is_addressed_to)


# --- commits


@_bug("Q5")
def a_leader_serves_before_its_epoch_is_committed(patch: pytest.MonkeyPatch) -> None:
    """A leader serves as soon as it is elected, without records that earlier leaders acknowledged."""

    def early(core: Core) -> None:
        is_established = isinstance(core.role, Leader) and core.log.last_epoch == core.epoch
        now = Leadership(core.epoch, core.leader_id, is_established)
        if now != core._announced:
            core._announced = core.ready.leadership = now

    patch.setattr(Core, "notify_leadership", early)


@_bug("Q4")
def entries_of_an_old_epoch_are_committed_by_count(patch: pytest.MonkeyPatch) -> None:
    """Records on a majority count as committed even without a record of the leader's epoch (Raft, figure 8)."""

    def advance(core: Core, leader: Leader) -> None:
        offset = min(leader.progress.majority_end(), core.log.end_offset)
        if offset >= 0:
            leader.has_high_watermark = offset > leader.epoch_start_offset
            core.advance_high_watermark(offset)

    for module in (leading, polling):
        patch.setattr(module, "advance", advance)


@_bug("Q4")
def observers_count(patch: pytest.MonkeyPatch) -> None:
    """A majority over all fetching replicas, observers included, commits records."""

    def majority_end(progress: Progress) -> int:
        replicas = [*progress.voters.values(), *progress.observers.values()]
        ends = sorted((replica.end_offset for replica in replicas), reverse=True)
        return ends[len(progress.voters) // 2]

    patch.setattr(Progress, "majority_end", majority_end)


@_bug("Q4")
def one_less_than_a_majority_is_enough(patch: pytest.MonkeyPatch) -> None:
    """The high watermark needs only half of the other voters, without the leader."""

    def majority_end(progress: Progress) -> int:
        ends = sorted((replica.end_offset for replica in progress.voters.values()), reverse=True)
        return ends[(len(ends) - 1) // 2] if len(ends) != 3 else ends[0]

    patch.setattr(Progress, "majority_end", majority_end)


@_bug("Q3")
def followers_apply_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A follower uses its log end offset as the high watermark."""

    def follow(core: Core) -> None:
        if isinstance(core.role, Follower) and core.is_log_durable and core.role.has_fetched:
            core.advance_high_watermark(core.log.end_offset)

    patch.setattr(polling, "follow_high_watermark", follow)


@_bug("Q3")
def the_high_watermark_counts_before_logs_agree(patch: pytest.MonkeyPatch) -> None:
    """A follower takes the leader's high watermark from a response that requires a truncation."""
    take = following._apply_fetched

    def eager(core: Core, role: Follower, partition: Any) -> bool:
        role.high_watermark = max(role.high_watermark, partition.high_watermark)
        following.follow_high_watermark(core)
        return take(core, role, partition)

    patch.setattr(following, "_apply_fetched", eager)


@_bug("Q5")
def what_was_acknowledged_in_another_epoch_counts(patch: pytest.MonkeyPatch) -> None:
    """A deposed leader reports success to its waiting requests once another leader commits that offset."""
    give_way = MetadataLog._step_down

    def keep_waiters(log: MetadataLog) -> None:
        waiters, log._waiters = log._waiters, type(log._waiters)()
        give_way(log)
        log._waiters = waiters

    patch.setattr(MetadataLog, "_step_down", keep_waiters)


# --- divergence


@_bug("Q3")
def a_fetch_is_answered_without_looking_for_divergence(patch: pytest.MonkeyPatch) -> None:
    """The leader sends the records at the offset without a check of the epoch at the follower's log end."""
    check_position = log_view.check_position

    def trusting(log: Any, offset: int, last_epoch: int) -> PositionCheck:
        position = check_position(log, offset, last_epoch)
        if position.kind is log_view.Position.DIVERGING and offset <= log.end_offset:
            return PositionCheck(log_view.Position.VALID, OffsetAndEpoch(offset, last_epoch))
        return position

    patch.setattr(leading, "check_position", trusting)


@_bug("Q6")
def a_follower_cuts_back_to_its_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A follower of a new leader removes records above its high watermark that it has acknowledged (KIP-101)."""
    become_follower = transitions.become_follower

    def forgetful(core: Core, epoch: int, leader_id: int, endpoints: Any) -> None:
        is_new = epoch > core.epoch or core.leader_id != leader_id
        become_follower(core, epoch, leader_id, endpoints)
        point = max(core.high_watermark, core.log.start_offset)
        if is_new and point < core.log.end_offset and core.taken is None:
            core.truncate(point)
            core.history.truncate_to(point)

    for module in (transitions, voting):
        patch.setattr(module, "become_follower", forgetful)
    patch.setattr("kwire.cluster.quorum.leaders.become_follower", forgetful)


# --- voters


@_bug("Q8")
def voters_count_when_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    """A new voter set takes effect when it is committed, by the previous voters, and not when it is appended."""
    newest = VoterHistory.voters.fget  # type: ignore[attr-defined]
    advance = leading.advance

    def late(core: Core, leader: Leader) -> None:
        if core.history.voters_offset >= core.high_watermark >= 0 and leader.has_high_watermark:
            leader.progress.voters_changed(core.history.voters_at(core.history.voters_offset))
        else:
            leader.progress.voters_changed(newest(core.history))
        advance(core, leader)

    for module in (leading, polling):
        patch.setattr(module, "advance", late)


@_bug("Q8")
def voters_change_before_the_change_before_is_committed(patch: pytest.MonkeyPatch) -> None:
    """A leader writes voter sets without waiting for commits, so that the majorities of two may not overlap."""
    obstacle = voter_changes._obstacle

    def hasty(core: Core, leader: Leader, verb: str) -> Any:
        return obstacle(core, leader, verb) if not leader.has_high_watermark else None

    def write_voters(core: Core, voters: VoterSet) -> None:
        record = (ControlRecordType.KRAFT_VOTERS, voters.to_record())
        core.ready.append_control.append(ControlBatch(epoch=core.epoch, records=[record]))

    patch.setattr(voter_changes, "_obstacle", hasty)
    patch.setattr(voter_changes, "write_voters", write_voters)


@_bug("Q8")
def a_removed_leader_leads_on(patch: pytest.MonkeyPatch) -> None:
    """A leader that was removed from the voters does not resign when its removal is committed."""
    settle = voter_changes.complete_change

    def stay(core: Core, leader: Leader) -> float:
        was_resigning = leader.is_resigning
        deadline = settle(core, leader)
        if not core.is_voter:
            leader.is_resigning = was_resigning
        return deadline

    patch.setattr(polling, "complete_change", stay)


@_bug("Q8")
def a_cut_log_keeps_its_voters(patch: pytest.MonkeyPatch) -> None:
    """Voter sets in truncated records stay in effect."""
    patch.setattr(VoterHistory, "truncate_to", nothing)


# --- snapshots


@_bug("Q10")
def a_snapshot_has_the_epoch_of_the_day(patch: pytest.MonkeyPatch) -> None:
    """The name of a snapshot has the current epoch and not that of its last record."""
    make = snapshotting.Snapshotting.make

    async def misnamed(self: Any) -> Any:
        epoch = self._metadata_log.epoch
        patch.setattr(snapshotting, "OffsetAndEpoch", lambda offset, _: OffsetAndEpoch(offset, epoch))
        return await make(self)

    patch.setattr(snapshotting.Snapshotting, "make", misnamed)


@_bug("Q10")
def the_log_goes_before_its_snapshot_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Neither a snapshot nor its name is synced: after a power cut the log has no beginning."""

    def finish(log: RaftLog, snapshot_id: OffsetAndEpoch) -> None:
        assert log._part is not None
        log._part[1].close()
        log._part = None
        name = log._snapshot_path(snapshot_id)
        log._disk.rename(f"{name}.part", name)
        log._snapshots = sorted([*log._snapshots, snapshot_id])

    patch.setattr(RaftLog, "_finish_part", finish)


@_bug("Q11")
def a_snapshot_has_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A snapshot contains uncommitted records, but its name has the committed offset."""
    make = snapshotting.Snapshotting.make

    async def premature(self: Any) -> Any:
        newest = self._metadata_log.newest_image
        patch.setattr(snapshotting, "records_of", lambda _: records_of(newest))
        return await make(self)

    patch.setattr(snapshotting.Snapshotting, "make", premature)
