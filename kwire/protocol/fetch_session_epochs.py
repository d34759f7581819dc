"""Session ids and epochs that both ends of a fetch session use (KIP-227)."""

from __future__ import annotations

from typing import Final

NO_SESSION: Final = 0
"""Session id in requests and responses without a session."""
INITIAL_EPOCH: Final = 0
"""Epoch of a full fetch that requests a session."""
FINAL_EPOCH: Final = -1
"""Epoch of a full fetch that ends a session, or requests none."""
SESSION_ID_MAX: Final = 2**31 - 1
_EPOCH_MAX: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next request; after the highest one they start again, without the initial epoch."""
    return epoch + 1 if epoch < _EPOCH_MAX else INITIAL_EPOCH + 1
