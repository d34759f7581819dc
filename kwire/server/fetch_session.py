"""One client's incremental fetch session (KIP-227): what it was told of each partition, and which have more to tell.

An incremental fetch looks only at partitions that are unsettled: those that it names, those that have moved since it
was last told of them (session_watch.py), and those of which it was not told all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain, islice

from kwire.cluster.partition import Partition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchPartitionData
from kwire.server.session_watch import FollowerWatch, Key, SessionWaiter, SessionWatch

LOOKED_AT_ONCE = 2048
"""Partitions of a session that one fetch looks at; so many take some milliseconds to put together."""


@dataclass(slots=True, kw_only=True)
class SessionPartition:
    """What a session knows of a partition: what the client asked for and what it was last told."""

    request: FetchPartition
    watch: SessionWatch | FollowerWatch | None = None
    """Of a partition that an incremental fetch has looked at."""
    place: int = 0
    """Where it stands among those of its session."""
    topic: str | None = None
    """The name that a topic id had when it was first asked for; stays when the topic is deleted."""
    high_watermark: int = -1
    log_start_offset: int = -1

    def is_news(self, data: FetchPartitionData) -> bool:
        """Whether an answer must carry this partition."""
        news = bool(data.records) or data.error_code != ErrorCode.NONE or data.diverging_epoch.end_offset >= 0
        news = news or data.preferred_read_replica >= 0
        return news or self.high_watermark != data.high_watermark or self.log_start_offset != data.log_start_offset

    def unwatch(self) -> None:
        """The session has it no more, or looks at it in another way."""
        if self.watch is not None:
            self.watch.end()
            self.watch = None

    def tell(self, data: FetchPartitionData) -> bool:
        """Whether an answer must carry this partition; remembers what it says."""
        news = self.is_news(data)
        # After an error the partition is sent again as soon as the error is gone.
        self.high_watermark = data.high_watermark if data.error_code == ErrorCode.NONE else -1
        self.log_start_offset = data.log_start_offset
        return news


@dataclass(slots=True, kw_only=True)
class FetchSession:
    """One client's session. Partitions that had data move to the end, so that all get their turn."""

    session_id: int
    uses_topic_ids: bool
    follower: tuple[int, int] | None
    """Broker id and broker epoch, which is -1 before version 15; None of a consumer."""
    epoch: int = 1
    created_ms: float
    last_used_ms: float
    partitions: OrderedDict[Key, SessionPartition] = field(default_factory=OrderedDict)
    is_committed: bool = False
    """How its last fetch read."""
    unsettled: dict[Key, bool] = field(default_factory=dict)
    """What its next fetch looks at, and whether that has moved since it was last looked at."""
    waiters: dict[SessionWaiter, None] = field(default_factory=dict)  # of one fetch, unless two connections use it
    is_over: bool = False
    """Whether it has ended; a fetch of it may still be under way."""
    looked_at_all_ms: float = 0.0
    """Of a follower: when everything was last looked at."""
    last_place: int = 0
    to_come: int = 0
    """Partitions that it is yet to be given, while it is opened in pieces."""

    @property
    def is_follower(self) -> bool:
        return self.follower is not None

    def look_at(self, key: Key, partition: Partition) -> None:
        """Note that a partition is read now: what happens to it from now on unsettles it again."""
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

    def to_look_at(self, named: Collection[Key]) -> tuple[list[tuple[Key, FetchPartition]], bool]:
        """Return what a fetch looks at, in the session's order: of what it names, and of the others, so many each that
        they hold nobody up; and whether one of the rest has moved. Those that stay unsettled come last the next time.
        """
        unsettled, known = self.unsettled, self.partitions
        asked = (key for key in named if key in unsettled)
        others = (key for key in unsettled if key not in named)
        keys = [*islice(asked, LOOKED_AT_ONCE), *islice(others, LOOKED_AT_ONCE)]
        has_more = any(unsettled[key] for key in chain(asked, others))
        if self.is_over:  # partitions that are gone already have no place
            keys = [key for key in keys if key in known]
        keys.sort(key=lambda key: known[key].place)
        return [(key, known[key].request) for key in keys], has_more

    def unsettle(self, key: Key) -> None:
        if key in self.partitions:
            self.unsettled[key] = True

    def unsettle_all(self) -> None:
        """Look at everything."""
        self.unsettled = dict.fromkeys(self.partitions, True)

    def settle(self, key: Key, partition: Partition) -> None:
        """All of a partition was told, unless it has moved since. Whether a follower may join is always looked at."""
        is_settled = self.follower is None or self.follower[0] in partition.image.isr
        if is_settled and self.unsettled.get(key) is False:
            del self.unsettled[key]

    def _put_last(self, key: Key, *, is_moved: bool) -> None:
        self.unsettled.pop(key, None)
        self.unsettled[key] = is_moved

    def failed(self, key: Key) -> None:
        """A partition could not be read, and may be gone: it must not be held, and is looked at again."""
        if key in self.partitions:
            self._put_last(key, is_moved=False)
            self.partitions[key].unwatch()

    def moved(self, key: Key) -> None:
        """A partition has something new. If no fetch waits for more of it, it need not say so again."""
        self.unsettle(key)
        if not self.waiters and (known := self.partitions.get(key)) is not None:
            known.unwatch()

    def more_data(self, size: int) -> None:
        for waiter in list(self.waiters):
            waiter.more_data(size)

    def look(self) -> None:
        for waiter in list(self.waiters):
            waiter.look()

    def told(self, key: Key, known: SessionPartition, data: FetchPartitionData) -> None:
        """Note what an answer has told of a partition. One with records goes behind the others."""
        if data.records:
            self.partitions.move_to_end(key)
            known.place = self.new_place()
        elif known.watch is not None and self._has_all(known.request, known.watch.partition, data):
            self.settle(key, known.watch.partition)

    def _has_all(self, request: FetchPartition, partition: Partition, data: FetchPartitionData) -> bool:
        """Return whether an answer says all that there is: nothing new is to be told before the partition moves."""
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
        """How many partitions count as remembered for it."""
        return len(self.partitions) + self.to_come
