"""Bugs that show in the states after a power cut: missing guards and missing fsyncs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from kwire.cluster.formatting import formatting
from kwire.coordinator.transaction.machine import TransactionMachine
from kwire.log import flushing, recovery, rolling, truncation
from kwire.log.checkpoints import CLEAN_SHUTDOWN_FILE
from kwire.log.future_logs import FutureLogs
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.log_directory import LogDirectory
from kwire.log.log_state import LogState
from kwire.log.partition_log import PartitionLog
from kwire.log.segment import Segment
from kwire.log.unsynced_paths import UnsyncedPaths
from kwire.server.node import storage
from kwire.simulation.open_files import SimulatedFile
from tests.crash.disk import RecordingDisk
from tests.planted.bug import PlantedBug, always, nothing

FOUND_BY: Final = "tests/crash/test_planted_bugs.py::test_a_planted_bug_is_found"


def _forgets_paths_at_the_end(log: PartitionLog, job: flushing.FlushJob) -> None:
    log.offsets.recovery_point = max(log.recovery_point, min(job.end_offset, log.log_end_offset))
    log.leader_epochs.durable_version = max(log.leader_epochs.durable_version, job.epochs_version)
    log.unsynced_paths = UnsyncedPaths()


_UNLINK = RecordingDisk.unlink


def _unlink_all_but_the_mark(disk: RecordingDisk, path: str) -> None:
    if not path.endswith(CLEAN_SHUTDOWN_FILE):
        _UNLINK(disk, path)


def _no_starts(directory: LogDirectory) -> dict[tuple[str, int], int]:
    return {}


def _begin_unnoted(log: LogState, base_offset: int) -> None:
    log.segments.append(Segment(log.disk, log.directory, base_offset, create=True, created_ms=0))


_BEGIN = flushing.begin


def _begin_with_the_active_segment(log: PartitionLog, *, pins: bool) -> flushing.FlushJob:
    job = _BEGIN(log, pins=True)
    active = log.segments.active.file
    for file in job._files:
        if file is not active:
            file.unpin()
    job._files = tuple(file for file in job._files if file is active)
    return job


def _begin_without_new_names(log: PartitionLog, *, pins: bool) -> flushing.FlushJob:
    for segment in log.segments.from_offset(0):
        segment.transaction_index.has_new_name = False
    return _BEGIN(log, pins=pins)


def _make_without_sync(disk: Any, directory: str) -> None:
    disk.make_directory(directory)


_CLOSE = PartitionLog.close


def _close_in_haste(log: PartitionLog, *, clean: bool) -> None:
    _CLOSE(log, clean=clean and not log.directory.endswith("-future"))


_DECISION_WRITE = TransactionMachine.decision_write


def _decide_at_once(machine: TransactionMachine, decision: Any, answer: Any) -> Any:
    machine._send_markers(decision)
    write = _DECISION_WRITE(machine, decision, answer)
    write.outcome = None
    return write


def _load_and_wait(machine: TransactionMachine) -> None:
    machine._schedule_timeout_check()
    machine._schedule_expiration()


_ROWS: Final[list[tuple[str, str, str, str, Any, str, Callable[..., Any]]]] = [
    ("no file is synced", "An fsync of a file does nothing.", "S4", "appends", SimulatedFile, "sync", nothing),
    (
        "no directory is synced",
        "An fsync of a directory does nothing.",
        "S4",
        "appends",
        RecordingDisk,
        "sync_directory",
        nothing,
    ),
    (
        "a new log's name is not synced",
        "The directory of a new partition is not synced into its parent.",
        "S4",
        "appends",
        recovery,
        "_mark_names_unsynced",
        nothing,
    ),
    (
        "a new segment's name is not synced",
        "After a roll the partition's directory is not synced.",
        "S4",
        "appends",
        rolling,
        "begin_segment",
        _begin_unnoted,
    ),
    (
        "closed segments are not synced",
        "A flush after a roll syncs the active segment only, not the closed one.",
        "S4",
        "appends",
        flushing,
        "begin",
        _begin_with_the_active_segment,
    ),
    (
        "names made during a flush are taken for durable",
        "A segment that is created during a flush is not synced by the next flush.",
        "S4",
        "appends",
        PartitionLog,
        "_record_durable",
        _forgets_paths_at_the_end,
    ),
    (
        "a segment behind lost batches is kept",
        "A gap remains in the log where a power cut removed the end of a segment.",
        "S4",
        "appends",
        recovery,
        "_continues",
        always,
    ),
    (
        "a segment behind lost batches is kept after compaction",
        "A gap remains in a compacted log where a power cut removed the end of a segment.",
        "S4",
        "compaction",
        recovery,
        "_continues",
        always,
    ),
    (
        "the mark of a clean shutdown is left",
        "A start does not remove the clean shutdown marker, so that a start after a crash trusts it.",
        "S12",
        "restarts",
        RecordingDisk,
        "unlink",
        _unlink_all_but_the_mark,
    ),
    (
        "segments that were cut off may come back",
        "The removals of a truncation are not durable before the next append.",
        "S4",
        "truncation",
        truncation,
        "_sync_names",
        nothing,
    ),
    (
        "lost epochs are not derived",
        "A missing leader epoch file is not derived again from the batches.",
        "S9",
        "truncation",
        recovery,
        "_rebuild_epochs",
        nothing,
    ),
    (
        "epochs of what is scanned are believed",
        "Epochs of batches that a power cut removed are kept.",
        "S9",
        "truncation",
        LeaderEpochs,
        "truncate_from_end",
        nothing,
    ),
    (
        "the log start is not kept",
        "The log start offset is lost in a restart, so that deleted records return.",
        "S1",
        "retention",
        LogDirectory,
        "current_log_starts",
        _no_starts,
    ),
    (
        "of two logs of a partition that moves none is chosen",
        "A start that finds a log and its copy in another directory keeps both.",
        "S4",
        "moves",
        FutureLogs,
        "_choose",
        nothing,
    ),
    (
        "a log that moves is not made durable first",
        "The copy replaces the log before the copy is flushed.",
        "S4",
        "moves",
        PartitionLog,
        "close",
        _close_in_haste,
    ),
    (
        "a formatted directory's name is not synced",
        "A formatted directory may be lost after its id was returned.",
        "D1",
        "formatting",
        formatting,
        "make_durably",
        _make_without_sync,
    ),
    (
        "a new list of aborted transactions has no name",
        "The directory is not synced after the first aborted transaction of a segment.",
        "T3",
        "coordinator",
        flushing,
        "begin",
        _begin_without_new_names,
    ),
    (
        "markers go out before their decision",
        "Markers are sent on EndTxn, before the decision is durable.",
        "T8",
        "coordinator",
        TransactionMachine,
        "decision_write",
        _decide_at_once,
    ),
    (
        "a decided transaction is not resumed",
        "Transactions in PrepareCommit and PrepareAbort are not completed after a restart.",
        "T8",
        "coordinator",
        TransactionMachine,
        "loaded",
        _load_and_wait,
    ),
]
"""(name, wrong behaviour, invariant, workload, owner of the replaced attribute, its name, its replacement)."""


def _planter(owner: Any, attribute: str, instead: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(storage if owner is formatting else owner, attribute, instead)

    return plant


CRASH_BUGS: Final[dict[str, PlantedBug]] = {
    name: PlantedBug(
        name=name,
        breaks=breaks,
        does=does,
        found_by=(f"{FOUND_BY}[{name}]",),
        plant=_planter(owner, attribute, instead),
        workload=workload,
    )
    for name, does, breaks, workload, owner, attribute, instead in _ROWS
}
