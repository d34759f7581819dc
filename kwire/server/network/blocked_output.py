"""How long a client has taken nothing of what is to be written to it."""

from __future__ import annotations


class BlockedOutput:
    """Watches a full output buffer, or what is left of one when its connection closes."""

    __slots__ = ("_size", "since", "taken_at")

    def __init__(self) -> None:
        self.since: float | None = None
        """When the buffer last became smaller, in seconds; None while nothing is blocked."""
        self.taken_at = 0.0
        """When the client last took something of what was blocked."""
        self._size = 0

    def begin(self, now: float, size: int) -> None:
        """Nothing happens if it has begun."""
        if self.since is None:
            self.since, self._size = now, size

    def end(self, now: float) -> None:
        self.since, self.taken_at = None, now

    def is_stalled(self, now: float, size: int, seconds: float) -> bool:
        """Whether nothing was taken for so long; `size` is what is unsent now."""
        if self.since is None:
            return False
        if size < self._size:
            self.since = self.taken_at = now
        self._size = size
        return now - self.since > seconds
