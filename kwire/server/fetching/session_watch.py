"""Notification of incremental fetch sessions by their partitions: a fetch skips partitions that have not changed."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from kwire.cluster.partitions.partition import READ_COMMITTED, Partition

Key = tuple[str | UUID, int]
"""Topic name, or topic id from version 13 on; and partition index."""


class SessionWaiter(Protocol):
    """Delayed fetch that waits for changes."""

    def data_available(self, size: int) -> None:
        """Count new bytes that the fetch may return."""

    def state_changed(self) -> None:
        """Answer with what there is: something else has changed."""

    def check(self) -> None:
        """Answer if there is enough now; else keep waiting."""


class Session(SessionWaiter, Protocol):
    """Session that partitions notify; it passes notifications on to its delayed fetches."""

    def moved(self, key: Key) -> None:
        """Let the next fetch read a partition."""


class StableWaiter:
    """Filter of notifications for read_committed.

    While a transaction is open, new bytes notify the fetch only if the last stable offset moves.
    """

    __slots__ = ("_hides", "_partition", "_seen", "_waiter")

    def __init__(self, waiter: SessionWaiter, partition: Partition) -> None:
        self._waiter = waiter
        self._partition = partition
        self._seen = partition.end_offset(READ_COMMITTED)
        self._hides = self._seen < partition.high_watermark

    def data_available(self, size: int) -> None:
        has_moved, hid_some = self._update()
        if not hid_some:
            self._waiter.data_available(size)
        elif has_moved:
            self._waiter.check()

    def state_changed(self) -> None:
        self._update()
        self._waiter.state_changed()

    def _update(self) -> tuple[bool, bool]:
        """Note the last stable offset; return whether it moved, and whether a transaction hides or hid bytes."""
        end = self._partition.end_offset(READ_COMMITTED)
        has_moved, self._seen = end != self._seen, end
        hid, self._hides = self._hides, end < self._partition.high_watermark
        return has_moved, hid or self._hides


class SessionWatch:
    """Watch on one partition of a session, until the partition has something new or while a fetch waits."""

    __slots__ = ("_is_committed", "_key", "_session", "_waiter", "partition")

    def __init__(self, session: Session, key: Key, partition: Partition, *, is_committed: bool) -> None:
        self._session = session
        self._key = key
        self._is_committed = is_committed
        self._waiter: Session | StableWaiter = StableWaiter(session, partition) if is_committed else session
        self.partition = partition

    def begin(self) -> None:
        """Start to receive notifications."""
        self.partition.watch(self)

    def end(self) -> None:
        """Stop receiving notifications."""
        self.partition.stop_watching(self)

    def is_of(self, partition: Partition, is_committed: bool) -> bool:
        """Return True if this watches the partition, with the same isolation level."""
        return self.partition is partition and self._is_committed is is_committed

    def committed(self, size: int) -> None:
        self._session.moved(self._key)
        self._waiter.data_available(size)

    def state_changed(self) -> None:
        self._session.moved(self._key)
        self._waiter.state_changed()

    def log_start_moved(self) -> None:
        self._session.moved(self._key)


class FollowerWatch:
    """Watch on one partition of a follower's session; unlike a consumer, the follower also reads uncommitted records.

    Its delayed fetch waits for appends. A change of only the high watermark or the log start does not end the wait.
    """

    __slots__ = ("_key", "_session", "partition")

    def __init__(self, session: Session, key: Key, partition: Partition) -> None:
        self._session = session
        self._key = key
        self.partition = partition

    def begin(self) -> None:
        """Start to receive notifications."""
        self.partition.watch(self)
        self.partition.wait(self, for_log_end=True)

    def end(self) -> None:
        """Stop receiving notifications."""
        self.partition.stop_watching(self)
        self.partition.stop_waiting(self)

    def is_of(self, partition: Partition, is_committed: bool) -> bool:
        """Return True if this watches the partition."""
        return self.partition is partition

    def data_available(self, size: int) -> None:
        self._session.moved(self._key)
        self._session.data_available(size)

    def state_changed(self) -> None:
        self._session.moved(self._key)
        self._session.state_changed()

    def committed(self, size: int) -> None:
        self._session.moved(self._key)

    def log_start_moved(self) -> None:
        self._session.moved(self._key)
