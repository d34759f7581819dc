"""Duplicate elements in a request: found in short steps."""

from __future__ import annotations

from collections import Counter
from random import Random

from kwire.chunks import at_once
from kwire.repeats import ITEMS_PER_STEP, once_each, repeated
from tests.support.loop_steps import longest_step_of, needs_lines


def test_repeated_items_are_found() -> None:
    assert at_once(repeated([])) == set()
    for seed in range(20):
        random = Random(seed)
        items = [random.randrange(4 * ITEMS_PER_STEP) for _ in range(random.randrange(5 * ITEMS_PER_STEP))]
        assert at_once(repeated(items)) == {item for item, count in Counter(items).items() if count > 1}


@needs_lines
def test_a_step_does_not_grow_with_the_items() -> None:
    assert longest_step_of(repeated(range(100 * ITEMS_PER_STEP))) < 10 * ITEMS_PER_STEP


def test_each_element_of_a_group_is_there_once_in_the_order_of_its_first_mention() -> None:
    groups = [("b", [3, 1, 3]), ("a", []), ("b", [2, 1]), ("c", [3])]
    joined = at_once(once_each(groups))
    assert [(key, list(elements)) for key, elements in joined.items()] == [("b", [3, 1, 2]), ("a", []), ("c", [3])]


@needs_lines
def test_a_step_does_not_grow_with_the_groups_or_their_elements() -> None:
    for groups in (
        [(number, [1]) for number in range(20 * ITEMS_PER_STEP)],
        [(number, list[int]()) for number in range(20 * ITEMS_PER_STEP)],
        [(0, list(range(20 * ITEMS_PER_STEP)))],
    ):
        assert longest_step_of(once_each(groups)) < 30 * ITEMS_PER_STEP
