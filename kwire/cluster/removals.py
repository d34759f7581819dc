"""Partitions that this broker has no more: deleted, or moved to other brokers.

A request can delete many thousand partitions. Nothing serves them from the moment that the metadata say so; the rest is
done in parts, others in between: first all of them are marked as removed, their waiters are woken and the watchers are
notified, then their logs are closed and renamed. A log that waits for that is an ordinary open log without a partition.
Until it is renamed, a start after a crash finds it as it finds any log that the metadata do not know.

A partition that comes again under the same name must not meet the old log: `finish` removes that one before its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from kwire.cluster.partition import Partition
from kwire.log.checkpoints import TopicPartition
from kwire.log.jobs import Job
from kwire.log.log_manager import LogManager

NOTIFIED_AT_ONCE: Final = 1024
"""Partitions that are marked in one step: some microseconds for each make a few milliseconds."""
REMOVED_AT_ONCE: Final = 8
"""Logs that are closed and renamed in one step: a device may take milliseconds for each."""


class Removals:
    """Owns partitions from the moment that they are served no more until their logs have gone."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._unmarked: deque[Partition] = deque()
        self._waiting: dict[str, dict[int, Partition | None]] = {}
        """By topic, the partitions whose logs have not gone; None for a log that is not open."""
        self._watchers: list[Callable[[Partition], None]] = []

    def watch(self, watcher: Callable[[Partition], None]) -> None:
        """Call the watcher with each partition that this broker has no more."""
        self._watchers.append(watcher)

    # --- what goes

    def add(self, topic: str, partitions: dict[int, Partition]) -> None:
        """Take partitions over, which nothing must find any more."""
        if partitions:
            self._waiting.setdefault(topic, {}).update(partitions)
            self._unmarked.extend(partitions.values())

    def add_closed(self, topic: str, indexes: Iterable[int]) -> None:
        """Take partitions over whose logs are not open."""
        closed = dict.fromkeys(indexes)
        if closed:
            self._waiting.setdefault(topic, {}).update(closed)

    def notify(self, topics: Iterable[str]) -> None:
        """Mark all removed partitions of these topics now, and notify the watchers."""
        for topic in topics:
            for partition in self._waiting.get(topic, {}).values():
                if partition is not None:
                    self._mark(partition)

    # --- in parts

    @property
    def is_done(self) -> bool:
        """Return True if all logs have gone, durably."""
        return not (self._waiting or self._unmarked or self._logs.deletions.is_any_unsettled)

    def holds(self, topic: str) -> bool:
        """Return True if logs of this topic, or of an earlier one of its name, wait for their removal."""
        return topic in self._waiting

    def do_more(self, room: int = REMOVED_AT_ONCE) -> bool:
        """Do a part of what is left, and let `room` logs go at most; return True if there is more."""
        for _ in range(min(len(self._unmarked), NOTIFIED_AT_ONCE)):
            self._mark(self._unmarked.popleft())
        if not self._unmarked:
            self._remove_some(room)
        return bool(self._waiting or self._unmarked)

    def finish(self, topic: str, index: int) -> None:
        """Remove the log of this partition now and durably, if it waits for that: another one takes its name.

        Raises DiskFullError if that is not durable for want of a descriptor; the next call tries again.
        """
        partitions = self._waiting.get(topic)
        if partitions is not None and index in partitions:
            partition = partitions.pop(index)
            if not partitions:
                del self._waiting[topic]
            self._remove((topic, index), partition)
        self._logs.deletions.settle_for(topic, index)

    def settling(self) -> Iterator[Job]:
        """Return the jobs that make durable what has gone, of which workers may run the part that waits."""
        return self._logs.deletions.settling()

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
        """Mark a partition as removed, once; its waiters and the watchers are notified."""
        if partition.is_removed:
            return
        partition.is_removed = True
        for watcher in self._watchers:
            watcher(partition)
        partition.wake()
