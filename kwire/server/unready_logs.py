"""Logs that a fetch has found not ready: an index is being derived, or aborted transactions are being compared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kwire.chunks import Pieces
from kwire.cluster.partition import Partition
from kwire.log.disk import DiskFailure
from kwire.log.not_ready import ready_in_steps
from kwire.protocol.error_codes import KafkaError


class UnreadyLogs:
    """What one reading of a fetch has to repeat until it succeeds; the fetch then reads again."""

    __slots__ = ("_asks",)

    def __init__(self) -> None:
        self._asks: list[tuple[Partition, Callable[[], object]]] = []

    def __bool__(self) -> bool:
        return bool(self._asks)

    def add_read(self, partition: Partition, offset: int, limit_offset: int) -> None:
        """Repeat reading the first batch from an offset on."""
        self._asks.append((partition, lambda: partition.log.read(offset, 0, limit_offset=limit_offset)))

    def add_aborted(self, partition: Partition, offset: int, end_offset: int) -> None:
        """Repeat looking up the aborted transactions between two offsets."""
        self._asks.append((partition, lambda: partition.log.aborted_transactions(offset, end_offset)))

    def get_ready(self) -> Pieces[None]:
        """Repeat a step at a time; a partition that is removed meanwhile is left alone."""
        for partition, ask in self._asks:
            yield
            for _ in ready_in_steps(partial(_ask, partition, ask)):
                yield


def _ask(partition: Partition, ask: Callable[[], object]) -> None:
    if partition.is_removed:
        return
    try:
        ask()
    except (KafkaError, DiskFailure):
        return  # a read will tell
