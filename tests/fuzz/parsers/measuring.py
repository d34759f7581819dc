"""Measurement of one input: the executed lines of kwire, its steps and its memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import kwire
from tests.fuzz.parsers.target import Target

_SOURCES: Final = str(Path(kwire.__file__).parent)
_CODECS: Final = "<kwire codec"

Feature = tuple[object, ...]


class LimitExceededError(AssertionError):
    """The parser takes more steps or memory than the size of its input allows."""


@dataclass(slots=True)
class _Trace:
    """Lines that run, as pairs of neighbours, and their number."""

    steps_max: int
    steps: int = 0
    pairs: set[Feature] = field(default_factory=set)

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace a new frame of kwire, line by line."""
        name = frame.f_code.co_filename
        if not name.startswith((_SOURCES, _CODECS)):
            return None
        previous = 0

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal previous
            if event == "line":
                self.pairs.add((name, previous, frame.f_lineno))
                previous = frame.f_lineno
                self.steps += 1
                if self.steps > self.steps_max:
                    raise LimitExceededError(f"more than {self.steps_max} steps")
            return line

        return line


@contextmanager
def _traced(trace: _Trace) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace.enter)
    try:
        yield
    finally:
        sys.settrace(before)


def features_of(target: Target, data: bytes) -> frozenset[Feature]:
    """Return what an input covers: pairs of lines, and the kind of its outcome.

    Raises what the target must not raise, and LimitExceededError for too many steps.
    """
    trace = _Trace(target.steps_max(data))
    with _traced(trace):
        outcome = target.check(data)
    return frozenset(trace.pairs | {("outcome", outcome.partition(":")[0])})


def check_memory(target: Target, data: bytes) -> None:
    """Parse an input. Raises LimitExceededError if it allocates more than its size allows."""
    tracemalloc.start()
    try:
        target.check(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if peak > target.memory_max(data):
        raise LimitExceededError(f"{peak} bytes allocated, at most {target.memory_max(data)} are allowed")


def check_limits(target: Target, data: bytes) -> frozenset[Feature]:
    """Check one input against the whole contract of its target; return what it covers."""
    covered = features_of(target, data)
    check_memory(target, data)
    return covered
