"""First offsets that share.auto.offset.reset has chosen and that are not stored yet.

The state of a share partition is stored with its first acknowledgement. Until then, a broker remembers the first offset
when it drops the share partition because the last member has disconnected: "latest" would otherwise skip the records
that were written before a member is back.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.seams import Clock
from kwire.server.sharing.share_sessions import PartitionKey

STARTS_MAX: Final = 10_000
"""Limit of first offsets; the oldest one is forgotten."""
KEPT_MS: Final = 300_000
"""Time until a first offset is forgotten, for example because its group was deleted."""


class ChosenStart(NamedTuple):
    """First offset, valid for one state epoch: an alteration of the offset raises the epoch."""

    state_epoch: int
    offset: int


class ChosenStarts:
    """First offsets by group id and partition."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._starts: dict[tuple[str, PartitionKey], tuple[ChosenStart, float]] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def remember(self, group_id: str, key: PartitionKey, start: ChosenStart) -> None:
        self._starts.pop((group_id, key), None)
        self._starts[group_id, key] = start, self._clock.monotonic_ms() + KEPT_MS
        if len(self._starts) > STARTS_MAX:
            del self._starts[next(iter(self._starts))]

    def take(self, group_id: str, key: PartitionKey) -> ChosenStart | None:
        """Return a first offset, and forget it."""
        start, until_ms = self._starts.pop((group_id, key), (None, 0.0))
        return start if self._clock.monotonic_ms() < until_ms else None
