"""The numbers that both ends of a fetch session go by (KIP-227)."""

from __future__ import annotations

from typing import Final

NO_SESSION: Final = 0
"""The id in the requests and answers of who has no session."""
INITIAL_EPOCH: Final = 0
"""Of a full fetch that asks for a session."""
FINAL_EPOCH: Final = -1
"""Of a full fetch that ends a session, or wants none."""
SESSION_ID_MAX: Final = 2**31 - 1
_EPOCH_MAX: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """That of the request after one; after the highest they begin anew, but for the initial one."""
    return epoch + 1 if epoch < _EPOCH_MAX else INITIAL_EPOCH + 1
