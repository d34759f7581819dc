"""What happened in a simulation, a line an event, and one hash over all of it.

Two runs with the same hash did the same in the same order: each line carries the virtual time and the number of
handles that had run. The last lines are kept for whoever looks at a failure.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

from kwire.simulation.timeline import Timeline

LINES_KEPT = 2000


class Trace:
    """Append-only."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._hash = hashlib.blake2b(digest_size=16)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        """The last ones."""
        self.count = 0
        """All there ever were."""
        self.listener: Callable[[str], None] | None = None
        """Told of each line as it is made."""

    def note(self, what: str) -> None:
        """Something happened."""
        line = f"{self._timeline.now:.6f} {self._timeline.events} {what}"
        self._hash.update(line.encode())
        self.count += 1
        self.lines.append(line)
        if self.listener is not None:
            self.listener(line)

    @property
    def digest(self) -> str:
        """The hash of all lines so far."""
        return self._hash.hexdigest()
