"""Truncation in two parts: the state of the log between them, and the second part in short steps."""

from __future__ import annotations

import pytest

from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.replay import BATCHES_AT_ONCE
from kwire.protocol.error_codes import KafkaError
from tests.log.faults import FaultyDisk, full
from tests.log.managed import managed
from tests.log.support import batch, open_at, surroundings, values
from tests.log.test_producer_state import end, send

MANY = 3 * BATCHES_AT_ONCE


def with_open_transaction(tmp_path):
    """Return a log where producer 1 commits at 1 and begins again at 2; its second commit is the last record."""
    log = open_at(tmp_path)
    send(log, 0, transactional=True)
    end(log, commit=True)
    send(log, 1, transactional=True)
    for sequence in range(MANY):
        send(log, sequence, producer_id=2)
    end(log, commit=True)
    return log


def test_the_last_stable_offset_is_the_log_start_until_transactions_are_derived(tmp_path):
    log = with_open_transaction(tmp_path)
    last = log.log_end_offset - 1
    assert log.last_stable_offset(last + 1) == last + 1
    log.cut_to(last)
    steps = log.complete_truncation_in_steps()
    seen = [log.last_stable_offset(last), *(log.last_stable_offset(last) for _ in steps)]
    assert set(seen) == {log.log_start_offset}
    assert len(seen) >= MANY // BATCHES_AT_ONCE
    assert log.last_stable_offset(last) == 2
    assert log.pending_truncation is not None
    log.flush()
    assert log.pending_truncation is None


def test_producer_state_derived_in_steps_equals_that_of_one_call(tmp_path):
    logs = [with_open_transaction(tmp_path / name) for name in ("a", "b")]
    for log in logs:
        log.cut_to(MANY)
    for _ in logs[0].complete_truncation_in_steps():
        pass
    logs[1].complete_truncation()
    assert logs[0].producers.entries == logs[1].producers.entries != {}
    assert logs[0].producers.end_offset == logs[1].producers.end_offset == MANY
    assert values(logs[0]) == values(logs[1])


def test_a_second_truncation_restarts_the_derivation(tmp_path):
    log = with_open_transaction(tmp_path)
    log.cut_to(MANY)
    steps = log.complete_truncation_in_steps()
    next(steps)
    log.cut_to(10)
    for _ in steps:
        pass
    assert log.producers.is_derived
    assert {number: entry.last_sequence for number, entry in log.producers.entries.items()} == {1: 1, 2: 6}


def test_a_flush_begun_before_the_derivation_does_not_complete_a_truncation(tmp_path):
    log = with_open_transaction(tmp_path)
    before = log.begin_flush()
    log.cut_to(MANY)
    before.run()
    log.finish_flush(before)
    log.flush()
    assert log.pending_truncation is not None
    for _ in log.complete_truncation_in_steps():
        pass
    log.flush()
    assert log.pending_truncation is None


def test_an_append_and_a_clean_close_complete_a_pending_truncation(tmp_path):
    log = with_open_transaction(tmp_path)
    taken = log.read(3, 1)
    log.cut_to(3)
    log.append(taken, leader_epoch=0, origin=AppendOrigin.REPLICATION)
    assert log.pending_truncation is None
    assert {number: entry.last_sequence for number, entry in log.producers.entries.items()} == {1: 1, 2: 0}
    log.cut_to(3)
    log.close(clean=True)
    assert log.snapshots.offsets == [3]
    again = open_at(tmp_path, clean=True, recovery_point=3)
    assert {number: entry.last_sequence for number, entry in again.producers.entries.items()} == {1: 1}


def test_a_full_truncation_leaves_no_pending_truncation(tmp_path):
    log = with_open_transaction(tmp_path)
    log.cut_to(MANY)
    log.truncate_fully_and_start_at(7)
    assert log.pending_truncation is None
    assert (log.last_stable_offset(7), log.producers.entries) == (7, {})


def test_retention_keeps_segments_needed_by_a_pending_truncation(tmp_path):
    log = open_at(tmp_path, LogConfig(retention_bytes=0))
    for sequence in range(5):
        send(log, sequence)
        log.roll()
    log.cut_to(3)
    assert log.apply_retention(0, 3) == []
    log.complete_truncation()
    assert log.apply_retention(0, 3) != []


def test_truncated_segments_are_removed_later_off_the_event_loop(tmp_path):
    manager = managed(tmp_path, surroundings())
    log = manager.get_or_create("t", 0, LogConfig(), None)
    for value in (b"a", b"b", b"c"):
        log.append(batch(value), leader_epoch=0)
        log.roll()
    log.truncate_to(1)
    due = manager.directories.take_due_files()
    names = [path.rpartition("/")[2] for path in due if ".log" in path]
    assert names == [f"{offset:020d}.log.deleted" for offset in (3, 2, 1)]
    assert values(log) == [b"a"]
    manager.directories.remove_files(due)
    assert not list(tmp_path.rglob("*.deleted"))
    log.append(batch(b"d"), leader_epoch=0)
    assert values(log) == [b"a", b"d"]
    manager.close(clean=True)


def test_a_derivation_restarts_after_a_read_error(tmp_path):
    disk = FaultyDisk()
    log = open_at(tmp_path, None, surroundings(disk))
    for sequence in range(MANY):
        send(log, sequence, producer_id=2)
    log.cut_to(MANY - 1)
    steps = log.complete_truncation_in_steps()
    next(steps)
    disk.fail = lambda operation, path: full(operation, path) if operation == "read" else None
    with pytest.raises(KafkaError):
        next(steps)
    assert not log.producers.is_derived
    with pytest.raises(KafkaError):
        log.append(batch(b"x"), leader_epoch=0)
    disk.fail = lambda operation, path: None
    log.complete_truncation()
    assert log.producers.entries[2].last_sequence == MANY - 2
    assert log.producers.end_offset == MANY - 1
    log.append(batch(b"x"), leader_epoch=0)
