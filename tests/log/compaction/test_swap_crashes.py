"""A crash at any point of a compaction leaves either the old segments or the new ones."""

from __future__ import annotations

import random
import shutil
from itertools import product
from pathlib import Path

import pytest

from kwire.log import index
from kwire.log.compaction.plan import CleanedGroup
from kwire.log.compaction.round import run_round
from kwire.log.compaction.swap import Swap
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure, RealDisk
from kwire.log.partition_log import PartitionLog
from tests.log.compaction.support import MAP_BYTES, append, candidate_of, compact, keyed
from tests.log.faults import FaultyDisk, broken, full
from tests.log.support import NOW_MS, everything, open_at, surroundings

CONFIG = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, index_interval_bytes=0)

STATES_MAX = 64

Picture = list[tuple[int, bytes | None, bytes | None]]


class Renames(RealDisk):
    """A disk that records the renames since the last sync of the directory."""

    def __init__(self) -> None:
        super().__init__(open_files_max=64)
        self.since_sync: list[tuple[str, str]] = []

    def rename(self, old: str, new: str) -> None:
        self.since_sync.append((Path(old).name, Path(new).name))
        super().rename(old, new)

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.since_sync.clear()


def fill(directory: Path, disk: RealDisk) -> PartitionLog:
    """Fill two segments that become one: an aborted transaction in the first, only obsolete records in the second."""
    log = open_at(directory, CONFIG, surroundings(disk=disk))
    append(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    append(log, (b"a", b"2"), producer_id=7, sequence=0)
    log.roll()
    append(log, (b"b", b"2"), (b"c", b"2"))
    append(log, (b"b", b"3"), (b"c", b"3"))
    log.roll()
    append(log, (b"b", b"4"), (b"c", b"4"))
    log.roll()
    append(log, (b"d", b"active"))
    log.flush()
    return log


def picture(log: PartitionLog) -> Picture:
    return [(record.offset, record.key, record.value) for record in everything(log)]


def recovered(directory: Path) -> Picture:
    """Return the state after a crash and a start; check that a second start finds the same."""
    log = open_at(directory, CONFIG, recovery_point=10)
    found = picture(log)
    assert log.log_end_offset == 11
    bases = [segment.base_offset for segment in log.segments]
    assert bases == ([0, 10] if len(found) == 4 else [0, 4, 8, 10])
    assert set(log.snapshots.offsets) <= {*bases, 11}
    assert log.producers.entries[7].last_sequence == 0
    log.close(clean=False)
    leftovers = [path.name for path in directory.iterdir() if path.suffix in (".swap", ".cleaned", ".deleted")]
    assert leftovers == []
    log = open_at(directory, CONFIG, recovery_point=10)
    assert picture(log) == found
    log.close(clean=False)
    return found


def group_of(log: PartitionLog, disk: RealDisk) -> CleanedGroup:
    candidate = candidate_of(log)
    assert candidate is not None
    reports = list(run_round(disk, candidate.plan(NOW_MS, MAP_BYTES)))
    (group,) = [report for report in reports if isinstance(report, CleanedGroup)]
    assert group.sources == (0, 4, 8)
    return group


def states(before: Path, renames: list[tuple[str, str]], work: Path) -> list[Picture]:
    """Return the recovered states for each number of lost renames."""
    found = []
    possible = list(product((False, True), repeat=len(renames)))
    some = possible if len(possible) < STATES_MAX else random.Random(0).sample(possible[1:-1], STATES_MAX - 2)
    for chosen in dict.fromkeys([possible[0], *some, possible[-1]]):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(before, work)
        for is_done, (old, new) in zip(chosen, renames, strict=True):
            if is_done:
                (work / old).rename(work / new)
        found.append(recovered(work))
    return found


@pytest.mark.parametrize("loaded_bytes_max", [0, index.LOADED_BYTES_MAX])
def test_any_renames_that_a_power_cut_undoes_leave_old_or_new(
    tmp_path: Path, loaded_bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "LOADED_BYTES_MAX", loaded_bytes_max)
    disk = Renames()
    directory, before, work = tmp_path / "orders-0", tmp_path / "before", tmp_path / "work"
    log = fill(directory, disk)
    old = picture(log)
    swap = Swap(log, disk, group_of(log, disk), log.offsets.truncations)
    shutil.copytree(directory, before)
    disk.since_sync.clear()
    disk.sync_directory = lambda path: None  # type: ignore[method-assign]
    swap.decide()
    decided = list(disk.since_sync)
    new = [record for record in old if record[0] in (3, 8, 9, 10)]
    outcomes = states(before, decided, work)
    assert outcomes.count(new) == 1
    assert outcomes.count(old) == len(outcomes) - 1

    disk.since_sync.clear()
    shutil.rmtree(before)
    shutil.copytree(directory, before)
    swap.replace(NOW_MS)
    assert picture(log) == new
    assert set(map(str, states(before, list(disk.since_sync), work))) == {str(new)}

    disk.since_sync.clear()
    shutil.rmtree(before)
    shutil.copytree(directory, before)
    swap.drop_suffix()
    assert picture(log) == new
    assert set(map(str, states(before, list(disk.since_sync), work))) == {str(new)}


def test_renames_of_a_swap_step_are_synced_before_the_next_step(tmp_path: Path) -> None:
    disk = Renames()
    log = fill(tmp_path / "orders-0", disk)
    swap = Swap(log, disk, group_of(log, disk), log.offsets.truncations)
    swap.decide()
    assert disk.since_sync != []
    swap.sync()
    assert disk.since_sync == []
    swap.replace(NOW_MS)
    assert disk.since_sync != []
    swap.sync()
    assert disk.since_sync == []


def test_a_process_that_dies_before_any_operation_leaves_old_or_new(tmp_path: Path) -> None:
    old: Picture = []
    outcomes = []
    for count in range(1000):
        directory = tmp_path / str(count) / "orders-0"
        disk = FaultyDisk()
        log = fill(directory, disk)
        old = picture(log)
        disk.operations.clear()
        disk.fail = lambda operation, path, at=count, disk=disk: (  # type: ignore[misc]
            broken(operation, path) if len(disk.operations) > at else None
        )
        try:
            compact(log, disk)
        except DiskFailure:
            log.close(clean=False)
            outcomes.append(recovered(directory))
            continue
        break
    new = [record for record in old if record[0] in (3, 8, 9, 10)]
    assert len(outcomes) > 30
    assert outcomes[0] == old
    assert outcomes[-1] == new
    assert all(outcome in (old, new) for outcome in outcomes)


@pytest.mark.parametrize("when", ["before decide", "after decide"])
def test_a_round_that_was_overtaken_is_discarded(tmp_path: Path, when: str) -> None:
    disk = RealDisk()
    log = fill(tmp_path / "orders-0", disk)
    old = picture(log)
    swap = Swap(log, disk, group_of(log, disk), log.offsets.truncations)
    if when == "after decide":
        swap.decide()
    assert not swap.is_overtaken()
    log.delete_records_before(4)
    log.apply_retention(NOW_MS, log.log_end_offset)
    assert swap.is_overtaken()
    swap.discard()
    assert picture(log) == [record for record in old if record[0] >= 4]
    assert not [path for path in Path(log.directory).iterdir() if path.suffix in (".swap", ".cleaned")]


def decided(tmp_path: Path, disk: RealDisk) -> tuple[PartitionLog, Picture, Swap]:
    """Return a log, its records, and a swap that is decided; a worker makes the decision durable next."""
    log = fill(tmp_path / "orders-0", disk)
    old = picture(log)
    swap = Swap(log, disk, group_of(log, disk), log.offsets.truncations)
    swap.decide()
    return log, old, swap


def test_a_log_truncated_during_the_sync_of_a_swap_keeps_later_appends(tmp_path: Path) -> None:
    log, old, swap = decided(tmp_path, RealDisk())
    log.truncate_to(4)
    log.append(keyed((b"z", b"1"), (b"z", b"2")), leader_epoch=1)
    assert swap.is_overtaken()
    log.close(clean=False)  # the process is killed before the cleaner receives the result
    log = open_at(tmp_path / "orders-0", CONFIG)
    assert picture(log) == [*[record for record in old if record[0] < 4], (4, b"z", b"1"), (5, b"z", b"2")]
    log.close(clean=False)


def test_a_swap_that_cannot_be_rolled_back_takes_the_log_offline(tmp_path: Path) -> None:
    """Some file systems need space to remove a file. The remaining files would replace the log's after a crash."""
    disk = FaultyDisk()
    log, old, swap = decided(tmp_path, disk)
    swap.sync()
    disk.fail = lambda operation, path: full(operation, path) if operation == "unlink" else None
    with pytest.raises(DiskFailure):
        log.truncate_to(3)
    assert log.failure is not None
    disk.fail = lambda operation, path: None
    log.close(clean=False)
    log = open_at(tmp_path / "orders-0", CONFIG, recovery_point=10)
    assert picture(log) == [record for record in old if record[0] in (3, 8, 9, 10)], "nothing was cut"
    log.close(clean=False)


def test_a_segment_that_is_deleted_while_a_swap_becomes_durable_does_not_come_back(tmp_path: Path) -> None:
    log, old, swap = decided(tmp_path, RealDisk())
    log.delete_records_before(4)
    log.apply_retention(NOW_MS, log.log_end_offset)
    assert swap.is_overtaken()
    log.close(clean=False)
    log = open_at(tmp_path / "orders-0", CONFIG)
    assert picture(log) == [record for record in old if record[0] >= 4]
    log.close(clean=False)


def test_retention_may_take_a_segment_that_has_not_settled(tmp_path: Path) -> None:
    disk = RealDisk()
    log = fill(tmp_path / "orders-0", disk)
    swap = Swap(log, disk, group_of(log, disk), log.offsets.truncations)
    swap.decide()
    swap.sync()
    swap.replace(NOW_MS)
    log.delete_records_before(10)
    log.apply_retention(NOW_MS, log.log_end_offset)
    swap.sync()
    swap.drop_suffix()
    assert picture(log) == [(10, b"d", b"active")]
    log.close(clean=False)
    log = open_at(tmp_path / "orders-0", CONFIG, recovery_point=10)
    assert picture(log) == [(10, b"d", b"active")]
