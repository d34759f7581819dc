"""Check whether a range of a file is in the system's page cache."""

from __future__ import annotations

import os
from typing import Any, Final

PROBE_BYTES: Final = 128 * 1024
"""Distance between the bytes that are probed: the size of a readahead."""
_WITHOUT_WAITING: int = getattr(os, "RWF_NOWAIT", 0)
"""Linux flag of preadv; 0 on other systems."""
_ONE_BYTE: Final = (bytearray(1),)
_preadv: Any = getattr(os, "preadv", None)


def is_cached(descriptor: int, position: int, length: int) -> bool:
    """Return True if sampled bytes of a range, including both ends, can be read without waiting for the device.

    Also True if the system cannot report it.
    """
    if not _WITHOUT_WAITING:
        return True
    try:
        for probed in range(position, position + length - 1, PROBE_BYTES):
            _preadv(descriptor, _ONE_BYTE, probed, _WITHOUT_WAITING)
        _preadv(descriptor, _ONE_BYTE, position + length - 1, _WITHOUT_WAITING)
    except BlockingIOError:
        return False
    except OSError:  # unsupported by the file system, or an error that the read will report
        return True
    return True
