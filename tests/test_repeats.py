"""Elements that a request names more than once are found in pieces."""

from __future__ import annotations

from collections import Counter
from random import Random

from kwire.chunks import CHUNK, at_once
from kwire.repeats import repeated
from tests.support.loop_steps import longest_step_of, needs_lines


def test_what_occurs_more_than_once_is_found() -> None:
    assert at_once(repeated([])) == set()
    for seed in range(50):
        random = Random(seed)
        items = [random.randrange(4 * CHUNK) for _ in range(random.randrange(5 * CHUNK))]
        assert at_once(repeated(items)) == {item for item, count in Counter(items).items() if count > 1}


@needs_lines
def test_a_step_does_not_grow_with_the_items() -> None:
    assert longest_step_of(repeated(range(100 * CHUNK))) < 10 * CHUNK
