"""Progress of one follower, tracked by the leader: its offsets, when it was last caught up, and its broker epoch."""

from __future__ import annotations

from typing import Final

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
NEVER_MS: Final = float("-inf")


class Follower:
    """Remote replica, in one leader epoch."""

    __slots__ = (
        "_last_fetch_leader_end",
        "_last_fetch_ms",
        "broker_epoch",
        "caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, *, caught_up_ms: float = NEVER_MS) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        """End offset of the records that the follower has, durably if that is required."""
        self.log_start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = caught_up_ms
        """Latest known time at which the follower had the leader's log end offset of that time: lastCaughtUpTimeMs."""
        self.broker_epoch = UNKNOWN_EPOCH
        """Broker epoch of the fetching process; -1 if it sends none."""
        self._last_fetch_leader_end = UNKNOWN_OFFSET
        self._last_fetch_ms = NEVER_MS

    def fetched(self, offset: int, *, log_start_offset: int, broker_epoch: int, leader_end: int, now_ms: float) -> None:
        """Record a fetch at an offset.

        A fetch at the leader's log end offset means that the follower is caught up now. A fetch at or above the log end
        offset that the leader had at the previous fetch means that the follower was caught up then. Without this rule,
        followers would seem to lag while records are appended all the time.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._last_fetch_leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self._last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._last_fetch_leader_end = leader_end
        self._last_fetch_ms = now_ms

    def is_caught_up(self, *, leader_end: int, now_ms: float, lag_max_ms: float) -> bool:
        """Return True if it has all records, or had them at most replica.lag.time.max.ms ago."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms
