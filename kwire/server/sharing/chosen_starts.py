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
CHARACTERS_MAX: Final = 1_000_000
"""Limit of the characters of their group ids, which clients choose."""
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
        self._characters = 0
        """Characters of the group ids."""

    def __len__(self) -> int:
        return len(self._starts)

    def remember(self, group_id: str, key: PartitionKey, start: ChosenStart) -> None:
        self.take(group_id, key)
        self._starts[group_id, key] = start, self._clock.monotonic_ms() + KEPT_MS
        self._characters += len(group_id)
        while len(self._starts) > STARTS_MAX or self._characters > CHARACTERS_MAX:
            self.take(*next(iter(self._starts)))

    def take(self, group_id: str, key: PartitionKey) -> ChosenStart | None:
        """Return a first offset, and forget it."""
        found = self._starts.pop((group_id, key), None)
        if found is None:
            return None
        self._characters -= len(group_id)
        start, until_ms = found
        return start if self._clock.monotonic_ms() < until_ms else None
