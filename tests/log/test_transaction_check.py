"""A .txnindex that disagrees with the log: it is derived again, from the remaining part of the log."""

from __future__ import annotations

import os
import struct
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.log import transaction_check
from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.errors import NotReadyError
from kwire.log.index_memory import IndexMemory
from kwire.log.not_ready import ready_in_steps
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_snapshots import ENTRIES_AT_ONCE
from kwire.log.replay import BATCHES_AT_ONCE
from tests.log.faults import FaultyDisk, full
from tests.log.searching import offset_for_timestamp
from tests.log.support import NOW_MS, batch, marker, open_at, surroundings
from tests.support.compiled import replaces_methods
from tests.support.loop_steps import longest_step_of

CONFIG = LogConfig()


class KilledError(Exception):
    """Simulated end of the process."""


def raise_killed(*_: object) -> None:
    raise KilledError


LINES_OF_A_PRODUCER = 30
"""Limit for one producer; decoding takes about 18 lines."""
Entry = tuple[int, int, int]


def send(log: PartitionLog, sequence: int) -> int:
    data = batch(b"v", producer_id=7, producer_epoch=0, sequence=sequence, transactional=True)
    return log.append(data, leader_epoch=0).base_offset


def end(log: PartitionLog, *, commit: bool = False) -> int:
    ending = marker(7, 0, commit=commit)
    return log.append(ending, leader_epoch=0, origin=AppendOrigin.COORDINATOR).base_offset


def index_of(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:020d}.txnindex"


def write(path: Path, *entries: Entry) -> None:
    path.write_bytes(b"".join(struct.pack(">hqqqq", 0, *entry, entry[2] + 1) for entry in entries))


def found(directory: Path, end_offset: int) -> list[Entry]:
    """Return the aborted transactions after a clean stop."""
    log = open_at(directory, CONFIG, clean=True, recovery_point=end_offset)
    assert log.log_end_offset == end_offset
    entries = [entry[:3] for entry in log.aborted_transactions(log.log_start_offset, end_offset)]
    log.close(clean=True)
    return entries


def ask(log: PartitionLog, end_offset: int) -> tuple[list[Entry], int]:
    """Return the aborted transactions, and the number of steps until they were known."""
    steps = 0
    while True:
        try:
            entries = log.aborted_transactions(log.log_start_offset, end_offset)
            return [entry[:3] for entry in entries], steps
        except NotReadyError:
            steps += 1


@pytest.fixture
def across(tmp_path: Path) -> Path:
    """Return a transaction at offsets 0 and 2, with the end of a segment between them; its abort marker is at 3."""
    log = open_at(tmp_path, CONFIG)
    send(log, 0)
    log.append(batch(b"plain"), leader_epoch=0)
    log.roll()
    send(log, 1)
    end(log)
    log.close(clean=True)
    return tmp_path


def test_an_aborted_transaction_that_began_in_an_earlier_segment_is_found(across: Path) -> None:
    assert found(across, 4) == [(7, 0, 3)]


def test_a_first_offset_that_contradicts_the_snapshot_is_rejected(across: Path) -> None:
    write(index_of(across, 2), (7, 2, 3))
    assert found(across, 4) == [(7, 0, 3)]


@pytest.mark.parametrize("data", [b"x", b"x" * 34])
def test_without_snapshots_the_first_offset_comes_from_earlier_segments(across: Path, data: bytes) -> None:
    for path in across.glob("*.snapshot"):
        path.unlink()
    index_of(across, 2).write_bytes(data)
    assert found(across, 4) == [(7, 0, 3)]


