"""Gives memory back to the system that the allocator keeps after a peak.

glibc puts a block that is larger than a threshold into pages of its own, which can grow without a copy and are given
back when they are freed. But it raises the threshold, up to 32 MiB, when such a block is freed; from then on requests
that arrive side by side grow inside the heap, each step leaving a hole, and take several times their size. So the
threshold is fixed, above what usual requests and answers have.

It also keeps what is freed between blocks that are still used; after a burst of large requests that may be a hundred
megabytes, for ever. It is asked for them while the process is larger by STEP_BYTES than it was at its smallest.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

STEP_BYTES = 24 * 1024 * 1024
LOOKS_MAX = 4
"""Looks between two times of asking when what is there is in use."""
STATUS = Path("/proc/self/statm")
LARGE_BYTES = 4 * 1024 * 1024
"""Blocks from this size on have pages of their own; new ones each time would be slow for answers of 1 MiB."""
TOP_BYTES = 16 * 1024 * 1024
"""What may stay free at the end of the heap; fixing one threshold fixes this one as well, at a value too small."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_large_blocks_apart() -> bool:
    """Fix glibc's thresholds, for the whole process; whether that worked."""
    try:
        mallopt: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, TOP_BYTES))


def resident_bytes() -> int:
    """What the process has of memory now; 0 where the system does not say."""
    try:
        return int(STATUS.read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def find_trim() -> Callable[[int], int] | None:
    """Glibc's malloc_trim; None where the allocator is another one."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


class MemoryReturn:
    """To be looked at every so often. Asking that brought little is followed by a longer pause."""

    def __init__(
        self, *, trim: Callable[[int], int] | None = None, resident: Callable[[], int] = resident_bytes
    ) -> None:
        self._trim = trim or find_trim()
        self._resident = resident
        self._size_least = resident()
        self._looks = 0
        self._looks_wanted = 1

    @property
    def is_due(self) -> bool:
        """Whether the process is larger than it was, and has not been asked in vain just before."""
        self._looks += 1
        return (
            self._trim is not None
            and self._looks >= self._looks_wanted
            and self._resident() >= self._size_least + STEP_BYTES
        )

    def give_back(self) -> None:
        """Takes milliseconds; the interpreter is free meanwhile."""
        if self._trim is None:
            return
        before = self._resident()
        self._trim(0)
        after = self._resident()
        self._looks = 0
        self._looks_wanted = 1 if before - after >= STEP_BYTES else min(2 * self._looks_wanted, LOOKS_MAX)
        self._size_least = min(self._size_least, after)
