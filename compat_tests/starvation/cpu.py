"""The CPU time that a process takes, out of /proc, and whether it is idle."""

import time
from contextlib import suppress
from pathlib import Path

WINDOW_SECONDS, IDLE_SHARE = 0.1, 0.25
"""A process is idle that takes less than this share of a core in the window."""


def cpu_seconds(pid):
    """CPU time of all threads that live, in nanoseconds' precision."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread that has ended meanwhile
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def is_idle(pid):
    """Look at one window."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(WINDOW_SECONDS)
    return cpu_seconds(pid) - before < IDLE_SHARE * (time.monotonic() - began)


def seconds_until_idle(pid, seconds_max):
    """How long the process goes on; None if it does so after `seconds_max`."""
    began = time.monotonic()
    while not is_idle(pid):
        if time.monotonic() - began > seconds_max:
            return None
    return time.monotonic() - began
