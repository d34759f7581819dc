"""Voter sets, their history, positions in logs, and the progress of replicas."""

from __future__ import annotations

import pytest

from kwire.cluster.quorum.config import OBSERVERS_MAX
from kwire.cluster.quorum.log_view import OffsetAndEpoch, Position, check_position, truncation_point
from kwire.cluster.quorum.progress import Progress
from kwire.cluster.quorum.voter_history import VoterHistory, quorum_records
from kwire.cluster.quorum.voters import Listener, ReplicaKey, VoterSet
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.messages.control_records import KRaftVersionRecord
from tests.cluster.quorum.memory_log import Content, MemoryLog
from tests.cluster.quorum.world import LISTENER, directory, voter


def voters(*ids: int) -> VoterSet:
    return VoterSet(voter(node_id) for node_id in ids)


# --- sets


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_the_majority_of_each_voter_count(count: int, majority: int) -> None:
    assert voters(*range(count)).majority == majority


def test_a_voter_is_its_id_and_its_directory() -> None:
    some = voters(1, 2, 3)
    assert some.is_voter(ReplicaKey(1, directory(1)))
    assert not some.is_voter(ReplicaKey(1, directory(1, 1))), "another disk"
    assert not some.is_voter(ReplicaKey(4, directory(4)))
    static = VoterSet.static([(1, "a", 1)], LISTENER)
    assert static.is_only_voter(ReplicaKey(1, directory(1))), "the directory is not known"


def test_invalid_voter_changes_return_none() -> None:
    some = voters(1, 2)
    assert some.add(voter(2, disk=1)) is None
    assert some.remove(ReplicaKey(2, directory(2, 1))) is None
    assert some.remove(ReplicaKey(3, directory(3))) is None
    assert voters(1).remove(ReplicaKey(1, directory(1))) is None
    assert some.update(voter(3)) is None


def test_one_voter_more_or_less_keeps_majorities_together() -> None:
    some = voters(1, 2, 3)
    assert some.overlaps_majority(some)
    assert some.overlaps_majority(voters(1, 2, 3, 4))
    assert some.overlaps_majority(voters(1, 3))
    assert not some.overlaps_majority(voters(1, 2, 3, 4, 5))
    assert not some.overlaps_majority(voters(1, 2, 4))
    assert not some.overlaps_majority(VoterSet([voter(1), voter(2), voter(3, disk=1)])), "another disk is another voter"


def test_a_set_survives_its_record() -> None:
    some = voters(1, 2, 3)
    assert VoterSet.from_record(some.to_record()) == some
    assert next(iter(some)).endpoints == (Listener(LISTENER, "node1", 9001),)


# --- history


def test_a_history_is_cut_back_with_the_log() -> None:
    history = VoterHistory()
    history.add(1, KRaftVersionRecord(kraft_version=1))
    history.add(2, voters(1).to_record())
    history.add(7, voters(1, 2).to_record())
    assert history.voters == voters(1, 2)
    assert history.voters_at(7) == voters(1)
    assert history.voters_at(8) == voters(1, 2)
    history.truncate_to(7)
    assert (history.voters, history.voters_offset) == (voters(1), 2)
    history.truncate_to(1)
    assert (history.voters, history.kraft_version) == (VoterSet(), 0)


def test_a_history_forgets_what_a_snapshot_holds() -> None:
    history = VoterHistory()
    for offset, some in ((2, voters(1)), (7, voters(1, 2)), (12, voters(1, 2, 3))):
        history.add(offset, some.to_record())
    history.remove_before(9)
    assert history.voters_at(10) == voters(1, 2)
    history.truncate_to(12)
    assert history.voters == voters(1, 2)
    history.restart(50, [KRaftVersionRecord(kraft_version=1), voters(4).to_record()])
    assert (history.voters, history.voters_offset, history.kraft_version) == (voters(4), 49, 1)


def test_records_of_the_quorum_are_found_in_what_was_appended() -> None:
    log = MemoryLog()
    log.append(1, "value")
    log.append_control(1, [(ControlRecordType.KRAFT_VOTERS, voters(1).to_record())])
    log.append_control(1, [(ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=1))])
    whole = log.read(0)
    assert [offset for offset, _ in quorum_records(whole)] == [1, 2]
    assert [offset for offset, _ in quorum_records(whole + b"\xff" * 80, begin=1, end=2)] == [1]


# --- positions


