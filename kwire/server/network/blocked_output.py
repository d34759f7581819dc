"""How long a client has taken nothing of what is to be written to it."""

from __future__ import annotations


class BlockedOutput:
    """Watches a full output buffer, or what is left of one when its connection closes."""

    __slots__ = ("_size", "since")

    def __init__(self) -> None:
        self.since: float | None = None
        """When the buffer last became smaller, in seconds; None while nothing is blocked."""
        self._size = 0

    def begin(self, now: float, size: int) -> None:
        self.since, self._size = now, size

    def end(self) -> None:
        self.since = None

    def is_stalled(self, now: float, size: int, seconds: float) -> bool:
        """Whether nothing was taken for so long; `size` is what is unsent now."""
        if self.since is None:
            return False
        if size < self._size:
            self.since = now
        self._size = size
        return now - self.since > seconds
