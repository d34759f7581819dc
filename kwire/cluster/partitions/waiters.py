"""Interfaces of callbacks that a partition calls when records are committed or its state changes."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Observer of a partition's state."""

    def state_changed(self) -> None:
        """Check the partition again: its leader or metadata changed, or a replica's log start offset.

        Also called if it was removed, if its log was truncated or failed, or if a follower knows no committed size.
        """


class Waiter(Observer, Protocol):
    """Delayed fetch that waits for data, or append whose response is delayed."""

    def data_available(self, size: int) -> None:
        """Receive the number of new bytes in one of its partitions."""


class Watcher(Observer, Protocol):
    """Long-lived observer of a partition, notified of all changes that a reader may need."""

    def committed(self, size: int) -> None:
        """React to newly committed bytes."""

    def log_start_moved(self) -> None:
        """React to a higher log start offset; there is no need to notify clients at once."""
