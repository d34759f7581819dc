"""Bugs in the state derived from a log's batches: offsets, lookups, epochs, producers, transactions."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import Any, Final

import pytest

from kwire.log import batch_validation, index, lookup, partition_log, producer_state
from kwire.log.append_result import AppendResult
from kwire.log.index import TimeIndex
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_state import NO_TRANSACTION, ProducerEntry, ProducerState
from kwire.log.segment import Segment
from kwire.log.transaction_index import AbortedTransaction, TransactionIndex
from kwire.protocol.records import BatchHeader
from kwire.protocol.wrapping import SEQUENCE_MAX
from tests.planted.bug import Catalogue, nothing

STATE_BUGS: Final = Catalogue()
_bug = STATE_BUGS.bug


@_bug("S3", "log/test_partition_log.py::test_replicated_batches_must_follow_the_log")
def replicated_batches_need_not_follow_the_log(patch: pytest.MonkeyPatch) -> None:
    """A leader's batches are stored at their given offsets, even if these do not continue the log."""
    check = batch_validation.check_assigned_offsets

    def check_nothing(batches: memoryview, next_offset: int, leader_epoch: int | None) -> Any:
        return check(batches, int.from_bytes(batches[:8], "big"), leader_epoch)

    patch.setattr(partition_log, "check_assigned_offsets", check_nothing)


@_bug("S2", "log/test_partition_log.py::test_a_read_does_not_go_beyond_its_limit_offset")
def a_read_passes_its_limit(patch: pytest.MonkeyPatch) -> None:
    """A reader receives batches above the high watermark, which may still change."""
    read = Segment.read

    def read_on(segment: Segment, offset: int, max_bytes: int, _: Any, budget: Any, *, min_one_batch: bool) -> Any:
        return read(segment, offset, max_bytes, None, budget, min_one_batch=min_one_batch)

    patch.setattr(Segment, "read", read_on)


@_bug("S8", "log/test_index_model.py::TestIndexModel::runTest")
def a_time_is_looked_up_one_entry_too_far(patch: pytest.MonkeyPatch) -> None:
    """A search by timestamp begins after records with that timestamp."""

    def count_one(values: array[int], wanted: int) -> int:
        found = bisect_left(values, wanted)
        return min(found + 1, len(values)) if values.typecode == "q" else found

    patch.setattr(index, "bisect_left", count_one)


@_bug(
    "S8", "log/test_index.py::test_offset_index_bytes_and_lookups", "log/test_index_model.py::TestIndexModel::runTest"
)
def an_offset_is_looked_up_one_entry_too_far(patch: pytest.MonkeyPatch) -> None:
    """A lookup begins after the batch that contains the offset."""

    patch.setattr(index, "bisect_right", lambda values, wanted: min(bisect_right(values, wanted) + 1, len(values)))


@_bug("S8", "log/test_index.py::test_cutting_an_index_cuts_what_is_written_and_what_is_not")
def a_cut_leaves_its_times(patch: pytest.MonkeyPatch) -> None:
    """The time index keeps entries of truncated batches."""
    patch.setattr(TimeIndex, "truncate_to_offset", nothing)


@_bug("S8", "log/test_producer_state.py::test_truncation_removes_later_aborted_transactions")
def a_cut_leaves_its_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    """The transaction index keeps entries of truncated markers."""
    patch.setattr(TransactionIndex, "truncate", nothing)


@_bug(
    "T13",
    "log/test_producer_state.py::test_aborted_transactions_are_listed_for_overlapping_offset_ranges",
    "log/test_index_model.py::TestIndexModel::runTest",
)
def an_aborted_transaction_at_the_end_of_a_read_is_left_out(patch: pytest.MonkeyPatch) -> None:
    """An aborted transaction whose first record is the last one read is not listed: the record counts as committed."""
    aborted_transactions = lookup.aborted_transactions

    def one_less(segments: Any, start_offset: int, end_offset: int, *others: Any) -> list[AbortedTransaction]:
        return aborted_transactions(segments, start_offset, end_offset - 1, *others)

    patch.setattr(lookup, "aborted_transactions", one_less)


@_bug("T13", "log/test_producer_state.py::test_the_last_stable_offset_waits_for_the_marker_and_for_replication")
def the_last_stable_offset_passes_an_open_transaction(patch: pytest.MonkeyPatch) -> None:
    """Only the oldest of several open transactions is known."""
    update = ProducerState.update

    def update_one(state: ProducerState, header: Any, base_offset: int) -> None:
        known = dict(state._ongoing)
        update(state, header, base_offset)
        if known:
            state._ongoing = OrderedDict(known | {header.producer_id: known.get(header.producer_id, 2**62)})

    patch.setattr(ProducerState, "update", update_one)


@_bug("S10", "log/test_producer_state.py::test_the_last_stable_offset_waits_for_the_marker_and_for_replication")
def the_last_stable_offset_passes_a_marker_that_is_not_replicated(patch: pytest.MonkeyPatch) -> None:
    """A transaction counts as decided once its marker is stored, before the marker is replicated."""
    first_unstable = ProducerState.first_unstable_offset

    def first_open(state: ProducerState, high_watermark: int) -> int | None:
        state._unreplicated.clear()
        return first_unstable(state, high_watermark)

    patch.setattr(ProducerState, "first_unstable_offset", first_open)


@_bug("S9", "log/test_checkpoints.py::test_epochs_only_grow_and_empty_ones_are_replaced")
def epochs_may_go_back(patch: pytest.MonkeyPatch) -> None:
    """A batch of an older epoch begins that epoch again."""

    def assign(epochs: LeaderEpochs, epoch: int, start_offset: int) -> bool:
        epochs._entries.append((epoch, start_offset))
        epochs._changed()
        return True

    patch.setattr(LeaderEpochs, "assign", assign)


