"""Interfaces of callbacks that a partition calls when records are committed or its state changes."""

from __future__ import annotations

from typing import Protocol


class Waiter(Protocol):
    """Delayed fetch that waits for data, or append that waits until it is durable or committed."""

    def more_data(self, size: int) -> None:
        """Receive the number of new bytes in one of its partitions; 0 if something else changed: check again."""


class Watcher(Protocol):
    """Long-lived observer of a partition, notified of all changes that a reader may need."""

    def moved(self, size: int) -> None:
        """React to newly committed bytes; 0 if something else changed."""

    def log_start_moved(self) -> None:
        """React to a higher log start offset; there is no need to notify clients at once."""
