"""Bugs in the data that a start trusts: batches, indexes, snapshots, interrupted swaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from kwire.log import log_directory, recovery, replay, truncation
from kwire.log.errors import CorruptIndexError
from kwire.log.files import CLEANED_SUFFIX
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_snapshots import ProducerSnapshots
from kwire.log.producer_state import ProducerState
from kwire.log.segment import Segment
from kwire.log.transaction_index import TransactionIndex
from kwire.log.truncation import PendingTruncation
from tests.planted.bug import Catalogue, always, nothing

RECOVERY_BUGS: Final = Catalogue()
_bug = RECOVERY_BUGS.bug


@_bug("S6", "log/test_recovery.py::test_every_flipped_bit_behind_the_recovery_point_is_found")
def recovery_believes_every_crc(patch: pytest.MonkeyPatch) -> None:
    """A batch with a flipped bit counts as complete and verified."""
    patch.setattr(recovery, "crc_matches", always)


@_bug("S6", "log/test_partition_log.py::test_a_flipped_bit_on_disk_is_never_served")
def what_is_read_first_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    """Bytes that another process wrote are served without verification."""
    patch.setattr(Segment, "_verify", nothing)


@_bug("S4", "log/test_recovery.py::test_every_torn_tail_recovers_to_a_prefix")
def a_torn_tail_is_left(patch: pytest.MonkeyPatch) -> None:
    """Recovery stops at a torn tail without truncating it; the next append follows it."""
    recover = recovery.recover_segment

    def recover_without_cutting(segment: Segment, log: PartitionLog, producers: ProducerState) -> bool:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(segment.file), "truncate", nothing)
            return recover(segment, log, producers)

    patch.setattr(recovery, "recover_segment", recover_without_cutting)


@_bug("S7", "log/test_recovery.py::test_damage_below_the_recovery_point_is_not_cut_away")
def damage_of_what_was_durable_is_cut_away(patch: pytest.MonkeyPatch) -> None:
    """A log opens without records that were durable."""
    recover = recovery.recover_segment

    def recover_from_nothing(segment: Segment, log: PartitionLog, producers: ProducerState) -> bool:
        durable, log.offsets.recovery_point = log.recovery_point, 0
        try:
            return recover(segment, log, producers)
        finally:
            log.offsets.recovery_point = durable

    patch.setattr(recovery, "recover_segment", recover_from_nothing)


@_bug("S8", "log/test_index_model.py::TestIndexModel::runTest")
def indexes_are_believed_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    """Index entries of other batches, or of none, are kept."""
    reset = Segment.reset_indexes

    def load_instead(segment: Segment) -> None:
        try:
            segment.offset_index.load()
            segment.time_index.load()
        except CorruptIndexError:
            reset(segment)
        segment.is_loaded = True

    patch.setattr(Segment, "reset_indexes", load_instead)


@_bug("S8", "log/test_recovery.py::test_a_second_recovery_changes_nothing")
def aborted_transactions_are_added_to_those_of_before_the_crash(patch: pytest.MonkeyPatch) -> None:
    """The transaction index is not cleared before it is rebuilt."""

    def believe(index: TransactionIndex) -> None:
        index.is_checked = True

    patch.setattr(TransactionIndex, "reset", believe)


@_bug("S8", "log/test_producer_state.py::test_a_producer_snapshot_of_truncated_records_is_not_used")
def a_snapshot_ahead_of_the_log_is_kept(patch: pytest.MonkeyPatch) -> None:
    """Producer state keeps the batches that were truncated."""
    patch.setattr(ProducerSnapshots, "remove_from", nothing)


@_bug("S8", "log/test_recovery.py::test_without_snapshots_a_clean_log_replays_its_producers")
def a_broken_snapshot_is_the_end_of_it(patch: pytest.MonkeyPatch) -> None:
    """Replay of producers begins at the newest snapshot's offset even if that snapshot is unreadable."""
    load = ProducerSnapshots.load_latest_in_steps

    def load_or_skip(
        snapshots: ProducerSnapshots, state: ProducerState, start_offset: int, end_offset: int
    ) -> Iterator[None]:
        newest = max((offset for offset in snapshots.offsets if start_offset <= offset <= end_offset), default=None)
        yield from load(snapshots, state, start_offset, end_offset)
        if newest is not None:
            state.end_offset = newest

    patch.setattr(ProducerSnapshots, "load_latest_in_steps", load_or_skip)


