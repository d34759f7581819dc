"""Responses that wait for partitions, with partitions that the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.log.cold_reads import ColdReads
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.produce_exchange import ProducedPartition, ProduceExchange
from kwire.server.fetching.delayed_fetch import DelayedFetch
from kwire.server.requests.delayed_produce import DelayedProduce
from tests.support.compiled import replaces_methods
from tests.virtual_loop import virtual_loop

E = ErrorCode
READ_COMMITTED = 1
ACKS_ALL = -1


def play(act: Callable[[], Awaitable[None]]) -> None:
    with virtual_loop() as loop:

        async def main() -> None:
            await act()

        loop.run_until_complete(main())


class Partition:
    """Partition with its waiters."""

    def __init__(self, index: int = 0) -> None:
        self.topic = "t"
        self.index = index
        self.followers = None
        self.log = SimpleNamespace(failure=None)
        self.is_led = self.has_enough_in_sync = True
        self.high_watermark = self.stable_offset = 0
        self.waiters: list[Any] = []

    def satisfies_acks(self, last_offset: int, acks: int) -> bool:
        return self.high_watermark > last_offset

    def end_offset(self, isolation_level: int) -> int:
        return self.stable_offset if isolation_level == READ_COMMITTED else self.high_watermark

    def wait(self, waiter: Any, *, for_log_end: bool = False) -> None:
        self.waiters.append(waiter)

    def stop_waiting(self, waiter: Any) -> None:
        self.waiters.remove(waiter)

    def tell(self, size: int) -> None:
        for waiter in list(self.waiters):
            waiter.data_available(size) if size else waiter.state_changed()


# --- produce


class Produced:
    """Request with a batch in each of two partitions, which are not committed yet."""

    def __init__(self) -> None:
        self.partitions = [Partition(0), Partition(1)]
        self.data = [ProducedPartition(index, b"") for index in (0, 1)]
        for data in self.data:
            data.base_offset = 0
        exchange = ProduceExchange(None, ACKS_ALL, 5000)
        appends = [(cast("Any", each), data, 0) for each, data in zip(self.partitions, self.data, strict=True)]
        known = SimpleNamespace(get=lambda topic, index: self.partitions[index])
        self.answer = DelayedProduce(exchange, appends, cast("Any", known)).future

    def commit(self, index: int) -> None:
        self.partitions[index].high_watermark = 1
        self.partitions[index].tell(1)

    def outcomes(self) -> list[tuple[int, int]]:
        return [(data.error_code, data.base_offset) for data in self.data]


def test_an_answer_waits_for_the_last_of_its_partitions() -> None:
    async def act() -> None:
        produced = Produced()
        produced.commit(0)
        assert not produced.answer.done()
        produced.commit(1)
        await produced.answer
        assert produced.outcomes() == [(E.NONE, 0), (E.NONE, 0)]
        assert [each.waiters for each in produced.partitions] == [[], []]

    play(act)


def test_a_shrunken_isr_returns_not_enough_replicas_after_append() -> None:
    async def act() -> None:
        produced = Produced()
        produced.partitions[0].has_enough_in_sync = False
        produced.commit(0)
        produced.commit(1)
        await produced.answer
        assert produced.outcomes() == [(E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1), (E.NONE, 0)]

    play(act)


def test_a_disk_failure_before_the_commit_returns_an_error() -> None:
    async def act() -> None:
        produced = Produced()
        produced.partitions[0].log.failure = DiskFailure("fsync", "x", OSError(5, "Input/output error"))
        produced.partitions[0].tell(0)
        produced.commit(1)
        await produced.answer
        assert produced.outcomes() == [(E.KAFKA_STORAGE_ERROR, -1), (E.NONE, 0)]

    play(act)


# --- fetch


class Fetch:
    """Fetch of committed records; the test sets its result."""

    def __init__(self, partition: Partition) -> None:
        self.request = SimpleNamespace(isolation_level=READ_COMMITTED, max_wait_ms=60_000)
        self.reading = SimpleNamespace(
            partitions=[partition], replica_id=-1, size=0, answer_bytes=100, cold=ColdReads()
        )
        self.bytes_min = 1
        self.promised = 0
        self.output = SimpleNamespace(reserve=self.promise, release_reserved=lambda size: self.promise(-size))
        self.is_large = False
        self.watching_session = None
        self.reads = 0
        self.has_to_wait = False
        self.error: Exception | None = None

    def promise(self, size: int) -> None:
        self.promised += size

    def when_written(self, size: int) -> None:
        self.promise(-size)

    def pause_timing(self) -> None:
        pass

    resume_timing = refresh = pause_timing

    @property
    def need_not_wait(self) -> bool:
        return bool(self.reading.size >= self.bytes_min)

    def read(self) -> list[Any]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return []

    def read_in_pieces(self) -> Generator[None, None, list[Any]]:
        self.reads += 1
        yield
        yield
        return []

    def conclude_in_pieces(self, answers: list[Any]) -> Generator[None, None, str]:
        yield from ()
        return "answer"


def delayed(partition: Partition) -> tuple[Fetch, DelayedFetch]:
    fetch = Fetch(partition)
    waiting = DelayedFetch(cast("Any", fetch))
    waiting.wait()
    return fetch, waiting


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@replaces_methods
def test_a_read_that_fails_after_a_wait_is_handed_to_the_connection() -> None:
    async def act() -> None:
        partition = Partition()
        fetch, waiting = delayed(partition)
        fetch.error = ValueError("broken")
        partition.stable_offset = partition.high_watermark = 1
        partition.tell(100)
        with pytest.raises(ValueError, match="broken"):
            await waiting.future
        assert partition.waiters == []

    play(act)


@replaces_methods
def test_a_read_committed_fetch_wakes_only_when_the_last_stable_offset_advances() -> None:
    async def act() -> None:
        partition = Partition()
        partition.high_watermark = 5  # a transaction is open from the start
        fetch, waiting = delayed(partition)
        partition.high_watermark = 6
        partition.tell(100)
        await settle()
        assert fetch.reads == 0, "it may see no more than before"
        partition.stable_offset = 3
        partition.tell(100)
        partition.stable_offset = 4
        partition.tell(100)
        await settle()
        assert fetch.reads == 1, "two steps in one turn are one look"
        assert not waiting.future.done()
        fetch.reading.size = 10
        partition.stable_offset = 6
        partition.tell(100)
        assert await waiting.future == "answer"  # type: ignore[comparison-overlap]

    play(act)


def large(partition: Partition) -> tuple[Fetch, DelayedFetch]:
    fetch = Fetch(partition)
    fetch.is_large = True
    waiting = DelayedFetch(cast("Any", fetch))
    waiting.read_in_pieces()
    return fetch, waiting


@replaces_methods
def test_records_appended_while_a_fetch_reads_in_steps_wake_it() -> None:
    """The notification's partition may already have been read."""

    async def act() -> None:
        partition = Partition()
        fetch, waiting = large(partition)
        await asyncio.sleep(0)
        assert len(partition.waiters) == 1, "it is watched as soon as it is read"
        partition.stable_offset = partition.high_watermark = 1
        partition.tell(1)
        fetch.reading.size = 1
        await waiting.future
        assert fetch.reads <= 2
        assert partition.waiters == []

    play(act)


