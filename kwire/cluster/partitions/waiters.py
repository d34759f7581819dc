"""Interfaces of callbacks that a partition calls when records are committed or its state changes."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Observer of a partition's state."""

    def state_changed(self) -> None:
        """Check the partition again: its leader, metadata or a follower's log start offset changed.

        Also called if its log was truncated or failed, if it was removed, and for a commit of unknown size.
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
