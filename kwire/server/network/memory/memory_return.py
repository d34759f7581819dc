"""Return of freed memory to the system that the C allocator keeps after a peak.

glibc puts a block that is larger than a threshold into pages of its own. These can grow without a copy and are returned
to the system when the block is freed. But freeing such a block raises the threshold, up to 32 MiB. From then on,
requests that arrive in parallel grow inside the heap. Each step leaves a hole, so that they take several times their
size. Therefore the threshold is fixed, above the size of usual requests and responses.

glibc also keeps freed memory between blocks in use. After a burst of large requests that may be a hundred megabytes,
for ever. MemoryReturn calls malloc_trim while the process is larger by STEP_BYTES than at its smallest.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

STEP_BYTES = 24 * 1024 * 1024
CHECKS_MAX = 4
"""Maximum checks from one call of malloc_trim to the next, after calls that freed little."""
STATUS = Path("/proc/self/statm")
LARGE_BYTES = 4 * 1024 * 1024
"""Size from which blocks have pages of their own; new pages each time would be slow for responses of 1 MiB."""
TOP_BYTES = 16 * 1024 * 1024
"""Free bytes that may stay at the end of the heap; fixing one threshold fixes this one too, at too small a value."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def fix_malloc_thresholds() -> bool:
    """Fix glibc's thresholds for the whole process; return True if that worked."""
    try:
        mallopt: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, TOP_BYTES))


def resident_bytes() -> int:
    """Return the memory of the process; 0 if the system does not report it."""
    try:
        return int(STATUS.read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def find_trim() -> Callable[[int], int] | None:
    """Return glibc's malloc_trim; None with another allocator."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


class MemoryReturn:
    """Periodic return of memory. A call that freed little is followed by a longer pause."""

    def __init__(
        self, *, trim: Callable[[int], int] | None = None, resident: Callable[[], int] = resident_bytes
    ) -> None:
        self._trim = trim or find_trim()
        self._resident = resident
        self._size_least = resident()
        self._checks = 0
        self._checks_needed = 1

    @property
    def is_due(self) -> bool:
        """True if the process is larger than it was, and the last call was not just now and useless."""
        self._checks += 1
        return (
            self._trim is not None
            and self._checks >= self._checks_needed
            and self._resident() >= self._size_least + STEP_BYTES
        )

    def give_back(self) -> None:
        """Return free memory to the system. It takes milliseconds, without the interpreter's lock."""
        if self._trim is None:
            return
        before = self._resident()
        self._trim(0)
        after = self._resident()
        self._checks = 0
        self._checks_needed = 1 if before - after >= STEP_BYTES else min(2 * self._checks_needed, CHECKS_MAX)
        self._size_least = min(self._size_least, after)
