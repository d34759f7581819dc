"""Short text form of share histories, for tests of the checker.

A text has one event a line:

    0-1 sent 0..4               records whose append was acknowledged, invoked at 0 and completed at 1
    2-3 a takes 0..4 x1 in L1   delivery to session a with delivery count 1, in lease L1
    4-5 a accepts 0..2          acknowledgement: accepts, releases or rejects; "fails" follows one that was rejected
    5-6 a alive                 response in session a
    6- fetch                    share fetch without a response; acknowledgements may have none either
    7-8 start 3                 start offset
    p1 7-8 start 3              event of partition 1

The default lease is L1, whose leader epoch is 1. "in ?" is an unknown one, and "in L1?" one that may have changed since
the request was sent.
"""

from __future__ import annotations

import re
from typing import Final

from tests.history.share_events import (
    ACCEPT,
    FAIL,
    INFO,
    NEVER,
    OK,
    REJECT,
    RELEASE,
    Acknowledged,
    Alive,
    Delivery,
    Event,
    Lease,
    Sent,
    Start,
    Unanswered,
)

KINDS: Final = {"accepts": ACCEPT, "releases": RELEASE, "rejects": REJECT}
_LINE: Final = re.compile(
    r"(?:p(?P<partition>\d+) )?(?P<invoked>[\d.]+)-(?P<completed>[\d.]+)? "
    r"(?:sent (?P<sent>[\d.]+)|start (?P<start>\d+)|(?P<fetch>fetch)|(?P<session>\w+) (?:(?P<alive>alive)|"
    r"takes (?P<taken>[\d.]+) x(?P<count>\d+)|(?P<kind>\w+) (?P<ended>[\d.]+))(?P<fails> fails)?"
    r"(?: in (?:L(?P<epoch>\d+))?(?P<unsure>\?)?)?)"
)


def share_history(text: str) -> list[Event]:
    """Return the events of a text."""
    return [_event(line.strip()) for line in text.strip().splitlines()]


def _event(line: str) -> Event:
    match = _LINE.fullmatch(line)
    assert match is not None, line
    partition, invoked = int(match["partition"] or 0), float(match["invoked"])
    completed = NEVER if match["completed"] is None else float(match["completed"])
    epoch = None if match["unsure"] and not match["epoch"] else int(match["epoch"] or 1)
    lease = None if match["unsure"] or epoch is None else Lease(epoch)
    if match["sent"]:
        first, last = _range(match["sent"])
        return Sent(partition=partition, invoked=invoked, completed=completed, first=first, last=last)
    if match["start"]:
        return Start(partition=partition, invoked=invoked, completed=completed, offset=int(match["start"]))
    if match["fetch"]:
        return Unanswered(partition=partition, invoked=invoked)
    session = match["session"]
    if match["alive"]:
        return Alive(partition=partition, invoked=invoked, completed=completed, session=session)
    if match["taken"]:
        first, last = _range(match["taken"])
        return Delivery(
            partition=partition,
            invoked=invoked,
            completed=completed,
            session=session,
            first=first,
            last=last,
            count=int(match["count"]),
            lease=lease,
            leader_epoch=epoch,
        )
    first, last = _range(match["ended"])
    return Acknowledged(
        partition=partition,
        invoked=invoked,
        completed=completed,
        session=session,
        first=first,
        last=last,
        kind=KINDS[match["kind"]],
        outcome=FAIL if match["fails"] else INFO if completed == NEVER else OK,
        lease=lease,
        leader_epoch=epoch,
    )


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return int(first), int(last or first)
