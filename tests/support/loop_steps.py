"""How much Python code an event loop runs without a break, counted and not timed: the same on any machine."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Generator
from types import FrameType
from typing import Any, TypeVar

import pytest

from kwire.loop_monitor import where
from tests.support.compiled import IS_COMPILED

T = TypeVar("T")
LINES_MAX = 40_000
"""Of one step: 2 ms, about."""

needs_lines = pytest.mark.skipif(IS_COMPILED, reason="compiled code runs no lines")


class LoopSteps:
    """Counts the lines that each step of the loop runs: from a call that the loop makes until it returns."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._depth = 0
        self._begun_at = 0
        self.lines = 0
        """Lines that the loop has run so far."""
        self.longest = 0
        self.culprits: list[str] = []
        """Where each step was that went beyond the limit, when it did."""

    def begin(self) -> None:
        """Count from now on; called on the loop."""
        sys.settrace(self._called)

    def end(self) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self._depth == 0:
            self._begun_at = self.lines
        self._depth += 1
        return self._traced

    def _traced(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines - self._begun_at == self._limit:
                self.culprits.append(where(frame) or frame.f_code.co_qualname)
        elif event == "return":
            self._depth -= 1
            self.longest = max(self.longest, self.lines - self._begun_at)
        return self._traced


def longest_step_of(steps: Generator[Any, Any, object]) -> int:
    """Return the most lines that one step of a generator runs; counted in a thread, so that no other tracer is lost."""
    counted = LoopSteps(sys.maxsize)

    def run() -> None:
        counted.begin()
        for _ in steps:
            pass
        counted.end()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return counted.longest


async def in_short_steps(work: Awaitable[T]) -> T:
    """Return what comes of the work; every step that the loop takes meanwhile has less than LINES_MAX lines."""
    steps = LoopSteps(LINES_MAX)
    steps.begin()
    try:
        await asyncio.sleep(0)  # what runs until here has begun before lines were counted
        return await asyncio.ensure_future(work)
    finally:
        steps.end()
        assert steps.longest < LINES_MAX, (steps.longest, steps.culprits)