def log_of(*epochs: int, snapshot: OffsetAndEpoch | None = None) -> MemoryLog:
    log = MemoryLog()
    if snapshot is not None:
        log.snapshots[snapshot] = b""
        log.now = Content((), snapshot.offset)
    for epoch in epochs:
        log.append(epoch, "value")
    log.flush()
    return log


@pytest.mark.parametrize(
    ("offset", "epoch", "kind", "at"),
    [
        (0, 0, Position.VALID, (0, 0)),
        (2, 1, Position.VALID, (2, 1)),
        (3, 3, Position.VALID, (3, 3)),
        (4, 3, Position.DIVERGING, (3, 3)),
        (3, 1, Position.DIVERGING, (2, 1)),
        (3, 2, Position.DIVERGING, (2, 1)),
        (9, 9, Position.DIVERGING, (3, 3)),
    ],
)
def test_positions_in_a_whole_log(offset: int, epoch: int, kind: Position, at: tuple[int, int]) -> None:
    check = check_position(log_of(1, 1, 3), offset, epoch)
    assert (check.kind, check.at) == (kind, at)


@pytest.mark.parametrize(
    ("offset", "epoch", "kind", "at"),
    [
        (0, 0, Position.SNAPSHOT, (10, 2)),
        (9, 2, Position.SNAPSHOT, (10, 2)),
        (10, 1, Position.SNAPSHOT, (10, 2)),
        (12, 1, Position.SNAPSHOT, (10, 2)),
        (10, 2, Position.VALID, (10, 2)),
        (12, 3, Position.VALID, (12, 3)),
        (12, 2, Position.DIVERGING, (11, 2)),
    ],
)
def test_positions_in_a_log_behind_a_snapshot(offset: int, epoch: int, kind: Position, at: tuple[int, int]) -> None:
    check = check_position(log_of(2, 3, snapshot=OffsetAndEpoch(10, 2)), offset, epoch)
    assert (check.kind, check.at) == (kind, at)


@pytest.mark.parametrize(
    ("diverging", "point"),
    [((2, 1), 2), ((9, 1), 2), ((1, 1), 1), ((9, 2), 2), ((0, 0), 0), ((4, 3), 4)],
)
def test_the_truncation_point_of_a_diverging_epoch(diverging: tuple[int, int], point: int) -> None:
    assert truncation_point(log_of(1, 1, 3, 3), OffsetAndEpoch(*diverging)) == point


# --- progress


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, directory(node_id))


def test_a_majority_has_what_its_slowest_member_has() -> None:
    progress = Progress(key(1), voters(1, 2, 3))
    progress.leader_flushed(10)
    assert progress.majority_end() == -1
    progress.replica(key(2)).fetched(7, 10, 0)
    assert progress.majority_end() == 7
    progress.replica(key(3)).fetched(9, 10, 0)
    assert progress.majority_end() == 9
    progress.replica(ReplicaKey(3, directory(3, 1))).fetched(10, 10, 0)
    assert progress.majority_end() == 9, "another disk is an observer"


def test_a_leader_that_is_no_voter_does_not_count_itself() -> None:
    progress = Progress(key(1), voters(1, 2, 3))
    progress.leader_flushed(10)
    progress.replica(key(2)).fetched(7, 10, 0)
    progress.voters_changed(voters(2, 3))
    assert progress.majority_end() == -1
    progress.replica(key(3)).fetched(5, 10, 0)
    assert progress.majority_end() == 5
    assert not progress.record_fetch(key(2))
    assert progress.record_fetch(key(3))


def test_a_replica_is_caught_up_as_of_the_end_that_it_was_shown() -> None:
    progress = Progress(key(1), voters(1))
    observer = progress.replica(key(4))
    observer.fetched(0, 10, 1000)
    assert not progress.is_caught_up(key(4), 1000)
    observer.fetched(10, 15, 2000)
    assert observer.last_caught_up_ms == 1000, "then it asked for the end of then"
    assert progress.is_caught_up(key(4), 2000)
    assert not progress.is_caught_up(key(4), 2000 + 3_600_000)


def test_observers_are_bounded() -> None:
    progress = Progress(key(1), voters(1))
    for number in range(OBSERVERS_MAX + 10):
        progress.limit_observers(number)
        progress.replica(ReplicaKey(number + 10)).fetched(0, 1, number)
    assert len(progress.observers) == OBSERVERS_MAX
    assert ReplicaKey(10) not in progress.observers
