"""State batches: ranges of offsets with the delivery state and the delivery count of their records.

The batches of a share partition are sorted and never overlap. A combination gives each offset the highest delivery
count of the batches that contain it, and the highest delivery state of those with this count. Neighbours with the same
count and state are joined. Kafka's PersisterStateBatchCombiner gives each offset the same values; it may leave two
neighbours apart that this module joins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple


class StateBatch(NamedTuple):
    """Delivery state and count of all records from `first_offset` to `last_offset`, both included."""

    first_offset: int
    last_offset: int
    delivery_state: int
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int


Batches = tuple[StateBatch, ...]
NO_OFFSET = -1
NEAR = 1
"""Batches between two ranges that are swept together: a sweep of a batch more takes less time than another sweep."""


def combine(so_far: Batches, new: Iterable[StateBatch], start_offset: int) -> Batches:
    """Return the combination of sorted batches with new ones, without offsets below `start_offset` unless it is -1.

    The time depends on the number of new batches and of those that they touch, apart from copying the others.
    """
    added = [batch for batch in new if batch.first_offset <= batch.last_offset]
    if start_offset != NO_OFFSET:
        so_far = _without_prefix(so_far, start_offset)
        added = [_clipped(batch, start_offset) for batch in added if batch.last_offset >= start_offset]
    added.sort()
    combined: list[StateBatch] = []
    position = index = 0
    while index < len(added):
        low, high, end = _touched(so_far, added, index, position)
        combined += so_far[position:low]
        combined += _swept([*so_far[low:high], *added[index:end]])
        position, index = high, end
    return (*combined, *so_far[position:]) if added else so_far


def _touched(so_far: Batches, added: Sequence[StateBatch], index: int, position: int) -> tuple[int, int, int]:
    """Return which batches from `position` on touch the new batch at `index`, or others that touch it.

    The result is their range in `so_far`, and the end of the new ones among them.
    """
    low = high = bisect_left(so_far, added[index].first_offset - 1, lo=position, key=_last_offset)
    reach = added[index].first_offset
    while index < len(added) and added[index].first_offset <= reach + 1:
        reach = max(reach, added[index].last_offset)
        high = min(bisect_right(so_far, reach + 1, lo=high, key=_first_offset) + NEAR, len(so_far))
        if high == len(so_far):
            return low, high, len(added)
        reach = max(reach, so_far[high - 1].last_offset)
        index += 1
    return low, high, index


def in_order(batches: Batches) -> Batches:
    """Return the batches of a record, combined if they are not sorted or overlap."""
    is_sorted = all(before.last_offset < after.first_offset for before, after in pairwise(batches))
    return batches if is_sorted else combine((), batches, NO_OFFSET)


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset


def _last_offset(batch: StateBatch) -> int:
    return batch.last_offset


def _without_prefix(batches: Batches, start_offset: int) -> Batches:
    """Return sorted batches without the offsets below `start_offset`."""
    kept = batches[bisect_left(batches, start_offset, key=_last_offset) :]
    return (_clipped(kept[0], start_offset), *kept[1:]) if kept and kept[0].first_offset < start_offset else kept


def _clipped(batch: StateBatch, start_offset: int) -> StateBatch:
    return batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)


def _swept(batches: Sequence[StateBatch]) -> Batches:
    """Return the combination of batches in any order: a sweep over the offsets.

    The heap has the batches that have begun; its top decides up to its end or the beginning of a higher batch.
    """
    waiting = sorted(batches, reverse=True)
    if _is_combined(waiting):
        return tuple(reversed(waiting))
    begun: list[tuple[int, int, int]] = []
    """Negative delivery count, negative delivery state and last offset."""
    runs: list[StateBatch] = []
    offset = 0
    while waiting or begun:
        if not begun:
            offset = waiting[-1][0]
        while waiting and waiting[-1][0] <= offset:
            _, last_offset, state, count = waiting.pop()
            heappush(begun, (-count, -state, last_offset))
        while begun and begun[0][2] < offset:
            heappop(begun)
        if begun:
            count, state, _ = begun[0]
            last_offset = _end_of_top(begun, waiting)
            _append_run(runs, StateBatch(offset, last_offset, -state, -count))
            offset = last_offset + 1
    return tuple(runs)


def _end_of_top(begun: list[tuple[int, int, int]], waiting: list[StateBatch]) -> int:
    """Return the offset up to which the top of the heap decides; move lower batches that begin before it to the heap.

    A lower batch that also ends before it decides nothing, and is dropped.
    """
    top_count, top_state, last_offset = begun[0]
    while waiting and waiting[-1][0] <= last_offset:
        first, last, state, count = waiting[-1]
        if (-count, -state) < (top_count, top_state):
            return first - 1
        waiting.pop()
        if last > last_offset:
            heappush(begun, (-count, -state, last))
    return last_offset


def _append_run(runs: list[StateBatch], run: StateBatch) -> None:
    """Append a run, joined with the last one if that is its neighbour with the same state and count."""
    if runs and runs[-1][1] + 1 == run[0] and runs[-1][2:] == run[2:]:
        run = StateBatch(runs.pop()[0], *run[1:])
    runs.append(run)


def _is_combined(backwards: Sequence[StateBatch]) -> bool:
    """Return True if sorted batches, the last one first, neither overlap nor can be joined."""
    return all(
        before[1] < after[0] - 1 or (before[1] < after[0] and before[2:] != after[2:])
        for after, before in pairwise(backwards)
    )
