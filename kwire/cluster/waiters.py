"""Callbacks that a partition calls when data is committed or its state changes."""

from __future__ import annotations

from typing import Protocol


class Waiter(Protocol):
    """A fetch that waits for data, an append that waits to be durable or committed."""

    def more_data(self, size: int) -> None:
        """Bytes came to what it waits for in one of its partitions; size 0: something else changed, look again."""


class Watcher(Protocol):
    """Told of whatever a reader of the partition might be told, for as long as it wants to be."""

    def moved(self, size: int) -> None:
        """Bytes were committed; size 0: something else changed."""

    def log_start_moved(self) -> None:
        """Nobody has to be told at once."""
