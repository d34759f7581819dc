"""Time in which a client has read nothing of its pending output."""

from __future__ import annotations


class BlockedOutput:
    """Progress of a client that reads from a full output buffer, or from the rest of one that is being closed."""

    __slots__ = ("_size", "last_read", "since")

    def __init__(self) -> None:
        self.since: float | None = None
        """Time in seconds when the buffer became full, or last became smaller; None while nothing is blocked."""
        self.last_read = 0.0
        """Time when the client last read some of the blocked output."""
        self._size = 0

    def begin(self, now: float, size: int) -> None:
        """Start to watch; no effect if it has started."""
        if self.since is None:
            self.since, self._size = now, size

    def end(self, now: float) -> None:
        self.since, self.last_read = None, now

    def is_stalled(self, now: float, size: int, seconds: float) -> bool:
        """Return True if nothing was read for so long; `size` is the number of unsent bytes."""
        if self.since is None:
            return False
        if size < self._size:
            self.since = self.last_read = now
        self._size = size
        return now - self.since > seconds
