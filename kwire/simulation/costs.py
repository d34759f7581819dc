"""What the steps of an event loop cost, by the lines of Python that they run: the same on any machine.

A process whose loop has costs is busy for as long as they take, and its clock goes on meanwhile: what shares the loop
by time does so in a simulation, and what holds it holds heartbeats.
"""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any, Final, Protocol

from kwire.loop_monitor import where

SECONDS_PER_LINE: Final = 50e-9
"""About, in CPython 3.11: `python -m tests.simulation.line_costs` measures it for answers about thousands of topics."""
LIMIT_SECONDS: Final = 0.02
"""What no step may take."""


class Costs(Protocol):
    """Runs handles, and knows what they cost."""

    @property
    def elapsed_seconds(self) -> float:
        """Of the handle that runs; 0 between two."""

    def run(self, handle: asyncio.Handle) -> float:
        """Run it; the seconds that it took."""


class LineCosts:
    """Counts lines."""

    def __init__(self, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._limit = round(limit_seconds / SECONDS_PER_LINE)
        self._lines = 0
        self.longest_seconds = 0.0
        self.too_long: list[str] = []
        """Where each step was that took longer than the limit, when it did."""

    @property
    def elapsed_seconds(self) -> float:
        return self._lines * SECONDS_PER_LINE

    def run(self, handle: asyncio.Handle) -> float:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            handle._run()  # noqa: SLF001 what an event loop is told to call
        finally:
            sys.settrace(before)
            seconds = self.elapsed_seconds
            self._lines = 0
            self.longest_seconds = max(self.longest_seconds, seconds)
        return seconds

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._traced

    def _traced(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self._lines += 1
            if self._lines == self._limit:
                self.too_long.append(where(frame) or frame.f_code.co_qualname)
        return self._traced
