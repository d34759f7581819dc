"""What the system has of a file in its page cache."""

from __future__ import annotations

import os
from typing import Any, Final

_WITHOUT_WAITING: int = getattr(os, "RWF_NOWAIT", 0)
"""Flag of preadv, which Linux has; 0 elsewhere."""
_ONE_BYTE: Final = (bytearray(1),)
_preadv: Any = getattr(os, "preadv", None)


def is_cached(descriptor: int, position: int, length: int) -> bool:
    """Return whether both ends of a stretch can be read without waiting for the device, or nobody can tell."""
    if not _WITHOUT_WAITING:
        return True
    try:
        _preadv(descriptor, _ONE_BYTE, position, _WITHOUT_WAITING)
        _preadv(descriptor, _ONE_BYTE, position + length - 1, _WITHOUT_WAITING)
    except BlockingIOError:
        return False
    except OSError:  # the file system cannot say, or the read will say what is wrong
        return True
    return True
