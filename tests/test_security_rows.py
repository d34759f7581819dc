"""The page of the security checklist: its rows, the tests that show them, and their states."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROWS = range(1, 58)
_TEST = re.compile(r"^(?:async )?def (test_row_([0-9]{2})_\w+)", re.MULTILINE)


class Row(NamedTuple):
    """Row of the page's table."""

    number: int
    expected: str
    tests: list[str]
    state: str


def rows() -> list[Row]:
    found = []
    for line in (ROOT / "docs" / "security-rows.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0].isdigit():
            number, expected, tests, state = cells
            found.append(Row(int(number), expected, re.findall(r"`([^`]+)`", tests), state.rstrip(" |")))
    return found


def shown_rows() -> dict[str, int]:
    """Return the number of the row that each test shows, by file::name."""
    return {
        f"{path.relative_to(ROOT)}::{name}": int(number)
        for path in (ROOT / "tests").rglob("test_*.py")
        for name, number in _TEST.findall(path.read_text())
    }


def test_every_row_is_listed_once_and_in_order() -> None:
    assert [row.number for row in rows()] == list(ROWS)
    assert all(row.expected for row in rows())


def test_the_tests_of_a_row_are_those_with_its_number() -> None:
    listed = {test: row.number for row in rows() for test in row.tests}
    assert listed == shown_rows()
    assert len(listed) == sum(len(row.tests) for row in rows()), "no test is listed twice"


def test_the_state_of_a_row_is_known_and_shown() -> None:
    for row in rows():
        is_known = row.state in {"holds", "open"} or re.fullmatch(r"in part: \S.*", row.state)
        assert is_known, (row.number, row.state)
        assert row.tests or row.state == "open", row.number
