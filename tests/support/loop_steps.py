"""Python code that an event loop runs without a break: counted in lines, not timed, so equal on any machine."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Generator
from types import FrameType
from typing import Any, TypeVar

import pytest

from kwire.loop_monitor import kwire_stack
from tests.support.compiled import IS_COMPILED

T = TypeVar("T")
LINES_MAX = 40_000
"""Limit for one step: about 2 ms."""

needs_lines = pytest.mark.skipif(IS_COMPILED, reason="compiled code runs no lines")


class LoopSteps:
    """Line counter for each step of the loop: from a call by the loop until it returns."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._depth = 0
        self._begun_at = 0
        self.lines = 0
        """Number of lines that the loop has run so far."""
        self.longest = 0
        self.culprits: list[str] = []
        """Locations of the steps that exceeded the limit, at the moment they did."""

    def begin(self) -> None:
        """Start to count; runs on the loop."""
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
                self.culprits.append(kwire_stack(frame) or frame.f_code.co_qualname)
        elif event == "return":
            self._depth -= 1
            self.longest = max(self.longest, self.lines - self._begun_at)
        return self._traced


def longest_step_of(steps: Generator[Any, Any, object]) -> int:
    """Return the largest number of lines in one step of a generator; counted in a thread, to keep other tracers."""
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
    """Return the result of the work; check that each loop step during it runs less than LINES_MAX lines."""
    steps = LoopSteps(LINES_MAX)
    steps.begin()
    try:
        await asyncio.sleep(0)  # code up to here started before lines were counted
        return await asyncio.ensure_future(work)
    finally:
        steps.end()
        assert steps.longest < LINES_MAX, (steps.longest, steps.culprits)
