"""Interface to the workers for batches that are too large for the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol


class LargeBatches(Protocol):
    """Large batches of all requests, one at a time: decompression and compression run in a worker."""

    def acquire(self) -> Awaitable[object]:
        """Wait until no other large batch is being processed; call `release` afterwards."""
        ...

    def release(self) -> None: ...

    def run(self, call: Callable[[], bytes]) -> Awaitable[bytes]:
        """Run the call in a worker."""
        ...
