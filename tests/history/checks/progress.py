"""Checks of progress: lag of readers, and availability of the cluster after the faults."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from tests.history.findings import REPORTED, Finding
from tests.history.operations import ASSIGN, COMMITTED, OK, Assign, End, Healed, Poll
from tests.history.timeline import Timeline

LAG_SECONDS_MAX = 5.0
"""Maximum lag after the end of all faults."""
SECOND = 1_000_000_000


class Clock:
    """Times since which records after an offset of a key are known to exist."""

    def __init__(self, timeline: Timeline, key: str) -> None:
        known = sorted(
            (send.offset, timeline.known_since(send))
            for send in timeline.sends
            if send.key == key and send.offset is not None and timeline.is_certain(send, COMMITTED)
        )
        self._offsets = [offset for offset, _ in known]
        self._since = list(accumulate((time for _, time in reversed(known)), min))[::-1]

    def lag(self, position: int, now: float) -> float:
        """Return the minimum age of the records that a reader at this position lacks."""
        place = bisect_right(self._offsets, position)
        return max(0.0, now - self._since[place]) if place < len(self._since) else 0.0


class Readers:
    """Lag of the assigned readers, poll by poll."""

    def __init__(self, timeline: Timeline) -> None:
        self._clocks = {key: Clock(timeline, key) for key in {send.key for send in timeline.sends}}
        self._positions: dict[str, dict[str, int]] = defaultdict(dict)
        self._caught_up: set[tuple[str, str]] = set()
        self.worst = 0.0
        self.last: dict[tuple[str, str], float] = {}
        """Lag in seconds of each (process, key) at its newest poll."""

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
    """Yield lower bounds of the staleness of polls, once a reader has caught up; after all faults none may be stuck."""
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
    """Check that some transaction is committed after the end of all faults."""
    for healed in timeline.all(Healed):
        ends = (end for end in timeline.all(End) if end.invoked > healed.invoked)
        if not any(end.commit and end.outcome == OK for end in ends):
            yield Finding("no progress", "no transaction is committed after the healing")
