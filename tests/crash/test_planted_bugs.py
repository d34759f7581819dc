"""The states find what they are for: with a guard taken away, or an fsync left out, an invariant breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kwire.cluster import formatting
from kwire.log import flushing, recovery, truncation
from kwire.log.checkpoints import CLEAN_SHUTDOWN_FILE
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.log_directory import LogDirectory
from kwire.log.partition_log import PartitionLog
from tests.crash.disk import MemoryFile, RecordingDisk
from tests.crash.workloads import go_through

STATES_MAX = 12_000
"""By when a planted bug must show."""


def nothing(*arguments: Any, **named: Any) -> None:
    """Stands where something was done."""


def forgets_paths_at_the_end(log: PartitionLog, job: flushing.FlushJob) -> None:
    log.recovery_point = max(log.recovery_point, min(job.end_offset, log.log_end_offset))
    log.leader_epochs.durable_version = max(log.leader_epochs.durable_version, job.epochs_version)
    log.unsynced_paths.clear()


UNLINK = RecordingDisk.unlink


def unlink_all_but_the_mark(disk: RecordingDisk, path: str) -> None:
    if not path.endswith(CLEAN_SHUTDOWN_FILE):
        UNLINK(disk, path)


def always(*arguments: Any, **named: Any) -> bool:
    return True


def no_starts(directory: LogDirectory) -> dict[tuple[str, int], int]:
    return {}


PLANTED: dict[str, tuple[str, Any, str, Callable[..., Any]]] = {
    "no file is synced": ("appends", MemoryFile, "sync", nothing),
    "no directory is synced": ("appends", RecordingDisk, "sync_directory", nothing),
    "a new log's name is not synced": ("appends", recovery, "_note_unsynced", nothing),
    "names made during a flush are taken for durable": ("appends", flushing, "finish", forgets_paths_at_the_end),
    "a segment behind lost batches is kept": ("appends", recovery, "_continues", always),
    "a segment behind lost batches is kept after compaction": ("compaction", recovery, "_continues", always),
    "the mark of a clean shutdown is left": ("restarts", RecordingDisk, "unlink", unlink_all_but_the_mark),
    "segments that were cut off may come back": ("truncation", truncation, "_settle_names", nothing),
    "lost epochs are not derived": ("truncation", recovery, "_recall_epochs", nothing),
    "epochs of what is scanned are believed": ("truncation", LeaderEpochs, "truncate_from_end", nothing),
    "the log start is not kept": ("retention", LogDirectory, "log_starts_now", no_starts),
    "a formatted directory's name is not synced": ("formatting", formatting, "make_durably", nothing),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload, owner, attribute, instead = PLANTED[name]
    if owner is formatting:
        from kwire.server import storage

        monkeypatch.setattr(storage, attribute, lambda disk, directory: disk.make_directory(directory))
    else:
        monkeypatch.setattr(owner, attribute, instead)
    outcome, found, _ = go_through(workload, states=STATES_MAX, first_seed=1)
    assert found, f"{outcome.states} states show nothing"
