"""CPU time of a process, from /proc, and the check if it is idle."""

import time
from contextlib import suppress
from pathlib import Path

WINDOW_SECONDS, IDLE_SHARE = 0.1, 0.25
"""A process that uses less than this share of a core in the window is idle."""


def cpu_seconds(pid):
    """Return the CPU time of all running threads, in seconds with nanosecond precision."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has ended meanwhile
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def is_idle(pid):
    """Return True if the process is idle in one window."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(WINDOW_SECONDS)
    return cpu_seconds(pid) - before < IDLE_SHARE * (time.monotonic() - began)


def seconds_until_idle(pid, seconds_max):
    """Return the seconds until the process is idle; None if it is not idle within `seconds_max`."""
    began = time.monotonic()
    while not is_idle(pid):
        if time.monotonic() - began > seconds_max:
            return None
    return time.monotonic() - began
