"""How far behind readers are, and whether the cluster came back to work."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
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


class Readers:
    """How far the assigned readers are behind, poll by poll."""

    def __init__(self, timeline: Timeline) -> None:
        self._clocks = {key: Clock(timeline, key) for key in {send.key for send in timeline.sends}}
        self._positions: dict[str, dict[str, int]] = defaultdict(dict)
        self._caught_up: set[tuple[str, str]] = set()
        self.worst = 0.0
        self.last: dict[tuple[str, str], float] = {}
        """Seconds of each (process, key) at its newest poll."""

    def assign(self, assign: Assign) -> None:
        self._positions[assign.process] = dict.fromkeys(assign.keys, -1)

    def poll(self, poll: Poll) -> None:
        positions = self._positions[poll.process]
        positions |= {key: offset for key, offset, _ in poll.records}
        for key, position in positions.items():
            if key in self._clocks:
                lag = self.last[poll.process, key] = self._clocks[key].lag(position, poll.invoked) / SECOND
                if (poll.process, key) in self._caught_up:
                    self.worst = max(self.worst, lag)
                elif lag == 0:
                    self._caught_up.add((poll.process, key))


def realtime_lag(timeline: Timeline) -> Iterator[Finding]:
    """A lower bound of how stale polls were, from when a reader has caught up; after the healing none may be stuck."""
    readers = Readers(timeline)
    healed = min((each.invoked for each in timeline.all(Healed)), default=float("inf"))
    stopped: dict[str, float] = {}
    for operation in timeline.operations:
        if isinstance(operation, Assign):
            readers.assign(operation)
        elif isinstance(operation, Poll) and operation.mode == ASSIGN and operation.outcome == OK:
            readers.poll(operation)
            stopped[operation.process] = operation.invoked
    yield Finding("realtime lag", f"at most {readers.worst:.1f} s", REPORTED)
    for (process, key), lag in readers.last.items():
        if lag > LAG_SECONDS_MAX and stopped[process] > healed:
            yield Finding("realtime lag", f"{process} is {lag:.1f} s behind in {key} after the healing")


def availability(timeline: Timeline) -> Iterator[Finding]:
    """After the healing some transaction is committed."""
    for healed in timeline.all(Healed):
        ends = (end for end in timeline.all(End) if end.invoked > healed.invoked)
        if not any(end.commit and end.outcome == OK for end in ends):
            yield Finding("no progress", "no transaction is committed after the healing")
