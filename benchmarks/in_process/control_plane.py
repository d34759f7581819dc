"""Latency of heartbeats sent from the event loop, from a thread, or from a separate process.

Run `python -m benchmarks.in_process.control_plane`.

A process works like a busy broker, in steps on its event loop. Beside it a timer fires every 20 ms, as for a
heartbeat or a vote: on the loop, in a thread of the same process, or in a separate process. The table shows how
late the timer fires, in milliseconds. Steps hold the interpreter lock, as Python code does, or release it, as a slow
write does.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.table import Table

PERIOD_SECONDS: Final = 0.02
SECONDS: Final = 5.0
STEPS_MS: Final = (2, 20, 200)
PLACES: Final = ("on the loop", "in a thread", "in a process")
ALONE: Final = "--alone"


def hold(step_ms: int) -> None:
    """Run Python code for `step_ms`."""
    end = time.perf_counter() + step_ms / 1000
    while time.perf_counter() < end:
        pass


def sleep(step_ms: int) -> None:
    """Wait like a blocking system call: without the interpreter lock."""
    time.sleep(step_ms / 1000)


async def work(step: Callable[[int], None], step_ms: int) -> None:
    """Run one step in each turn of the event loop."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        step(step_ms)
        await asyncio.sleep(0)


async def wake_on_loop() -> list[float]:
    """Return how late each timer of the loop fired, in milliseconds."""
    late = []
    end = time.monotonic() + SECONDS
    while (began := time.monotonic()) < end:
        await asyncio.sleep(PERIOD_SECONDS)
        late.append((time.monotonic() - began - PERIOD_SECONDS) * 1000)
    return late


def wake_here() -> list[float]:
    """Return how late each wait in this thread ended, in milliseconds."""
    late = []
    end = time.monotonic() + SECONDS
    while (began := time.monotonic()) < end:
        time.sleep(PERIOD_SECONDS)
        late.append((time.monotonic() - began - PERIOD_SECONDS) * 1000)
    return late


def lateness(place: str, step: Callable[[int], None], step_ms: int) -> list[float]:
    """Return how late the timers at a place fire while the loop runs such steps."""
    if place == "on the loop":

        async def both() -> list[float]:
            late, _ = await asyncio.gather(wake_on_loop(), work(step, step_ms))
            return late

        return asyncio.run(both())
    late: list[float] = []
    if place == "in a thread":
        thread = threading.Thread(target=lambda: late.extend(wake_here()))
        thread.start()
        asyncio.run(work(step, step_ms))
        thread.join()
        return late
    with subprocess.Popen([sys.executable, "-m", __spec__.name, ALONE], stdout=subprocess.PIPE, text=True) as process:
        asyncio.run(work(step, step_ms))
        output, _ = process.communicate()
    return [float(line) for line in output.split()]


def main() -> None:
    """Print the table."""
    if ALONE in sys.argv:
        print(*wake_here())
        return
    table = Table("steps", "length, ms", *(f"{place}: p50 / p99 / max" for place in PLACES))
    for step, name in ((hold, "Python"), (sleep, "a system call")):
        for step_ms in STEPS_MS:
            cells = []
            for place in PLACES:
                late = sorted(lateness(place, step, step_ms))
                shown = [late[round(share * (len(late) - 1))] for share in (0.5, 0.99, 1.0)]
                cells.append(" / ".join(f"{each:.1f}" for each in shown))
            table.add_row(name, str(step_ms), *cells)
    Console(width=130).print(table, f"{os.cpu_count()} cores")


if __name__ == "__main__":
    main()
