"""What a leader knows of one follower: how far it has come, when it last had everything, and which process it is."""

from __future__ import annotations

from typing import Final

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
NEVER_MS: Final = float("-inf")


class Follower:
    """One remote replica, in one leader epoch."""

    __slots__ = (
        "_fetched_ms",
        "_leader_end_then",
        "broker_epoch",
        "caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, *, caught_up_ms: float = NEVER_MS) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        """It has, durably where that is asked for, all below."""
        self.log_start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = caught_up_ms
        """When it last had all that the leader had at some moment."""
        self.broker_epoch = UNKNOWN_EPOCH
        """Of the process that fetches; -1 if it does not say."""
        self._leader_end_then = UNKNOWN_OFFSET
        self._fetched_ms = NEVER_MS

    def fetched(self, offset: int, *, log_start_offset: int, broker_epoch: int, leader_end: int, now_ms: float) -> None:
        """Take note of a fetch from an offset.

        Who asks for the leader's end has everything now; who asks for what was the end at the fetch before had it then:
        a leader that never rests must not make its followers look late.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._leader_end_then:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._leader_end_then = leader_end
        self._fetched_ms = now_ms

    def is_caught_up(self, *, leader_end: int, now_ms: float, lag_max_ms: float) -> bool:
        """Whether it has everything, or had at most replica.lag.time.max.ms ago."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms
