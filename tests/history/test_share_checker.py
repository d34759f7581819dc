"""Anomalies of share histories: each is found in histories that have it, and not in similar ones."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.history.share_checker import (
    ANOMALIES,
    DOUBLE,
    EXCEEDED,
    FOREIGN,
    LOST,
    LOWER,
    REPEATED,
    REWOUND,
    SKIPPED,
    check_shares,
)
from tests.history.share_text import share_history

LOCK_SECONDS: Final = 10.0
LIMIT: Final = 3
CASES_MIN: Final = 5
BAD: Final[dict[str, tuple[str, ...]]] = {
    DOUBLE: (
        "0-1 a takes 0 x1 \n 2-3 b takes 0 x2 \n 4-5 a alive",
        "0-1 a takes 0..9 x1 \n 2-3 b takes 5..9 x2 \n 4-5 a accepts 0..9",
        "0-1 a takes 0 x1 \n 2-3 a takes 0 x2 \n 4-5 a accepts 0",
        "0-1 a takes 0 x1 \n 2-3 a releases 0 \n 4-5 b takes 0 x2 \n 6-7 a takes 0 x3 \n 8-9 b alive",
        "p1 0-1 a takes 0 x1 \n p1 2-3 b takes 0 x2 \n p0 4-5 a takes 7 x1",
    ),
    FOREIGN: (
        "0-1 a takes 0 x1 \n 11-12 b takes 0 x2 \n 13-14 a accepts 0 \n 15-16 b alive",
        "0-1 a takes 0 x1 \n 2-3 b accepts 0 \n 4-5 a alive",
        "0-1 a takes 0..3 x1 \n 2-3 b releases 3 \n 4-5 a accepts 0..3",
        "0-1 a takes 0 x1 \n 2-3 b rejects 0 \n 4-5 a accepts 0 fails",
        "0-1 a takes 0 x1 in L2 \n 2-3 b accepts 0 in L2 \n 4-5 a takes 9 x1 in L2",
    ),
    LOWER: (
        "0-1 a takes 0 x1 \n 12-13 b takes 0 x1",
        "0-1 a takes 0 x2 \n 12-13 b takes 0 x1",
        "0-1 a takes 0 x1 in L1 \n 2-3 a releases 0 in L1 \n 4-5 b takes 0 x1 in L2",
        "0-1 a takes 0..4 x2 \n 2-3 a releases 0..4 \n 4-5 b takes 4..6 x2 in L2",
        "0-2 a takes 0 x1 \n 1-3 b takes 0 x1",
    ),
    EXCEEDED: (
        "0-1 a takes 0 x4",
        "0-1 a takes 0 x3 \n 12-13 b takes 0 x4",
        "0-1 a takes 0 x3 \n 2-3 a releases 0 \n 4-5 a takes 0 x4 in L2",
        "0-1 a takes 0..2 x3 \n p1 0-1 a takes 0 x4",
        "0-1 a takes 5 x9 in ?",
    ),
    REPEATED: (
        "0-1 a takes 0 x1 \n 2-3 a accepts 0 \n 4-5 b takes 0 x2",
        "0-1 a takes 0 x1 \n 2-3 a accepts 0 \n 4-5 b takes 0 x1 in L2",
        "0-1 a takes 0 x1 \n 2-3 a rejects 0 \n 3-5 a takes 0 x2",
        "0-1 a takes 0..4 x1 \n 2-3 a accepts 0..3 \n 4-5 b takes 3..4 x2",
        "0-1 a takes 0 x1 \n 2-3 b takes 0 x1 in L2 \n 4-5 b accepts 0 in L2 \n 6-7 a takes 0 x2 in L2",
        "0-1 a takes 0 x1 \n 2-3 b takes 0 x1 in L2 \n 4-5 b accepts 0 in L2 \n 6-7 a takes 0 x2 in L3",
        "2-3 b takes 0 x1 in L2 \n 4-5 b accepts 0 in L2 \n 6-7 a takes 0 x1 in L2?",
        "2-3 b takes 0 x1 in L2 \n 4-5 b accepts 0 in L2? \n 6-7 a takes 0 x1 in L3",
        "0-1 a takes 0 x1 \n 2- a rejects 0 \n 13-14 b takes 0 x2 \n 15-16 b accepts 0 \n 17-18 c takes 0 x3 in ?",
    ),
    SKIPPED: (
        "0-1 sent 0..4 \n 2-3 start 1",
        "0-1 sent 0..4 \n 2-3 a takes 0..4 x1 \n 4-5 start 5 \n 6-7 a accepts 0..4",
        "0-1 sent 0..4 \n 2-3 a takes 0..4 x1 \n 4-5 a accepts 0..3 \n 6-7 start 5 \n 8-9 b takes 4 x2",
        "0-1 sent 0 \n 2-3 a takes 0 x1 \n 4-5 a releases 0 \n 6-7 start 1",
        "0-1 sent 0 \n 2-3 a takes 0 x1 \n 4-5 a accepts 0 fails \n 6-7 start 1",
    ),
    REWOUND: (
        "0-1 start 5 \n 2-3 start 4",
        "0-1 start 5 \n 1-2 start 4",
        "0-1 start 2 \n 2-3 start 5 \n 4-5 start 3",
        "0-1 start 5 \n 0-4 start 6 \n 2-3 start 4",
        "p1 0-1 start 5 \n p0 2-3 start 7 \n p1 4-5 start 4",
    ),
    LOST: (
        "0-1 sent 0",
        "0-1 sent 0 \n 2-3 a takes 0 x1",
        "0-1 sent 0 \n 2-3 a takes 0 x1 \n 4-5 a releases 0",
        "0-1 sent 0..1 \n 2-3 a takes 0..1 x1 \n 4-5 a accepts 0",
        "0-1 sent 0 \n 2-3 a takes 0 x1 \n 4-5 a accepts 0 fails \n 6- fetch",
    ),
}  # fmt: skip
FINE: Final[dict[str, tuple[str, ...]]] = {
    DOUBLE: (
        "0-1 a takes 0 x1 \n 9.5-11 b takes 0 x2 \n 12-13 a alive",
        "0-1 a takes 0 x1 \n 2- a releases 0 \n 3-4 b takes 0 x2 \n 5-6 a alive",
        "0-1 a takes 0 x1 in L1 \n 2-3 b takes 0 x1 in L2 \n 4-5 a alive",
        "0-1 a takes 0 x1 \n 2-3 b takes 0 x2",
        "0-1 a takes 0 x1 in ? \n 2-3 b takes 0 x2 in ? \n 4-5 a alive",
        "0-1 a takes 0..4 x1 \n 2-3 b takes 5..9 x1 \n 4-5 a alive",
    ),
    FOREIGN: (
        "0-1 a takes 0 x1 \n 11-12 b takes 0 x2 \n 13-14 a accepts 0 fails \n 15-16 b alive",
        "0-1 a takes 0 x1 \n 9.5-11 b accepts 0 \n 12-13 a alive",
        "0-1 a takes 0 x1 \n 11-12 b takes 0 x2 \n 13-15 b accepts 0 \n 14-15 a accepts 0 \n 16-17 b alive",
        "0-1 a takes 0 x1 in L1 \n 2-3 b accepts 0 in L2 \n 4-5 a alive",
        "0-1 a takes 0 x1 \n 2- b accepts 0 \n 4-5 a alive",
    ),
    LOWER: (
        "0-1 a takes 0 x1 \n 12-13 b takes 0 x2",
        "0-1 a takes 0 x2 in L1 \n 12-13 b takes 0 x1 in L2",
        "0-1 a takes 0 x1 in L1 \n 2- a releases 0 in L1 \n 4-5 b takes 0 x1 in L2",
        "0-1 a takes 0 x1 in L1 \n 2-4 a releases 0 in L1 \n 3-5 b takes 0 x1 in L2",
        "0-1 a takes 0 x2 in L1 \n 2-3 a takes 0 x1 in L2 \n 4-5 a releases 0 in L2 \n 6-7 a takes 0 x2 in L2",
        "0-1 c takes 7 x1 in L1 \n 1-2 a takes 0 x2 in L2 \n 3-4 a releases 0 in L2 \n 5-6 b takes 0 x1 in L1",
        "1-2 a takes 0 x2 in L2 \n 3-4 a releases 0 in L2 \n 5-6 b takes 0 x1 in L1",
        "0-2 a takes 0 x2 \n 1-3 b takes 0 x1",
        "0-1 a takes 0 x1 in ? \n 12-13 b takes 0 x1 in ?",
    ),
    EXCEEDED: (
        "0-1 a takes 0 x3",
        "0-1 a takes 0 x3 in L1 \n 12-13 b takes 0 x3 in L2",
        "0-1 a takes 0 x1 in L1 \n 2-3 b takes 0 x1 in L2 \n 4-5 c takes 0 x1 in L3 \n 6-7 d takes 0 x1 in L4",
        "0-1 a takes 0..2 x2 \n p1 0-1 a takes 0 x3",
        "0-1 a takes 3 x2 \n 2-3 a takes 4 x2 \n 4-5 a alive",
    ),
    REPEATED: (
        "0-1 a takes 0 x1 \n 2-4 a accepts 0 \n 3-5 b takes 0 x2",
        "0-1 a takes 0 x1 \n 2- a accepts 0 \n 4-5 b takes 0 x2",
        "0-1 a takes 0 x1 \n 2-3 a rejects 0 fails \n 12-13 b takes 0 x2",
        "0-1 a takes 0 x1 \n 2-3 a releases 0 \n 4-5 b takes 0 x2",
        "0-1 a takes 0..4 x1 \n 2-3 a accepts 0..3 \n 12-13 b takes 4 x2",
        "0-1 a takes 0 x1 \n 2-3 a accepts 0 \n p1 4-5 b takes 0 x1",
        "0-1 a takes 0 x1 \n 2-3 b takes 0 x1 in L2 \n 4-5 b accepts 0 in L2 \n 6-7 a takes 0 x2",
        "2-3 b takes 0 x1 in L2 \n 4-5 b accepts 0 in L2 \n 6-7 a takes 0 x1 in L1",
        "2-3 b takes 0 x1 in L2 \n 4-5 b accepts 0 in L2 \n 6-7 a takes 0 x1 in L1?",
        "2-3 b takes 0 x1 in L2 \n 4-5 b accepts 0 in L2? \n 6-7 a takes 0 x1 in L1",
    ),
    SKIPPED: (
        "0-1 sent 0..4 \n 2-3 start 0",
        "0-1 sent 0..4 \n 2-3 a takes 0..4 x1 \n 4-6 a accepts 0..4 \n 5-7 start 5",
        "0-1 sent 0 \n 2-3 a takes 0 x1 \n 4- a rejects 0 \n 6-7 start 1",
        "0-1 sent 0 \n 2-3 a takes 0 x3 \n 14-15 start 1",
        "0-1 sent 0 \n 2-3 a takes 0 x1 \n 4- fetch \n 5- fetch \n 14-15 start 1",
        "0-1 sent 0 \n 1-2 sent 3 \n 2-3 a takes 0 x1 \n 4-5 a accepts 0 \n 6-7 start 3",
    ),
    REWOUND: (
        "0-1 start 4 \n 2-3 start 5",
        "0-1 start 5 \n 2-3 start 5",
        "0-3 start 5 \n 2-4 start 4",
        "p1 0-1 start 5 \n p0 2-3 start 4",
        "0-1 start 3 \n 1-6 start 5 \n 4-5 start 4",
    ),
    LOST: (
        "0-1 sent 0 \n 2-3 a takes 0 x1 \n 4-5 a accepts 0",
        "0-1 sent 0 \n 2-3 a takes 0 x1 \n 4- a accepts 0",
        "0-1 sent 0 \n 2-3 a takes 0 x3",
        "0-1 sent 0 \n 2- fetch \n 3- fetch \n 4- fetch",
        "2-3 a takes 0 x1 \n 4-5 a releases 0",
        "0-1 sent 0 \n 2-3 a takes 0 x2 \n 4- fetch",
    ),
}  # fmt: skip


def _found(text: str) -> set[str]:
    return {finding.name for finding in check_shares(share_history(text), lock_seconds=LOCK_SECONDS, limit=LIMIT)}


def _cases(histories: dict[str, tuple[str, ...]]) -> list[Any]:
    return [
        pytest.param(name, text, id=f"{name} {number}")
        for name, texts in histories.items()
        for number, text in enumerate(texts)
    ]


@pytest.mark.parametrize(("anomaly", "text"), _cases(BAD))
def test_an_anomaly_is_found(anomaly: str, text: str) -> None:
    assert anomaly in _found(text)


@pytest.mark.parametrize(("anomaly", "text"), _cases(FINE))
def test_a_similar_history_does_not_have_the_anomaly(anomaly: str, text: str) -> None:
    assert anomaly not in _found(text)


def test_each_anomaly_has_enough_cases() -> None:
    assert set(BAD) == set(FINE) == set(ANOMALIES)
    assert all(len(texts) >= CASES_MIN for texts in (*BAD.values(), *FINE.values()))


def test_a_history_that_is_not_drained_may_have_incomplete_records() -> None:
    events = share_history("0-1 sent 0")
    assert not check_shares(events, lock_seconds=LOCK_SECONDS, limit=LIMIT, is_drained=False)