@_bug("S9", "log/test_checkpoints.py::test_epochs_are_cut_at_both_ends")
def the_log_start_takes_its_epoch_along(patch: pytest.MonkeyPatch) -> None:
    """When the log start advances, the epoch that contains it is removed with the earlier ones."""

    def truncate(epochs: LeaderEpochs, start_offset: int) -> None:
        epochs._entries = [entry for entry in epochs._entries if entry[1] >= start_offset]
        epochs._changed()

    patch.setattr(LeaderEpochs, "truncate_from_start", truncate)


@_bug("S9", "log/test_checkpoints.py::test_the_end_offset_of_a_leader_epoch")
def an_older_epoch_ends_where_the_log_does(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps records that the leader never had, because an older epoch's end is too high."""

    def end_offset_for(epochs: LeaderEpochs, epoch: int, log_end_offset: int) -> tuple[int, int]:
        return min(epoch, epochs.latest_epoch), log_end_offset

    patch.setattr(LeaderEpochs, "end_offset_for", end_offset_for)


@_bug("T1", "log/test_producer_state.py::test_each_of_the_last_five_batches_finds_its_offset")
def a_repeated_batch_is_answered_with_a_new_offset(patch: pytest.MonkeyPatch) -> None:
    """A duplicate is not stored, but its response contains the offset of another record."""
    check = PartitionLog._check_producer

    def check_and_tell_the_end(log: PartitionLog, *arguments: Any) -> AppendResult | None:
        found = check(log, *arguments)
        if found is None:
            return None
        end = log.log_end_offset
        return AppendResult(end, end + found.last_offset - found.base_offset, -1, log.log_start_offset, True)

    patch.setattr(PartitionLog, "_check_producer", check_and_tell_the_end)


@_bug("T1", "log/test_producer_state.py::test_each_of_the_last_five_batches_finds_its_offset")
def four_batches_are_remembered(patch: pytest.MonkeyPatch) -> None:
    """A duplicate of the fifth batch in flight counts as a gap in the sequence."""
    patch.setattr(producer_state, "BATCHES_KEPT", 4)


@_bug("T1", "log/test_producer_state.py::test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero")
def a_batch_of_another_epoch_is_a_duplicate(patch: pytest.MonkeyPatch) -> None:
    """The first batch of a new producer epoch counts as a duplicate of the old epoch's batch."""

    def find_duplicate(entry: ProducerEntry, header: Any) -> Any:
        found = [batch for batch in entry.batches if batch.first_sequence == header.base_sequence]
        return found[0] if found and found[0].last_sequence == header.last_sequence else None

    patch.setattr(ProducerEntry, "find_duplicate", find_duplicate)


@_bug("T2", "log/test_producer_state.py::test_sequences_wrap_to_zero_after_int32_max")
def sequences_do_not_wrap(patch: pytest.MonkeyPatch) -> None:
    """After sequence number 2^31 - 1, every batch is out of order."""
    check_sequence = producer_state._check_sequence

    def check(entry: ProducerEntry, header: Any) -> None:
        judged = BatchHeader(*header.values())
        if entry.last_sequence == SEQUENCE_MAX:
            judged.base_sequence += 1
        check_sequence(entry, judged)

    patch.setattr(producer_state, "_check_sequence", check)


@_bug("T2", "log/test_producer_state.py::test_sequences_wrap_to_zero_after_int32_max")
def a_batch_that_wraps_begins_below_zero(patch: pytest.MonkeyPatch) -> None:
    """The first sequence number of a batch across the wrap is wrong, so that its duplicate is not detected."""
    stored = producer_state.StoredBatch
    patch.setattr(stored, "first_sequence", property(lambda batch: batch.last_sequence - batch.offset_delta))


@_bug("T2", "log/test_producer_state_model.py::TestProducerModel::runTest")
def a_marker_leaves_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """The epoch of a marker does not fence the previous epoch."""
    update_marker = ProducerState.update_marker

    def update(state: ProducerState, header: Any, marker: Any, offset: int) -> Any:
        entry = state.entries.get(header.producer_id)
        epoch, batches = (entry.producer_epoch, entry.batches) if entry is not None else (header.producer_epoch, [])
        completed = update_marker(state, header, marker, offset)
        entry = state.entries[header.producer_id]
        entry.producer_epoch, entry.batches = epoch, batches
        return completed

    patch.setattr(ProducerState, "update_marker", update)


@_bug("T13", "log/test_producer_state.py::test_silent_producers_are_forgotten_but_not_open_transactions")
def a_silent_transaction_expires(patch: pytest.MonkeyPatch) -> None:
    """A producer expires although its transaction is open."""

    def expire(state: ProducerState, now_ms: int, expiration_ms: int) -> int:
        old = [key for key, entry in state.entries.items() if now_ms - entry.last_timestamp >= expiration_ms]
        for key in old:
            del state.entries[key]
        return len(old)

    patch.setattr(ProducerState, "expire", expire)


@_bug("T13", "log/test_producer_state_model.py::TestProducerModel::runTest")
def a_transaction_begins_with_its_last_batch(patch: pytest.MonkeyPatch) -> None:
    """Every batch of a transaction counts as its first one."""
    update = ProducerState.update

    def update_again(state: ProducerState, header: Any, base_offset: int) -> None:
        entry = state.entries.get(header.producer_id)
        if entry is not None:
            entry.current_transaction_first_offset = NO_TRANSACTION
        update(state, header, base_offset)

    patch.setattr(ProducerState, "update", update_again)
