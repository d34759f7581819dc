"""Combination of state batches, compared with a model that stores the state of each offset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.share.batches import NO_OFFSET, Batches, StateBatch, combine, in_order

LAST = 24


def states() -> st.SearchStrategy[StateBatch]:
    """Return batches with few offsets, states and counts, so that they often overlap and touch."""
    offsets = st.tuples(st.integers(0, LAST), st.integers(0, LAST))
    return st.builds(_batch, offsets, st.sampled_from([0, 2, 4]), st.integers(1, 3))


def _batch(offsets: tuple[int, int], state: int, count: int) -> StateBatch:
    return StateBatch(min(offsets), max(offsets), state, count)


def model(batches: Iterable[StateBatch], start_offset: int) -> dict[int, tuple[int, int]]:
    """Return the highest (count, state) of each offset."""
    best: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(max(first, start_offset), last + 1):
            best[offset] = max(best.get(offset, (0, 0)), (count, state))
    return best


def spread(batches: Sequence[StateBatch]) -> dict[int, tuple[int, int]]:
    return {offset: (count, state) for first, last, state, count in batches for offset in range(first, last + 1)}


def assert_sorted_and_joined(batches: Batches) -> None:
    assert all(batch.first_offset <= batch.last_offset for batch in batches)
    for before, after in pairwise(batches):
        assert before.last_offset < after.first_offset
        assert before.last_offset + 1 < after.first_offset or before[2:] != after[2:]


@given(st.lists(states(), max_size=12), st.integers(NO_OFFSET, LAST + 2))
def test_each_offset_has_the_highest_count_and_state(batches: list[StateBatch], start_offset: int) -> None:
    combined = combine((), batches, start_offset)
    assert spread(combined) == model(batches, start_offset)
    assert_sorted_and_joined(combined)


@given(
    st.lists(st.lists(states(), max_size=6), max_size=5),
    st.lists(st.integers(NO_OFFSET, LAST + 2), min_size=5, max_size=5),
)
def test_changes_one_after_another_are_like_all_at_once(changes: list[list[StateBatch]], starts: list[int]) -> None:
    so_far: Batches = ()
    expected: dict[int, tuple[int, int]] = {}
    for new, start_offset in zip(changes, starts, strict=False):
        expected = model([*_as_batches(expected), *new], start_offset)
        so_far = combine(so_far, new, start_offset)
        assert spread(so_far) == expected
        assert_sorted_and_joined(so_far)


def _as_batches(states_by_offset: dict[int, tuple[int, int]]) -> list[StateBatch]:
    return [StateBatch(offset, offset, state, count) for offset, (count, state) in states_by_offset.items()]


@given(st.lists(states(), max_size=8))
def test_batches_of_a_record_are_put_in_order(batches: list[StateBatch]) -> None:
    ordered = in_order(tuple(batches))
    assert spread(ordered) == model(batches, NO_OFFSET)
    assert in_order(ordered) is ordered


@pytest.mark.parametrize(
    ("so_far", "new", "start_offset", "combined"),
    [
        ([(100, 110, 0, 1)], [(100, 110, 0, 1)], -1, [(100, 110, 0, 1)]),
        ([(100, 110, 0, 1)], [(105, 108, 0, 2)], -1, [(100, 104, 0, 1), (105, 108, 0, 2), (109, 110, 0, 1)]),
        ([(100, 110, 0, 1)], [(111, 119, 0, 1)], -1, [(100, 119, 0, 1)]),
        ([(100, 110, 0, 2)], [(105, 120, 0, 1)], -1, [(100, 110, 0, 2), (111, 120, 0, 1)]),
        ([(100, 110, 0, 1)], [(100, 110, 4, 1)], -1, [(100, 110, 4, 1)]),
        ([(100, 110, 0, 1), (120, 130, 2, 1)], [], 125, [(125, 130, 2, 1)]),
        ([(100, 110, 0, 1)], [(90, 95, 2, 1)], 111, []),
    ],
)
def test_examples(
    so_far: list[tuple[int, int, int, int]],
    new: list[tuple[int, int, int, int]],
    start_offset: int,
    combined: list[tuple[int, int, int, int]],
) -> None:
    before = tuple(StateBatch(*each) for each in so_far)
    assert list(combine(before, [StateBatch(*each) for each in new], start_offset)) == combined


def test_a_change_leaves_the_other_batches_as_they_are() -> None:
    before = tuple(StateBatch(10 * number, 10 * number + 4, 2, 1) for number in range(1000))
    after = combine(before, [StateBatch(5000, 5001, 2, 2)], NO_OFFSET)
    assert len(after) == 1001
    assert all(new is old for new, old in zip(after[:500], before[:500], strict=True))
    assert all(new is old for new, old in zip(after[503:], before[502:], strict=True))
