"""Costs of event loop steps, by the number of Python lines that they run: the same on every machine.

A process with costs is busy for the time of each step, and its clock advances meanwhile. So time slices work in a
simulation, and a step that blocks the loop delays heartbeats.
"""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any, Final, Protocol

from kwire.loop_monitor import kwire_stack

SECONDS_PER_LINE: Final = 50e-9
"""Approximate time of a line in CPython 3.11. `python -m tests.simulation.line_costs` measures it."""
LIMIT_SECONDS: Final = 0.02
"""Longest time that a step may take."""


class Costs(Protocol):
    """Runner of handles that measures their cost."""

    @property
    def elapsed_seconds(self) -> float:
        """Time of the running handle so far; 0 between two handles."""

    def run(self, handle: asyncio.Handle) -> float:
        """Run a handle; return the seconds that it took."""


class LineCosts:
    """Costs by the number of executed lines."""

    def __init__(self, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._limit = round(limit_seconds / SECONDS_PER_LINE)
        self._lines = 0
        self.longest_seconds = 0.0
        self.too_long: list[str] = []
        """Position of each step at the moment when it exceeded the limit."""

    @property
    def elapsed_seconds(self) -> float:
        return self._lines * SECONDS_PER_LINE

    def run(self, handle: asyncio.Handle) -> float:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            handle._run()  # noqa: SLF001 an event loop calls it
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
                self.too_long.append(kwire_stack(frame) or frame.f_code.co_qualname)
        return self._traced