@pytest.mark.parametrize("suffixes", [(".index", ".timeindex", ".txnindex"), (".index", ".txnindex")])
@pytest.mark.parametrize("keeps_snapshots", [False, True])
def test_missing_transaction_indexes_are_rebuilt_with_the_other_indexes(
    across: Path, suffixes: tuple[str, ...], keeps_snapshots: bool
) -> None:
    """An operator may remove all files that can be rebuilt."""
    gone = suffixes if keeps_snapshots else (*suffixes, ".snapshot")
    for path in across.iterdir():
        if path.suffix in gone:
            path.unlink()
    assert found(across, 4) == [(7, 0, 3)]
    assert found(across, 4) == [(7, 0, 3)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_read_before_the_restart_does_not_hide_missing_transaction_indexes(across: Path, clean: bool) -> None:
    """A read rebuilds the offset index; the next start must still detect that the transaction index was lost."""
    for path in across.glob("*index"):
        path.unlink()
    log = open_at(across, CONFIG, clean=True, recovery_point=4)
    assert log.read(0, 10_000)
    assert offset_for_timestamp(log, NOW_MS) is not None
    log.roll()
    log.close(clean=clean)
    assert found(across, 4) == [(7, 0, 3)]
    assert (across / f"{2:020d}.index").exists()


def test_a_crash_during_the_rebuild_keeps_the_old_transaction_index(
    across: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(index_of(across, 2), (7, 2, 3))
    log = open_at(across, CONFIG, clean=True, recovery_point=4)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", raise_killed)
        with pytest.raises(KilledError):
            log.aborted_transactions(0, 4)
    assert index_of(across, 2).stat().st_size == 34
    assert found(across, 4) == [(7, 0, 3)]


def test_rebuilt_aborted_transactions_stay_in_memory_without_disk_space(
    across: Path, caplog: pytest.LogCaptureFixture
) -> None:
    index_of(across, 2).unlink()
    for path in across.glob("*.index"):
        path.unlink()
    disk = FaultyDisk()
    disk.fail = lambda operation, path: full(operation, path) if path.endswith("txnindex") else None
    log = open_at(across, CONFIG, surroundings(disk), clean=True, recovery_point=4)
    for _ in range(2):
        assert [entry[:3] for entry in log.aborted_transactions(0, 4)] == [(7, 0, 3)]
    assert caplog.text.count("stay in memory") == 2
    log.roll()
    log.segments[1].unload()
    assert [entry[:3] for entry in log.aborted_transactions(0, 4)] == [(7, 0, 3)]
    disk.fail = lambda operation, path: None
    assert [entry[:3] for entry in log.aborted_transactions(0, 4)] == [(7, 0, 3)]
    log.close(clean=True)
    assert found(across, 4) == [(7, 0, 3)]


def test_a_segment_without_markers_has_no_aborted_transactions(tmp_path: Path) -> None:
    """The offset index of such a segment is written at once, because no transaction index must be derived first."""
    log = open_at(tmp_path, CONFIG)
    log.append(batch(b"plain"), leader_epoch=0)
    log.roll()
    log.append(batch(b"plain"), leader_epoch=0)
    log.close(clean=True)
    index = tmp_path / f"{0:020d}.index"
    index.unlink()
    log = open_at(tmp_path, CONFIG, replace(surroundings(), indexes=IndexMemory(0)), clean=True, recovery_point=2)
    assert offset_for_timestamp(log, NOW_MS) is not None
    assert index.exists()
    log.close(clean=True)


def test_a_first_offset_of_another_snapshot_is_rejected(tmp_path: Path) -> None:
    log = open_at(tmp_path, CONFIG)
    send(log, 0)
    end(log, commit=True)
    send(log, 1)
    log.roll()
    end(log)
    log.close(clean=True)
    write(index_of(tmp_path, 3), (7, 0, 3))
    assert found(tmp_path, 4) == [(7, 2, 3)]


def test_an_entry_whose_last_offset_is_no_marker_is_rejected(tmp_path: Path) -> None:
    log = open_at(tmp_path, CONFIG)
    send(log, 0)
    send(log, 1)
    end(log)
    log.close(clean=True)
    write(index_of(tmp_path, 0), (7, 0, 1))
    assert found(tmp_path, 3) == [(7, 0, 2)]


def test_an_entry_whose_first_offset_is_below_the_log_is_accepted(across: Path) -> None:
    """Retention has removed the batch, so no data contradicts the entry."""
    log = open_at(across, CONFIG, clean=True, recovery_point=4)
    log.delete_records_before(2)
    log.apply_retention(NOW_MS, 4)
    log.close(clean=True)
    assert not (across / f"{0:020d}.log").exists()
    log = open_at(across, CONFIG, clean=True, recovery_point=4, log_start_offset=2)
    assert [entry[:3] for entry in log.aborted_transactions(2, 4)] == [(7, 0, 3)]


@replaces_methods
def test_a_long_segment_is_compared_at_its_begin_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_at(tmp_path, CONFIG)
    for sequence in range(0, 6, 2):
        send(log, sequence)
        send(log, sequence + 1)
        end(log)
    log.close(clean=True)
    write(index_of(tmp_path, 0), (7, 0, 2), (7, 3, 5), (7, 7, 8))
    monkeypatch.setattr(transaction_check, "WALK_BYTES", 200)
    assert found(tmp_path, 9) == [(7, 0, 2), (7, 3, 5), (7, 7, 8)]
    monkeypatch.undo()
    assert found(tmp_path, 9) == [(7, 0, 2), (7, 3, 5), (7, 6, 8)]


# --- in steps

MANY = 2 * BATCHES_AT_ONCE
"""Transactions of a batch and an abort marker each: transaction n has the offsets 2n and 2n + 1."""
ENTRIES = [(7, 2 * number, 2 * number + 1) for number in range(MANY)]


def abort(log: PartitionLog, first: int, count: int) -> None:
    for number in range(first, first + count):
        send(log, number)
        end(log)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    log = open_at(tmp_path, CONFIG)
    abort(log, 0, MANY)
    log.close(clean=True)
    return tmp_path


def open_many(directory: Path, disk: FaultyDisk | None = None) -> PartitionLog:
    return open_at(directory, CONFIG, surroundings(disk), clean=True, recovery_point=2 * MANY)


def test_many_aborted_transactions_are_compared_in_steps(many: Path) -> None:
    log = open_many(many)
    entries, steps = ask(log, 2 * MANY)
    assert entries == ENTRIES
    assert steps >= MANY // transaction_check.ENTRIES_AT_ONCE + 2 * MANY // BATCHES_AT_ONCE
    assert ask(log, 2 * MANY) == (ENTRIES, 0)
    log.close(clean=True)


@pytest.mark.parametrize("derives", [False, True])
def test_transactions_aborted_between_two_steps_are_found(many: Path, derives: bool) -> None:
    if derives:
        write(index_of(many, 0), (7, 2, 1))
    log = open_many(many)
    with pytest.raises(NotReadyError):
        log.aborted_transactions(0, 2 * MANY)
    abort(log, MANY, 10)
    entries, _ = ask(log, 2 * MANY + 20)
    assert entries == [*ENTRIES, *((7, 2 * number, 2 * number + 1) for number in range(MANY, MANY + 10))]
    log.close(clean=True)
    assert ask(open_at(many, CONFIG, clean=True, recovery_point=2 * MANY + 20), 2 * MANY + 20)[0] == entries


@pytest.mark.parametrize("derives", [False, True])
def test_transactions_truncated_between_two_steps_are_not_found(many: Path, derives: bool) -> None:
    if derives:
        write(index_of(many, 0), *ENTRIES[:-1])
    log = open_many(many)
    with pytest.raises(NotReadyError):
        log.aborted_transactions(0, 2 * MANY)
    log.truncate_to(2 * MANY - 20)
    assert ask(log, 2 * MANY - 20)[0] == ENTRIES[:-10]
    abort(log, MANY - 10, 10)
    assert ask(log, 2 * MANY)[0] == ENTRIES
    log.close(clean=True)


def test_the_comparison_restarts_when_retention_removes_a_needed_segment(many: Path) -> None:
    """Without snapshots, the transactions of the second segment are derived from the batches of the first one."""
    log = open_many(many)
    ask(log, 2 * MANY)
    log.roll()
    abort(log, MANY, MANY)
    log.close(clean=True)
    for path in many.glob("*.snapshot"):
        path.unlink()
    index_of(many, 2 * MANY).write_bytes(b"x")
    log = open_at(many, CONFIG, clean=True, recovery_point=4 * MANY)
    log.segments[0].transaction_index.is_checked = True
    with pytest.raises(NotReadyError):
        log.aborted_transactions(2 * MANY, 4 * MANY)
    log.delete_records_before(2 * MANY)
    log.apply_retention(NOW_MS, 4 * MANY)
    assert len(log.segments) == 1
    assert ask(log, 4 * MANY)[0] == [(7, 2 * number, 2 * number + 1) for number in range(MANY, 2 * MANY)]
    log.close(clean=True)


@pytest.mark.parametrize("is_suspect", [False, True])
def test_a_snapshot_of_many_producers_is_decoded_in_steps(tmp_path: Path, is_suspect: bool) -> None:
    """Both the comparison of a segment's transactions and their derivation decode the snapshot."""
    log = open_at(tmp_path, CONFIG)
    producers = 3 * ENTRIES_AT_ONCE + 1
    for producer_id in range(100, 100 + producers):
        log.append(batch(b"v", producer_id=producer_id, producer_epoch=0, sequence=0), leader_epoch=0)
    log.roll()
    begun = send(log, 0)
    ended = end(log)
    log.close(clean=True)
    if is_suspect:
        index_of(tmp_path, begun).write_bytes(b"")
        (tmp_path / f"{begun:020d}.index").unlink()
    log = open_at(tmp_path, CONFIG, clean=True, recovery_point=ended + 1)

    def entries(log: PartitionLog) -> Generator[None, None, None]:
        for _ in ready_in_steps(lambda: log.aborted_transactions(begun, ended + 1)):
            yield
        assert [entry[:3] for entry in log.aborted_transactions(begun, ended + 1)] == [(7, begun, ended)]

    assert longest_step_of(entries(log)) < LINES_OF_A_PRODUCER * ENTRIES_AT_ONCE