@_bug("T1", "log/test_recovery.py::test_the_last_five_batches_of_a_producer_survive_a_restart")
def a_restart_forgets_recent_batches(patch: pytest.MonkeyPatch) -> None:
    """After a restart, only the last batch of a producer is known, as in its snapshot."""
    patch.setattr(recovery, "recall_recent_batches", nothing)


@_bug("T13", "log/test_recovery.py::test_a_clean_close_is_opened_without_a_scan")
def a_restart_forgets_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """Open transactions in a snapshot count as ended."""
    put_all = ProducerState.put_all

    def put_without_transactions(state: ProducerState, entries: Any) -> None:
        put_all(state, entries)
        state._ongoing.clear()

    patch.setattr(ProducerState, "put_all", put_without_transactions)


@_bug("S8", "log/test_producer_state.py::test_truncation_restores_earlier_producer_state")
def a_cut_leaves_its_producers(patch: pytest.MonkeyPatch) -> None:
    """After a truncation, producers still have the truncated batches."""
    patch.setattr(truncation, "replay_producers_in_steps", lambda log: iter(()))


@_bug("S8", "log/test_unsettled_cuts.py::test_the_last_stable_offset_is_the_log_start_until_transactions_are_derived")
def a_cut_keeps_no_reader_back(patch: pytest.MonkeyPatch) -> None:
    """Before a truncation has found open transactions again, read_committed consumers receive their records."""
    begin = PendingTruncation.__init__

    def begin_as_if_known(cut: PendingTruncation, log: PartitionLog, files: Any) -> None:
        begin(cut, log, files)
        log.producers.is_derived = True

    patch.setattr(PendingTruncation, "__init__", begin_as_if_known)


@_bug("S8", "cluster/test_group_commit.py::test_a_new_leader_completes_its_pending_truncation")
def a_leader_does_not_wait_for_its_cut(patch: pytest.MonkeyPatch) -> None:
    """A new leader appends a duplicate batch, because its producer state is not derived yet."""
    patch.setattr(PartitionLog, "complete_truncation", nothing)


@_bug("S13", "log/test_recovery.py::test_a_finished_swap_replaces_the_segments_it_was_made_from")
def a_decided_swap_is_not_completed(patch: pytest.MonkeyPatch) -> None:
    """After a crash, the compacted segment stays a .swap file next to its sources."""
    patch.setattr(recovery, "_complete_swaps", nothing)


@_bug("S13", "log/compaction/test_swap_crashes.py::test_any_renames_that_a_power_cut_undoes_leave_old_or_new")
def an_undecided_swap_is_completed(patch: pytest.MonkeyPatch) -> None:
    """A .swap file counts although its indexes are still .cleaned files."""
    undo = recovery._undo

    def undo_nothing_decided(disk: Any, directory: str, names: list[str]) -> None:
        undo(disk, directory, [name for name in names if not name.endswith(CLEANED_SUFFIX)])
        for name in names:
            if name.endswith(CLEANED_SUFFIX):
                disk.unlink(f"{directory}/{name}")

    patch.setattr(recovery, "_undo", undo_nothing_decided)


@_bug("S5", "log/test_recovery.py::test_records_left_by_a_killed_process_are_synced_when_the_log_opens")
def recovery_flushes_nothing_it_found(patch: pytest.MonkeyPatch) -> None:
    """With flush.messages=1, data that was read after a start may be lost by the next start."""
    open_log = recovery.open_log

    def open_unflushed(*arguments: Any, **named: Any) -> PartitionLog:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(PartitionLog, "flush", nothing)
            return open_log(*arguments, **named)

    patch.setattr(recovery, "open_log", open_unflushed)
    patch.setattr(log_directory, "open_log", open_unflushed)


@_bug("S15", "log/test_recovery.py::test_the_time_index_of_a_recovered_segment_has_the_largest_timestamp")
def a_closed_segment_lacks_its_largest_time(patch: pytest.MonkeyPatch) -> None:
    """The time index lacks the segment's largest timestamp, from which Kafka derives the segment's age."""
    patch.setattr(Segment, "finish", nothing)


@_bug("T13", "log/test_recovery.py::test_without_snapshots_a_clean_log_replays_its_producers")
def markers_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    """A transaction that ended after the last snapshot is open again."""
    replay_batch = replay.replay_batch

    def replay_data(header: Any, batch: Any, producers: ProducerState) -> Any:
        return None if header.is_control else replay_batch(header, batch, producers)

    patch.setattr(replay, "replay_batch", replay_data)