@replaces_methods
def test_many_partitions_without_data_are_waited_for() -> None:
    async def act() -> None:
        partition = Partition()
        fetch, waiting = large(partition)
        await settle()
        assert (fetch.reads, waiting.future.done(), len(partition.waiters)) == (1, False, 1)
        fetch.reading.size = 1
        partition.stable_offset = partition.high_watermark = 1
        partition.tell(1)
        await waiting.future
        assert fetch.reads == 2

    play(act)


@replaces_methods
def test_a_fetch_whose_time_ends_while_it_reads_is_answered() -> None:
    async def act() -> None:
        fetch, waiting = large(Partition())
        await settle()
        waiting.check()
        waiting._time_is_up()
        await waiting.future
        assert fetch.reads == 2

    play(act)


@replaces_methods
@pytest.mark.parametrize("leaves", [False, True])
def test_bytes_read_in_steps_count_as_output_at_once(leaves: bool) -> None:
    """Other responses between two steps use the same memory budget."""

    async def act() -> None:
        fetch, waiting = large(Partition())
        fetch.reading.size = 1
        await asyncio.sleep(0)
        assert fetch.promised == fetch.reading.answer_bytes == 100
        if leaves:
            waiting.future.cancel()
        await settle()
        assert waiting.future.cancelled() == leaves
        assert fetch.promised == 0

    play(act)
