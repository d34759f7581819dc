"""Logs that are not ready for a fetch: an index is being derived, or aborted transactions are being read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kwire.chunks import Pieces
from kwire.cluster.partitions.partition import Partition
from kwire.log.disk import DiskFailure
from kwire.log.not_ready import ready_in_steps
from kwire.protocol.error_codes import KafkaError

UNREADY_AT_ONCE = 4
"""Logs found not ready after which a step of a fetch ends: each of them has done some milliseconds of work then."""
READY_AT_ONCE = 16
"""Logs that are made ready before a fetch reads again: it may have enough then, and the next fetch continues."""


class UnreadyLogs:
    """Reads that a fetch must repeat until they succeed; the fetch then reads again."""

    __slots__ = ("_begun_with", "_reads")

    def __init__(self) -> None:
        self._reads: list[tuple[Partition, Callable[[], object]]] = []
        self._begun_with = 0
        """Number of reads when the step began."""

    def __bool__(self) -> bool:
        return bool(self._reads)

    def begin_step(self) -> None:
        """Begin the next step of the reading."""
        self._begun_with = len(self._reads)

    @property
    def is_much(self) -> bool:
        """True if this step is to read no more logs, because they may not be ready either."""
        return len(self._reads) - self._begun_with >= UNREADY_AT_ONCE

    def add_read(self, partition: Partition, offset: int, limit_offset: int) -> None:
        """Repeat reading the first batch from an offset on."""
        self._reads.append((partition, lambda: partition.log.read(offset, 0, limit_offset=limit_offset)))

    def add_aborted(self, partition: Partition, offset: int, end_offset: int) -> None:
        """Repeat reading the aborted transactions between two offsets."""
        self._reads.append((partition, lambda: partition.log.aborted_transactions(offset, end_offset)))

    def get_ready(self) -> Pieces[None]:
        """Repeat the first READY_AT_ONCE reads, a step at a time; skip partitions that are removed meanwhile."""
        for partition, read in self._reads[:READY_AT_ONCE]:
            yield
            for _ in ready_in_steps(partial(_read, partition, read)):
                yield


def _read(partition: Partition, read: Callable[[], object]) -> None:
    if partition.is_removed:
        return
    try:
        read()
    except (KafkaError, DiskFailure):
        return  # the fetch's own read reports it
