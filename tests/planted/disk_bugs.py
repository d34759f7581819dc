"""Bugs in durability: flushes, disk failures, full disks, clean shutdowns, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from kwire.cluster.partitions.group_commit import GroupCommit
from kwire.log.checkpoints import CheckpointJob
from kwire.log.closing import LogClosing
from kwire.log.disk import DiskFailure, DiskFullError, RealFile
from kwire.log.flushing import FlushJob
from kwire.log.jobs import Stage
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.log_directories import LogDirectories
from kwire.log.log_directory import LogDirectory
from kwire.log.log_health import LogHealth
from kwire.log.partition_log import PartitionLog
from tests.planted.bug import Catalogue, nothing

DISK_BUGS: Final = Catalogue()
_bug = DISK_BUGS.bug


@_bug("S1", "cluster/test_group_commit.py::test_unflushed_records_cannot_be_read")
def an_answer_does_not_wait_for_its_fsync(patch: pytest.MonkeyPatch) -> None:
    """With flush.messages=1, the high watermark advances before the fsync."""
    request = GroupCommit.request

    def request_and_go_on(commit: GroupCommit, partition: Any) -> None:
        partition._advance(partition.log.log_end_offset, 0)
        request(commit, partition)

    patch.setattr(GroupCommit, "request", request_and_go_on)


@_bug("S10", "log/test_partition_log.py::test_a_flush_moves_the_recovery_point_to_what_it_covered")
def what_came_during_a_flush_counts_as_flushed(patch: pytest.MonkeyPatch) -> None:
    """The recovery point advances to the log end, beyond the offset at which the flush began."""

    def finish(log: PartitionLog, job: FlushJob) -> None:
        log.offsets.recovery_point = log.log_end_offset
        log.leader_epochs.durable_version = max(log.leader_epochs.durable_version, job.epochs_version)

    patch.setattr(PartitionLog, "_record_durable", finish)


@_bug("S11", "log/test_disk.py::test_a_failed_fsync_is_not_tried_again")
def a_failed_fsync_is_tried_again(patch: pytest.MonkeyPatch) -> None:
    """A failed fsync is retried; the second one succeeds, although data may be lost."""
    run = FlushJob.run

    def run_twice(job: FlushJob) -> None:
        run(job)
        if job.failure is not None:
            job.failure = None
            run(job)

    patch.setattr(FlushJob, "run", run_twice)


@_bug("S11", "log/test_disk.py::test_any_other_failure_takes_the_log_offline_for_good")
def a_log_goes_on_after_its_disk_failed(patch: pytest.MonkeyPatch) -> None:
    """A log stays online after a disk failure was reported."""

    def fail(health: LogHealth, failure: DiskFailure) -> DiskFailure:
        return failure

    patch.setattr(LogHealth, "fail", fail)


@_bug("S11", "log/test_log_manager.py::test_a_failing_directory_goes_offline_as_a_whole")
def a_directory_goes_on_after_its_disk_failed(patch: pytest.MonkeyPatch) -> None:
    """Only one log goes offline after a failure of its directory; the others on the same device stay online."""
    patch.setattr(LogDirectories, "take_offline", nothing)


@_bug("S12", "log/test_full_disk.py::test_a_close_that_finds_no_space_is_not_clean")
def the_clean_mark_comes_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """The clean shutdown marker is written before the flush: a crash in between counts as a clean shutdown."""
    stages = LogClosing.stages

    def mark_and_close(closing: LogClosing) -> Iterator[Stage]:
        if closing._clean:
            yield closing._mark_clean()
        yield from stages(closing)

    patch.setattr(LogClosing, "stages", mark_and_close)


@_bug("S12", "log/test_full_disk.py::test_a_close_that_finds_no_space_is_not_clean")
def a_log_that_could_not_be_flushed_counts_as_clean(patch: pytest.MonkeyPatch) -> None:
    """The clean shutdown marker is written although a log's last flush failed."""
    patch.setattr(LogClosing, "mark_unclean", nothing)


