"""Interface to the workers for batches that are too large for the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol


class LargeBatches(Protocol):
    """Decompression of batches that are too large for the event loop: one batch at a time."""

    def acquire(self) -> Awaitable[object]:
        """Acquire the right to decompress; call `release` when the batch is no longer needed."""
        ...

    def release(self) -> None: ...

    def unpack(self, call: Callable[[], bytes]) -> Awaitable[bytes]:
        """Run the call in a worker."""
        ...
