"""Share groups in a history: operations of clients become the events that the checker of share groups reads."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.history.checker import check
from tests.history.operations import FAIL, INFO, NEVER, OK, Acknowledge, Acquire, Drained, Operation, Send, Unreadable
from tests.history.share_events import ACCEPT, REJECT, RELEASE

SECOND = 1_000_000_000
GROUP = "sharers"
KEY = "history-1"


def times(begin: float, end: float | None, outcome: str = OK) -> dict[str, object]:
    completed = NEVER if end is None else end * SECOND
    return {"process": "p", "invoked": begin * SECOND, "completed": completed, "outcome": outcome}


def sent(offset: int, outcome: str = OK) -> Operation:
    return Send(**times(0, 1, outcome), key=KEY, value=f"v{offset}", offset=offset)  # type: ignore[arg-type]


def acquired(begin: float, *offsets: int, count: int = 1, group: str = GROUP) -> Operation:
    records = [(KEY, offset, count) for offset in offsets]
    return Acquire(**times(begin, begin + 1), group=group, records=records)  # type: ignore[arg-type]


def unreadable(begin: float, offset: int) -> Operation:
    return Unreadable(**times(begin, begin + 1), group=GROUP, records=[(KEY, offset, "CRC")])  # type: ignore[arg-type]


def ended(begin: float, *offsets: int, kind: int = ACCEPT, outcome: str = OK, group: str = GROUP) -> Operation:
    end = None if outcome == INFO else begin + 1
    return Acknowledge(**times(begin, end, outcome), group=group, key=KEY, offsets=list(offsets), acknowledge_type=kind)  # type: ignore[arg-type]


def drained(*keys: str) -> Operation:
    return Drained(**times(90, 91), group=GROUP, keys=list(keys or [KEY]))  # type: ignore[arg-type]


def found(operations: Sequence[Operation]) -> set[str]:
    """Return the names of the anomalies of share groups. Other checks report that these writes have no reader."""
    names = {
        *("delivered after completion", "lost record", "lower delivery count", "delivery limit exceeded"),
        "unreadable record",
    }
    return {finding.name for finding in check(operations).findings if finding.name in names}


@pytest.mark.parametrize(
    ("operations", "anomaly"),
    [
        ([sent(3), acquired(2, 3), ended(4, 3), acquired(6, 3, count=2)], "delivered after completion"),
        ([sent(3), acquired(2, 3), ended(4, 3, kind=REJECT), acquired(6, 3, count=2)], "delivered after completion"),
        ([sent(3), sent(4), acquired(2, 3), ended(4, 3), drained()], "lost record"),
        ([sent(3), acquired(2, 3), ended(4, 3, outcome=FAIL), drained()], "lost record"),
        ([sent(3), acquired(2, 3), ended(4, 3, kind=RELEASE), drained()], "lost record"),
        ([sent(3), drained()], "lost record"),
        ([sent(3), acquired(2, 3, count=2), ended(4, 3, kind=RELEASE), acquired(6, 3)], "lower delivery count"),
        ([sent(3), acquired(2, 3, count=11)], "delivery limit exceeded"),
        ([sent(3), unreadable(2, 3), acquired(4, 3, count=2), ended(5, 3)], "unreadable record"),
    ],
)
def test_an_anomaly_of_a_share_group_is_found(operations: list[Operation], anomaly: str) -> None:
    assert anomaly in found(operations)


@pytest.mark.parametrize(
    "operations",
    [
        [sent(3), acquired(2, 3), ended(4, 3), drained()],
        [sent(3), acquired(2, 3), ended(4, 3, outcome=INFO), drained()],
        [sent(3), acquired(2, 3), ended(4, 3, kind=RELEASE), acquired(6, 3, count=2), ended(8, 3), drained()],
        [sent(3), acquired(2, 3), ended(4, 3), acquired(4.5, 3, count=2), drained()],
        [sent(3), acquired(2, 3), ended(4, 3), acquired(6, 3, group="others")],
        [sent(3), sent(4, outcome=INFO), acquired(2, 3), ended(4, 3), drained()],
        [sent(3), acquired(2, 3, count=10), ended(4, 3, kind=RELEASE), drained()],
        [sent(3), acquired(2, 3), ended(4, 3, kind=RELEASE)],
    ],
)
def test_a_correct_history_of_a_share_group_has_no_finding(operations: list[Operation]) -> None:
    assert found(operations) == set()
