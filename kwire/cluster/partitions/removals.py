"""Partitions that are removed from this broker: deleted, or moved to other brokers.

A request can delete many thousand partitions. The broker stops serving them as soon as the metadata change. The rest is
done in parts, so that other work can run in between. First all partitions are marked as removed, their waiters are
woken, and the listener is called. Then their logs are closed and renamed. A log that waits for this is an ordinary
open log without a partition. Until it is renamed, a start after a crash treats it as any log that the metadata do not
contain.

A partition that returns under the same name must not use the old log: `finish` removes that log before its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from kwire.cluster.partitions.partition import Partition
from kwire.log.checkpoints import TopicPartition
from kwire.log.jobs import Job
from kwire.log.log_manager import LogManager

NOTIFIED_AT_ONCE: Final = 1024
"""Partitions marked in one step: some microseconds each, a few milliseconds together."""
REMOVED_AT_ONCE: Final = 8
"""Logs closed and renamed in one step: a device may take milliseconds for each."""


class Removals:
    """Owner of partitions from when they are no longer served until their logs are gone."""

    def __init__(self, logs: LogManager, *, removed: Callable[[Partition], None]) -> None:
        """`removed` is called with each partition that is removed from this broker."""
        self._logs = logs
        self._removed = removed
        self._unmarked: deque[Partition] = deque()
        self._waiting: dict[str, dict[int, Partition | None]] = {}
        """Partitions whose logs are not gone yet, by topic and index; None for a log that is not open."""

    # --- adding

    def add(self, topic: str, partitions: dict[int, Partition]) -> None:
        """Take over partitions; the caller has removed them from its own maps."""
        if partitions:
            self._waiting.setdefault(topic, {}).update(partitions)
            self._unmarked.extend(partitions.values())

    def add_closed(self, topic: str, indexes: Iterable[int]) -> None:
        """Take over partitions whose logs are not open."""
        closed = dict.fromkeys(indexes)
        if closed:
            self._waiting.setdefault(topic, {}).update(closed)

    def notify(self, topics: Iterable[str]) -> None:
        """Mark all removed partitions of these topics now, and call `removed`."""
        for topic in topics:
            for partition in self._waiting.get(topic, {}).values():
                if partition is not None:
                    self._mark(partition)

    # --- removing in parts

    @property
    def is_done(self) -> bool:
        """True if all logs are gone, durably."""
        return not (self._waiting or self._unmarked or self._logs.deletions.has_unsynced)

    def has_waiting(self, topic: str) -> bool:
        """Return True if logs of this topic, or of an earlier topic of the same name, wait for removal."""
        return topic in self._waiting

    def do_more(self, room: int = REMOVED_AT_ONCE) -> bool:
        """Do a part of the remaining work, removing at most `room` logs; return True if there is more."""
        for _ in range(min(len(self._unmarked), NOTIFIED_AT_ONCE)):
            self._mark(self._unmarked.popleft())
        if not self._unmarked:
            self._remove_some(room)
        return bool(self._waiting or self._unmarked)

    def finish(self, topic: str, index: int) -> None:
        """Remove a waiting log of this partition now and durably, because another partition takes its name.

        Raises DiskFullError if it cannot be made durable because no file descriptor is free; the next call tries
        again.
        """
        partitions = self._waiting.get(topic)
        if partitions is not None and index in partitions:
            partition = partitions.pop(index)
            if not partitions:
                del self._waiting[topic]
            self._remove((topic, index), partition)
        self._logs.deletions.sync_before_reuse(topic, index)

    def sync_jobs(self) -> Iterator[Job]:
        """Return the jobs that make the removals durable; workers may run their blocking part."""
        return self._logs.deletions.sync_jobs()

    def _remove_some(self, room: int) -> None:
        while room and self._waiting:
            topic = next(iter(self._waiting))
            partitions = self._waiting[topic]
            some = list(islice(partitions, room))
            for index in some:
                self._remove((topic, index), partitions.pop(index))
            room -= len(some)
            if not partitions:
                del self._waiting[topic]

    def _remove(self, key: TopicPartition, partition: Partition | None) -> None:
        if partition is None:
            self._logs.closed.delete([key])
            return
        self._mark(partition)
        self._logs.rename_deleted([key])

    def _mark(self, partition: Partition) -> None:
        """Mark a partition as removed, once; call `removed`, and notify its waiters."""
        if partition.is_removed:
            return
        partition.is_removed = True
        self._removed(partition)
        partition.wake()
