"""How an incremental fetch session hears of its partitions: a fetch need not look at those that have not moved."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from kwire.cluster.partition import READ_COMMITTED, Partition

Key = tuple[str | UUID, int]
"""(topic name, or topic id from version 13 on; partition index)"""


class SessionWaiter(Protocol):
    """A fetch that waits."""

    def more_data(self, size: int) -> None:
        """Bytes came that it may have; size 0: something else changed, look again."""

    def look(self) -> None:
        """Answer if there is enough by now; else go on waiting."""


class Session(SessionWaiter, Protocol):
    """What a session does about its partitions; it passes on what a waiting fetch is to hear."""

    def moved(self, key: Key) -> None:
        """The next fetch is to look at a partition."""


class StableWaiter:
    """Tells a read of committed records of what it may see: nothing while a transaction is open, then all at once."""

    __slots__ = ("_hides", "_partition", "_seen", "_waiter")

    def __init__(self, waiter: SessionWaiter, partition: Partition) -> None:
        self._waiter = waiter
        self._partition = partition
        self._seen = partition.end_offset(READ_COMMITTED)
        self._hides = self._seen < partition.high_watermark

    def more_data(self, size: int) -> None:
        end = self._partition.end_offset(READ_COMMITTED)
        has_moved, self._seen = end != self._seen, end
        hid, self._hides = self._hides, end < self._partition.high_watermark
        if size == 0 or not (hid or self._hides):
            self._waiter.more_data(size)
        elif has_moved:
            self._waiter.look()


class SessionWatch:
    """Told by one partition of a session until that has something new, or for as long as a fetch waits."""

    __slots__ = ("_is_committed", "_key", "_session", "_waiter", "partition")

    def __init__(self, session: Session, key: Key, partition: Partition, *, is_committed: bool) -> None:
        self._session = session
        self._key = key
        self._is_committed = is_committed
        self._waiter: Session | StableWaiter = StableWaiter(session, partition) if is_committed else session
        self.partition = partition

    def begin(self) -> None:
        """Be told from now on."""
        self.partition.watch(self)

    def end(self) -> None:
        """Be told no more."""
        self.partition.stop_watching(self)

    def is_of(self, partition: Partition, is_committed: bool) -> bool:
        """Return whether it hears of this partition, as a reader of this kind does."""
        return self.partition is partition and self._is_committed is is_committed

    def moved(self, size: int) -> None:
        self._session.moved(self._key)
        self._waiter.more_data(size)

    def log_start_moved(self) -> None:
        self._session.moved(self._key)


class FollowerWatch:
    """What SessionWatch is to a consumer's session, for a follower's: it has what is not committed, too.

    Its fetch waits for what is appended. That the high watermark or the log start has moved can wait for its answer.
    """

    __slots__ = ("_key", "_session", "partition")

    def __init__(self, session: Session, key: Key, partition: Partition) -> None:
        self._session = session
        self._key = key
        self.partition = partition

    def begin(self) -> None:
        """Be told from now on."""
        self.partition.watch(self)
        self.partition.wait(self, for_tail=True)

    def end(self) -> None:
        """Be told no more."""
        self.partition.stop_watching(self)
        self.partition.stop_waiting(self)

    def is_of(self, partition: Partition, is_committed: bool) -> bool:
        """Return whether it hears of this partition."""
        return self.partition is partition

    def more_data(self, size: int) -> None:
        self._session.moved(self._key)
        self._session.more_data(size)

    def moved(self, size: int) -> None:
        self._session.moved(self._key)

    def log_start_moved(self) -> None:
        self._session.moved(self._key)
