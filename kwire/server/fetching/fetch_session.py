"""Incremental fetch session of one client (KIP-227): what it last received for each partition, and which may have news.

An incremental fetch reads only unread partitions. These are the partitions that it names, that have changed since
they were last sent (session_watch.py), or that were not sent completely.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain, islice

from kwire.cluster.partitions.partition import Partition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchPartitionData
from kwire.server.fetching.session_watch import FollowerWatch, Key, SessionWaiter, SessionWatch

CHECKED_AT_ONCE = 2048
"""Partitions of a session that one fetch reads; so many take some milliseconds to put together."""


@dataclass(slots=True, kw_only=True)
class SessionPartition:
    """State of one partition of a session: the client's request and the last values that were sent."""

    request: FetchPartition
    watch: SessionWatch | FollowerWatch | None = None
    """Set once an incremental fetch has read the partition."""
    place: int = 0
    """Position of the partition in the order of its session."""
    topic: str | None = None
    """Name of the topic id when it was first requested; kept when the topic is deleted."""
    high_watermark: int = -1
    log_start_offset: int = -1

    def is_news(self, data: FetchPartitionData) -> bool:
        """True if a response must contain this partition."""
        news = bool(data.records) or data.error_code != ErrorCode.NONE or data.diverging_epoch.end_offset >= 0
        news = news or data.preferred_read_replica >= 0
        return news or self.high_watermark != data.high_watermark or self.log_start_offset != data.log_start_offset

    def unwatch(self) -> None:
        """Stop watching the partition, because the session drops it or watches it differently."""
        if self.watch is not None:
            self.watch.end()
            self.watch = None

    def tell(self, data: FetchPartitionData) -> bool:
        """Return True if a response must contain this partition, and remember the values that it sends."""
        news = self.is_news(data)
        # After an error the partition is sent again as soon as the error is gone.
        self.high_watermark = data.high_watermark if data.error_code == ErrorCode.NONE else -1
        self.log_start_offset = data.log_start_offset
        return news


@dataclass(slots=True, kw_only=True)
class FetchSession:
    """Fetch session of one client. Partitions that had records move to the end, so that all are read in turn."""

    session_id: int
    uses_topic_ids: bool
    follower: tuple[int, int] | None
    """Broker id and broker epoch of a follower, the epoch being -1 before version 15; None for a consumer."""
    epoch: int = 1
    created_ms: float
    last_used_ms: float
    partitions: OrderedDict[Key, SessionPartition] = field(default_factory=OrderedDict)
    is_committed: bool = False
    """True if the last fetch was read_committed."""
    unread: dict[Key, bool] = field(default_factory=dict)
    """Partitions that the next fetch reads; the value is True if the partition changed since the last read."""
    waiters: dict[SessionWaiter, None] = field(default_factory=dict)  # of one fetch, or of two on two connections
    is_over: bool = False
    """True if the session has ended; one of its fetches may still be running."""
    looked_at_all_ms: float = 0.0
    """Time of a follower's last fetch that read all partitions."""
    last_place: int = 0
    to_come: int = 0
    """Partitions that are not added yet, while the session is opened in pieces."""

    @property
    def is_follower(self) -> bool:
        return self.follower is not None

    def watch_partition(self, key: Key, partition: Partition) -> None:
        """Record that a partition is read now: any later change of it unsettles it again."""
        known = self.partitions.get(key)
        if known is None or self.is_over:
            return
        self._put_last(key, is_moved=False)
        if known.watch is not None and known.watch.is_of(partition, self.is_committed):
            return
        known.unwatch()
        if self.is_follower:
            known.watch = FollowerWatch(self, key, partition)
        else:
            known.watch = SessionWatch(self, key, partition, is_committed=self.is_committed)
        known.watch.begin()

    def to_check(self, named: Collection[Key]) -> tuple[list[tuple[Key, FetchPartition]], bool]:
        """Return the partitions that a fetch reads, in the session's order, and whether one of the others has changed.

        At most CHECKED_AT_ONCE are taken of those that the fetch names, and as many of the rest, so that no other
        request waits for long. Partitions that stay unread come last the next time.
        """
        unread, known = self.unread, self.partitions
        asked = (key for key in named if key in unread)
        others = (key for key in unread if key not in named)
        keys = [*islice(asked, CHECKED_AT_ONCE), *islice(others, CHECKED_AT_ONCE)]
        has_more = any(unread[key] for key in chain(asked, others))
        if self.is_over:  # removed partitions have no place any more
            keys = [key for key in keys if key in known]
        keys.sort(key=lambda key: known[key].place)
        return [(key, known[key].request) for key in keys], has_more

    def mark_unchecked(self, key: Key) -> None:
        if key in self.partitions:
            self.unread[key] = True

    def unsettle_all(self) -> None:
        """Let the next fetch read every partition."""
        self.unread = dict.fromkeys(self.partitions, True)

    def mark_checked(self, key: Key, partition: Partition) -> None:
        """Settle a partition that was sent completely, unless it changed since.

        A follower outside the in-sync set is never marked as checked: each fetch checks if it may join.
        """
        is_settled = self.follower is None or self.follower[0] in partition.image.isr
        if is_settled and self.unread.get(key) is False:
            del self.unread[key]

    def _put_last(self, key: Key, *, is_moved: bool) -> None:
        self.unread.pop(key, None)
        self.unread[key] = is_moved

    def failed(self, key: Key) -> None:
        """Handle a partition that could not be read and may be removed: drop the reference to it, and read it again."""
        if key in self.partitions:
            self._put_last(key, is_moved=False)
            self.partitions[key].unwatch()

    def moved(self, key: Key) -> None:
        """Unsettle a partition that has something new. If no fetch waits, it need not notify the session again."""
        self.mark_unchecked(key)
        if not self.waiters and (known := self.partitions.get(key)) is not None:
            known.unwatch()

    def data_available(self, size: int) -> None:
        for waiter in list(self.waiters):
            waiter.data_available(size)

    def state_changed(self) -> None:
        for waiter in list(self.waiters):
            waiter.state_changed()

    def check(self) -> None:
        for waiter in list(self.waiters):
            waiter.check()

    def record_response(self, key: Key, known: SessionPartition, data: FetchPartitionData) -> None:
        """Record what a response contains for a partition. A partition with records moves behind the others."""
        if data.records:
            self.partitions.move_to_end(key)
            known.place = self.new_place()
        elif known.watch is not None and self._has_all(known.request, known.watch.partition, data):
            self.mark_checked(key, known.watch.partition)

    def _has_all(self, request: FetchPartition, partition: Partition, data: FetchPartitionData) -> bool:
        """Return True if a response contains everything: there is no news before the partition changes."""
        is_plain = data.error_code == ErrorCode.NONE and data.diverging_epoch.end_offset < 0
        if not is_plain or data.preferred_read_replica >= 0:
            return False
        if self.is_follower:
            return request.fetch_offset == partition.log.log_end_offset
        return request.fetch_offset >= (data.last_stable_offset if self.is_committed else data.high_watermark)

    def new_place(self) -> int:
        """Return the place behind all others."""
        self.last_place += 1
        return self.last_place

    @property
    def size(self) -> int:
        """Number of partitions that count as cached for this session."""
        return len(self.partitions) + self.to_come
