"""Latency of the event loop: how late its timers fire, and which functions block it.

A tick is due every TICK_MS. Its delay is that of a timer, a heartbeat or a client's request. While a tick is overdue, a
thread reads the loop's stack, so that the log contains the function that blocks the loop, not the next one. Both
together use less than a thousandth of a core.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from kwire.repeated_messages import RepeatedMessages

logger = logging.getLogger(__name__)

TICK_MS: Final = 100.0
LONG_MS: Final = 100.0
"""Delay above which a late timer is logged, with the functions that blocked the loop."""
CHECK_SECONDS: Final = 0.05
UPPER_MS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)
"""Upper bounds of the histogram of delays; there is one more class above."""
FRAMES_SHOWN: Final = 3
PACKAGE: Final = str(Path(__file__).parent)
UNKNOWN: Final = "the cause was not sampled"


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """Delays of ticks since the start."""

    ticks: int
    longest_ms: float
    p999_ms: float
    """Upper bound of the class that covers 99.9 % of the ticks; infinite beyond the last bound."""


class LoopMonitor:
    """Monitor of the loop on which it runs."""

    def __init__(self) -> None:
        self._counts = [0] * (len(UPPER_MS) + 1)
        self._longest_ms = 0.0
        self._ticked_ms = 0.0
        self._cpu_ms = 0.0
        self._seen: str | None = None
        """Functions on the loop's stack when the watching thread last sampled it; None since the last tick."""
        self._thread_id = 0
        self._ended = threading.Event()
        self._messages = RepeatedMessages(logger, _now_ms)

    async def run(self) -> None:
        """Measure ticks for as long as the server runs."""
        self._thread_id = threading.get_ident()
        self._ticked_ms, self._cpu_ms = _now_ms(), _cpu_ms()
        threading.Thread(target=self._watch, name="kwire-loop-monitor", daemon=True).start()
        try:
            while True:
                await asyncio.sleep(TICK_MS / 1000)
                self.tick(_now_ms(), _cpu_ms())
        finally:
            self._ended.set()

    def tick(self, now_ms: float, cpu_ms: float) -> None:
        """Count a tick; `cpu_ms` is the CPU time that the loop's thread has used so far."""
        late_ms = max(0.0, now_ms - self._ticked_ms - TICK_MS)
        spent_ms = cpu_ms - self._cpu_ms
        seen, self._seen = self._seen, None
        self._ticked_ms, self._cpu_ms = now_ms, cpu_ms
        self._counts[bisect_left(UPPER_MS, late_ms)] += 1
        self._longest_ms = max(self._longest_ms, late_ms)
        if late_ms > LONG_MS:
            self._messages.log(
                logging.WARNING,
                seen,
                "The event loop was held for %.0f ms, %.0f ms of them on a processor: %s",
                late_ms,
                min(spent_ms, late_ms),
                seen or UNKNOWN,
            )

    def figures(self) -> LoopFigures:
        ticks = sum(self._counts)
        ticks_below, p999_ms = 0, 0.0
        for count, upper_ms in zip(self._counts, (*UPPER_MS, float("inf")), strict=True):
            ticks_below += count
            p999_ms = upper_ms
            if ticks_below >= 0.999 * ticks:
                break
        return LoopFigures(ticks, self._longest_ms, p999_ms if ticks else 0.0)

    # --- in the thread

    def _watch(self) -> None:
        while not self._ended.wait(CHECK_SECONDS):
            if self._seen is None and _now_ms() - self._ticked_ms > TICK_MS + LONG_MS / 2:
                self._seen = kwire_stack(sys._current_frames().get(self._thread_id))  # noqa: SLF001 documented


def kwire_stack(frame: FrameType | None) -> str | None:
    """Return the innermost functions of kwire on a stack; None if there are none."""
    shown: list[str] = []
    while frame is not None and len(shown) < FRAMES_SHOWN:
        path = frame.f_code.co_filename
        if path.startswith(PACKAGE):
            shown.append(f"{frame.f_code.co_qualname} ({path.removeprefix(PACKAGE + '/')}:{frame.f_lineno})")
        frame = frame.f_back
    return " < ".join(shown) or None


def _now_ms() -> float:
    return time.monotonic() * 1000


def _cpu_ms() -> float:
    """Return the CPU time of the calling thread, in milliseconds."""
    return time.thread_time() * 1000
