"""Bugs in the removal of records: retention and compaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from kwire.log import retention
from kwire.log.compaction import candidates, filtering, swap
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.transactions import CleanedTransactions
from kwire.log.log_state import LogState
from kwire.log.partition_log import PartitionLog
from kwire.log.segment import Segment
from tests.planted.bug import Catalogue, never, nothing

CLEANING_BUGS: Final = Catalogue()
_bug = CLEANING_BUGS.bug


@_bug("S14", "log/test_retention.py::test_nothing_above_the_high_watermark_goes")
def retention_passes_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Retention removes segments above the high watermark, which some replicas lack."""
    count_past = retention.count_past

    def count_all(log: LogState, is_past: retention.IsPast, high_watermark: int, most: int) -> int:
        return count_past(log, is_past, log.log_end_offset, most)

    patch.setattr(retention, "count_past", count_all)


@_bug("S14", "log/test_retention.py::test_a_young_segment_protects_what_follows_it")
def a_young_segment_does_not_protect_what_follows_it(patch: pytest.MonkeyPatch) -> None:
    """Retention removes all segments up to the last old one, also a young one before it."""

    def past_before(log: LogState, now_ms: int) -> retention.IsPast:
        old = [segment for segment in log.segments if now_ms - segment.max_timestamp > log.config.retention_ms >= 0]
        last = old[-1].base_offset if old else -1
        return lambda segment, _: segment.base_offset <= last

    patch.setattr(retention, "_past_retention_ms", past_before)


@_bug("S14", "log/test_retention.py::test_size_keeps_at_least_what_is_allowed")
def retention_by_size_takes_one_more(patch: pytest.MonkeyPatch) -> None:
    """Retention removes one segment too many, so that less than retention.bytes remains."""

    def past(log: PartitionLog) -> Callable[[Segment, int], bool]:
        surplus = log.size_in_bytes - log.config.retention_bytes if log.config.retention_bytes >= 0 else 0

        def is_past(segment: Segment, _: int) -> bool:
            nonlocal surplus
            surplus -= segment.size
            return surplus + segment.size > 0

        return is_past

    patch.setattr(retention, "_past_retention_bytes", past)


@_bug("S14", "log/test_retention.py::test_a_compacted_topic_loses_only_deleted_records")
def a_compacted_topic_loses_old_segments(patch: pytest.MonkeyPatch) -> None:
    """retention.ms applies whatever the value of cleanup.policy is."""
    patch.setattr("kwire.log.config.LogConfig.is_deleted", property(lambda config: True))


@_bug("S13", "log/compaction/test_round.py::test_the_last_value_of_each_key_stays_at_its_offset")
def an_older_value_wins(patch: pytest.MonkeyPatch) -> None:
    """The offset map keeps the first offset of a key instead of the last one."""

    def put(offset_map: OffsetMap, keys: Sequence[bytes | None], offsets: Sequence[int]) -> None:
        for key, offset in zip(keys, offsets, strict=True):
            if key is not None:
                offset_map.offsets.setdefault(key, offset)

    patch.setattr(OffsetMap, "put", put)


@_bug("S13", "log/compaction/test_round.py::test_a_tombstone_stays_until_its_horizon_and_takes_the_value_at_once")
def tombstones_go_at_once(patch: pytest.MonkeyPatch) -> None:
    """Compaction ignores delete.retention.ms: a reader may miss a deletion."""

    def without(chosen_by: Any, chosen: Sequence[int], records: Any, header: Any) -> Sequence[int]:
        return [index for index in chosen if index not in records.tombstones]

    patch.setattr(filtering.BatchFilter, "_without_expired", without)


@_bug("S13", "log/compaction/test_round.py::test_aborted_records_go_and_markers_outlive_them")
def markers_go_before_their_records(patch: pytest.MonkeyPatch) -> None:
    """A marker gets its delete horizon although batches of its transaction remain."""
    is_marker_unneeded = CleanedTransactions.is_marker_unneeded

    def is_done(transactions: CleanedTransactions, header: Any, records: Any) -> bool:
        is_marker_unneeded(transactions, header, records)
        return True

    patch.setattr(CleanedTransactions, "is_marker_unneeded", is_done)


@_bug("S13", "log/compaction/test_round.py::test_aborted_records_go_and_markers_outlive_them")
def aborted_records_make_older_ones_obsolete(patch: pytest.MonkeyPatch) -> None:
    """The offset map contains aborted records, so that the committed record of a key is removed."""
    is_aborted = CleanedTransactions.is_aborted

    def only_while_rewriting(transactions: CleanedTransactions, header: Any) -> bool:
        return transactions._aborted_kept is not None and is_aborted(transactions, header)

    patch.setattr(CleanedTransactions, "is_aborted", only_while_rewriting)


@_bug("S13", "log/compaction/test_round.py::test_compaction_does_not_go_beyond_the_recovery_point")
def compaction_takes_what_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    """A value is removed because of a newer one that is not durable yet."""
    upper_bound = candidates._upper_bound

    def above_the_recovery_point(log: PartitionLog, *arguments: Any) -> int:
        durable, log.offsets.recovery_point = log.recovery_point, log.log_end_offset
        try:
            return upper_bound(log, *arguments)
        finally:
            log.offsets.recovery_point = durable

    patch.setattr(candidates, "_upper_bound", above_the_recovery_point)


@_bug("T1", "log/compaction/test_round.py::test_the_last_batch_of_a_producer_stays_as_an_empty_one")
def compaction_takes_a_producers_last_batch(patch: pytest.MonkeyPatch) -> None:
    """Compaction removes the last batch of a producer: after a recovery its sequence restarts."""
    patch.setattr(filtering.BatchFilter, "_is_last_of_producer", never)


@_bug("S13", "log/compaction/test_swap_crashes.py::test_a_round_that_was_overtaken_is_discarded")
def an_overtaken_round_is_swapped_in(patch: pytest.MonkeyPatch) -> None:
    """A swap restores segments that retention has removed, or removes records written after a truncation."""
    patch.setattr(swap.Swap, "is_overtaken", never)


@_bug("S13", "log/compaction/test_swap_crashes.py::test_renames_of_a_swap_step_are_synced_before_the_next_step")
def a_swap_settles_before_its_sources_are_gone(patch: pytest.MonkeyPatch) -> None:
    """The directory is not synced between the renames: a power cut may leave neither the old nor the new segments."""
    patch.setattr(swap.Swap, "sync", nothing)


@_bug(
    "S13",
    "server/compaction/test_cleaner_checkpoint.py::test_a_truncation_before_the_cleaner_starts_lowers_its_checkpoint",
)
def what_comes_where_a_log_was_cut_counts_as_compacted(patch: pytest.MonkeyPatch) -> None:
    """Records appended after a truncation count as compacted, so that deleted keys return."""
    lower = PartitionLog._lower

    def lower_all_but_the_cleaned(log: PartitionLog, *bounds: int, first_dirty: int, **others: int) -> None:
        lower(log, *bounds, first_dirty=max(first_dirty, log.offsets.first_dirty), **others)

    patch.setattr(PartitionLog, "_lower", lower_all_but_the_cleaned)
