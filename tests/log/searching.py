"""Synchronous searches of a log by timestamp."""

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from kwire.chunks import Steps
from kwire.log.errors import NotReadyError
from kwire.log.partition_log import PartitionLog
from kwire.log.timestamp_search import TimestampOffset, TimestampSearch
from kwire.log.transaction_index import AbortedTransaction

T = TypeVar("T")


class Done(Generic[T]):
    """An awaitable that is already done."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, Any, T]:
        raise AssertionError("this must not be awaited")


class InPlace:
    """Unpacking of large batches without a worker."""

    def __init__(self) -> None:
        self.is_acquired = False

    def acquire(self) -> Done[None]:
        assert not self.is_acquired
        self.is_acquired = True
        return Done(None)

    def release(self) -> None:
        assert self.is_acquired
        self.is_acquired = False

    def run(self, call: Callable[[], bytes]) -> Done[bytes]:
        assert self.is_acquired
        return Done(call())


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """Return the first record with this timestamp or a later one."""
    return through(TimestampSearch(lambda: log, InPlace()).first(timestamp))


def max_timestamp_offset(log: PartitionLog) -> TimestampOffset | None:
    """Return the first record with the largest timestamp."""
    return through(TimestampSearch(lambda: log, InPlace()).largest())


def aborted_transactions(log: PartitionLog, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions after they were compared with the log."""
    while True:
        try:
            return log.aborted_transactions(start_offset, end_offset)
        except NotReadyError:
            pass


def through(steps: Steps[T], *, after_each: Callable[[], None] = lambda: None) -> T:
    """Return the result of the steps; everything they wait for is already done."""
    result = None
    try:
        while True:
            waits_for = steps.send(result)
            after_each()
            assert waits_for is None or isinstance(waits_for, Done)
            result = waits_for.value if waits_for is not None else None
    except StopIteration as end:
        found: T = end.value
        return found
