"""The set of verified byte ranges against a set of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.log.ranges import Ranges

ENDS = st.tuples(st.integers(0, 40), st.integers(1, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(added=st.lists(ENDS, max_size=15), cut=st.integers(0, 50), asked=st.lists(ENDS, min_size=1))
def test_ranges_contain_exactly_the_added_bytes(
    added: list[tuple[int, int]], cut: int, asked: list[tuple[int, int]]
) -> None:
    ranges, model = Ranges(), set[int]()
    for start, end in added:
        ranges.add(start, end)
        model.update(range(start, end))
    for start, end in asked:
        assert ranges.contain(start, end) == model.issuperset(range(start, end))
        assert ranges.end_from(start) == next(byte for byte in range(start, 100) if byte not in model)
    ranges.cut(cut)
    model = {byte for byte in model if byte < cut}
    for start, end in asked:
        assert ranges.contain(start, end) == model.issuperset(range(start, end))


def test_ranges_that_touch_are_one() -> None:
    ranges = Ranges()
    for start, end in ((0, 2), (6, 8), (2, 4), (4, 6)):
        ranges.add(start, end)
    assert (ranges._starts, ranges._ends) == ([0], [8])
