"""Journal of a history: a line for each invocation, and a line for each outcome."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from tests.history.operations import OK

Complete = Callable[..., None]
"""Function to be called with the outcome: complete("ok", offset=3)."""


class Journal:
    """Journal file. Each line is written at once, so that kill -9 loses no completed one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", buffering=1)
        self._numbers = itertools.count()
        self._lock = Lock()

    def invoke(self, process: str, kind: str, *, at: int | None = None, **known: Any) -> Complete:
        """Record an invocation; call the result once with the outcome. `at` is an earlier time of the begin."""
        number = next(self._numbers)
        self._write({"type": "invoke", "process": process, "op": number, "f": kind} | known, at)

        def complete(outcome: str, **more: Any) -> None:
            self._write({"type": outcome, "process": process, "op": number} | more)

        return complete

    def note(self, process: str, kind: str, *, at: int | None = None, **known: Any) -> None:
        """Record an operation without duration."""
        self.invoke(process, kind, at=at, **known)(OK)

    def _write(self, event: dict[str, Any], at: int | None = None) -> None:
        with self._lock:
            self._file.write(json.dumps(event | {"time": at or time.monotonic_ns()}) + "\n")

    def close(self) -> None:
        self._file.close()
