"""What the system has of a file in its page cache."""

from __future__ import annotations

import os
from typing import Any, Final

PROBE_BYTES: Final = 128 * 1024
"""Distance between the bytes that are asked about: what readahead brings in at once."""
_WITHOUT_WAITING: int = getattr(os, "RWF_NOWAIT", 0)
"""Flag of preadv, which Linux has; 0 elsewhere."""
_ONE_BYTE: Final = (bytearray(1),)
_preadv: Any = getattr(os, "preadv", None)


def is_cached(descriptor: int, position: int, length: int) -> bool:
    """Return whether some bytes of a stretch, both ends among them, can be read without waiting for the device.

    True if nobody can tell.
    """
    if not _WITHOUT_WAITING:
        return True
    try:
        for probed in range(position, position + length - 1, PROBE_BYTES):
            _preadv(descriptor, _ONE_BYTE, probed, _WITHOUT_WAITING)
        _preadv(descriptor, _ONE_BYTE, position + length - 1, _WITHOUT_WAITING)
    except BlockingIOError:
        return False
    except OSError:  # the file system cannot say, or the read will say what is wrong
        return True
    return True