@_bug("S12", "log/test_closing.py::test_the_directory_that_holds_new_logs_is_synced_once_for_all_of_them")
def the_names_of_new_logs_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A power cut after a clean stop removes a new log whose records were flushed."""
    patch.setattr(LogClosing, "_sync_names", lambda closing: iter(()))


@_bug("S16", "log/test_disk.py::test_a_failed_append_leaves_the_old_end")
def a_full_disk_leaves_half_a_batch(patch: pytest.MonkeyPatch) -> None:
    """After a failed append, the written part of the batch is not truncated."""
    patch.setattr(RealFile, "_undo_append", nothing)


@_bug("S16", "log/test_full_disk.py::test_an_append_is_rejected_and_repeated_when_there_is_space")
def a_full_disk_takes_the_log_offline(patch: pytest.MonkeyPatch) -> None:
    """A log stays offline until a restart even if there is space again."""
    no_space = LogHealth.no_space

    def give_up(health: LogHealth, error: Any) -> Any:
        health.fail(DiskFailure(error.operation, error.path, error.error))
        return no_space(health, error)

    patch.setattr(LogHealth, "no_space", give_up)


@_bug("S16", "log/test_full_disk.py::test_leader_epochs_without_disk_space_delay_only_the_flush")
def a_full_disk_lets_the_flush_pass(patch: pytest.MonkeyPatch) -> None:
    """Leader epochs that found no space count as written."""
    write = LeaderEpochs.write

    def write_or_not(epochs: LeaderEpochs) -> None:
        with suppress(DiskFullError):
            write(epochs)

    patch.setattr(LeaderEpochs, "write", write_or_not)


@_bug(
    "S1",
    "log/test_log_manager.py::test_a_recreated_topic_keeps_its_records_after_a_crash_before_the_checkpoint",
)
def a_deleted_topic_stays_in_the_checkpoints(patch: pytest.MonkeyPatch) -> None:
    """A new topic with the name of a deleted one starts at the old topic's log start offset."""

    def forget_the_log_only(directory: LogDirectory, key: tuple[str, int]) -> None:
        directory.logs.pop(key, None)

    patch.setattr(LogDirectory, "remove", forget_the_log_only)


@_bug("S10", "log/test_log_manager.py::test_a_checkpoint_prepared_before_a_truncation_is_dropped")
def an_overtaken_checkpoint_is_put_in_place(patch: pytest.MonkeyPatch) -> None:
    """A worker replaces newer checkpointed offsets, which a truncation had lowered, by older ones."""
    finish = CheckpointJob.finish

    def finish_always(job: CheckpointJob, *, is_overtaken: bool) -> None:
        finish(job, is_overtaken=False)

    patch.setattr(CheckpointJob, "finish", finish_always)


@_bug("S10", "log/test_recovery_points.py::test_a_truncation_is_checkpointed_before_it_happens")
def a_truncation_leaves_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    """Records appended after a truncation count as durable; after a crash, the shorter log looks damaged."""
    patch.setattr(PartitionLog, "_lower", nothing)


@_bug("S1", "log/test_log_manager.py::test_checkpoints_have_the_format_of_kafka")
def the_kept_log_start_is_one_too_high(patch: pytest.MonkeyPatch) -> None:
    """The checkpointed log start is one too high: an existing record is out of range after a restart."""
    starts = LogDirectory.current_log_starts

    def one_too_high(directory: LogDirectory) -> dict[tuple[str, int], int]:
        return {key: offset + 1 for key, offset in starts(directory).items()}

    patch.setattr(LogDirectory, "current_log_starts", one_too_high)


@_bug("S10", "log/test_log_manager.py::test_a_closed_log_keeps_its_recovery_point")
def every_checkpoint_names_the_log_end(patch: pytest.MonkeyPatch) -> None:
    """Checkpointed recovery points are ahead of the flushed offsets."""

    def ahead(directory: LogDirectory) -> dict[tuple[str, int], int]:
        return {key: log.log_end_offset for key, log in directory.logs.items()}

    patch.setattr(LogDirectory, "current_recovery_points", ahead)
