"""How far behind readers are, and whether the cluster came back to work."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from tests.history.findings import REPORTED, Finding
from tests.history.operations import ASSIGN, COMMITTED, OK, Assign, End, Healed, Poll
from tests.history.timeline import Timeline

LAG_SECONDS_MAX = 5.0
"""After the healing."""
SECOND = 1_000_000_000


class Clock:
    """For a key: since when it is known that there is something behind an offset."""

    def __init__(self, timeline: Timeline, key: str) -> None:
        known = sorted(
            (send.offset, timeline.known_since(send))
            for send in timeline.sends
            if send.key == key and send.offset is not None and timeline.is_certain(send, COMMITTED)
        )
        self._offsets = [offset for offset, _ in known]
        self._since = list(accumulate((time for _, time in reversed(known)), min))[::-1]

    def lag(self, position: int, now: float) -> float:
        """At least so old is what a reader that has read up to this offset lacks."""
        place = bisect_right(self._offsets, position)
        return max(0.0, now - self._since[place]) if place < len(self._since) else 0.0


def realtime_lag(timeline: Timeline) -> Iterator[Finding]:
    """A lower bound of how stale polls were; a reader that is still behind after the healing is stuck."""
    clocks = {key: Clock(timeline, key) for key in {send.key for send in timeline.sends}}
    positions: dict[tuple[str, str], int] = {}
    worst, last = 0.0, dict[tuple[str, str], float]()
    healed = min((each.invoked for each in timeline.all(Healed)), default=float("inf"))
    for operation in timeline.operations:
        if isinstance(operation, Assign):
            positions |= {(operation.process, key): -1 for key in operation.keys}
            last |= {(operation.process, key): 0.0 for key in operation.keys}
        if not isinstance(operation, Poll) or operation.mode != ASSIGN or operation.outcome != OK:
            continue
        positions |= {(operation.process, key): offset for key, offset, _ in operation.records}
        for (process, key), position in positions.items():
            if process == operation.process and key in clocks:
                lag = clocks[key].lag(position, operation.invoked) / SECOND
                worst = max(worst, lag)
                last[process, key] = lag if operation.invoked > healed else 0.0
    yield Finding("realtime lag", f"at most {worst:.1f} s", REPORTED)
    for (process, key), lag in last.items():
        if lag > LAG_SECONDS_MAX:
            yield Finding("realtime lag", f"{process} is {lag:.1f} s behind in {key} after the healing")


def availability(timeline: Timeline) -> Iterator[Finding]:
    """After the healing some transaction is committed."""
    for healed in timeline.all(Healed):
        ends = (end for end in timeline.all(End) if end.invoked > healed.invoked)
        if not any(end.commit and end.outcome == OK for end in ends):
            yield Finding("no progress", "no transaction is committed after the healing")
