"""Tests of what long runs expect of access control."""

from __future__ import annotations

import pytest

from tests.support.access_rights import ENTRIES, is_allowed


@pytest.mark.parametrize(
    ("entries", "expected"),
    [((), False), ((0,), True), ((1,), True), ((2,), True), ((3,), False), ((0, 3), False), ((1, 2, 4), False)],
    ids=str,
)
def test_the_check_of_rights_knows_what_the_entries_allow(entries: tuple[int, ...], expected: bool) -> None:
    assert is_allowed(ENTRIES[each] for each in entries) is expected
