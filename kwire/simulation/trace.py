"""Trace of a simulation: one line per event, and one hash over all lines.

Two runs with the same hash had the same events in the same order: each line has the virtual time and the number of
handles that had run. The last lines are kept for the analysis of a failure.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

from kwire.simulation.timeline import Timeline

LINES_KEPT = 2000


class Trace:
    """Append-only trace of events."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._hash = hashlib.blake2b(digest_size=16)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        """Last lines."""
        self.count = 0
        """Number of all lines."""
        self.listener: Callable[[str], None] | None = None
        """Called with each new line."""

    def note(self, what: str) -> None:
        """Add an event."""
        line = f"{self._timeline.now:.6f} {self._timeline.events} {what}"
        self._hash.update(line.encode())
        self.count += 1
        self.lines.append(line)
        if self.listener is not None:
            self.listener(line)

    @property
    def digest(self) -> str:
        """Hash of all lines so far."""
        return self._hash.hexdigest()
