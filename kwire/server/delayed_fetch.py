"""A fetch that is answered later: when its partitions have grown, its time is up, or others have had their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kwire.chunks import Pieces, step_line
from kwire.cluster.partition import READ_COMMITTED, Partition
from kwire.cluster.waiters import Waiter
from kwire.protocol.messages.fetch import FetchPartitionData, FetchResponse
from kwire.server.session_watch import Key, StableWaiter

if TYPE_CHECKING:
    from kwire.server.apis.fetch import Fetch

MAX_WAIT_MS: Final = 2**31 - 1
T = TypeVar("T")
Work = Generator[asyncio.Future[None] | None, None, T]
"""None is yielded where others may run, a future where it must be waited for."""


class DelayedFetch:
    """A fetch that is answered later.

    It found too little, and waits for its partitions to grow or for its time to be up; or it reads so many partitions
    that others have their turns meanwhile.
    """

    __slots__ = (
        "_fetch",
        "_has_changed",
        "_is_over",
        "_is_watched",
        "_missing",
        "_promised",
        "_scheduled",
        "_timer",
        "_waiters",
        "future",
    )

    def __init__(self, fetch: Fetch) -> None:
        loop = asyncio.get_running_loop()
        fetch.will_wait()
        self._fetch = fetch
        self._missing = 0
        self._promised = 0
        """Bytes that have been read for the answer, in pieces, and are counted as output already."""
        self._scheduled = False
        """Whether partitions are being read, or will be soon."""
        self._has_changed = False
        """Whether something came meanwhile."""
        self._is_over = False
        """Whether the fetch has waited for as long as it may."""
        self._is_watched = False
        """Whether all partitions tell of changes."""
        self._waiters: list[tuple[Partition, Waiter]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.future: asyncio.Future[FetchResponse] = loop.create_future()
        self.future.add_done_callback(self._stop)

    def wait(self) -> None:
        """Answer when there is more than the fetch has found."""
        fetch = self._fetch
        self._missing = fetch.bytes_min - fetch.size
        if not self._is_watched:
            self._watch(fetch.partitions)
            self._is_watched = True
        if self._timer is None:
            wait_ms = min(fetch.request.max_wait_ms, MAX_WAIT_MS)
            self._timer = self.future.get_loop().call_later(wait_ms / 1000.0, self._time_is_up)

    def read_in_pieces(self) -> None:
        """Read for the first time, in turns with others."""
        self._read_soon(may_wait=True)

    def more_data(self, size: int) -> None:
        self._missing -= size
        if self._missing <= 0 or size == 0:
            # Not at once: the append that brought the data is still being served.
            self._read_soon(may_wait=False)
        elif self._scheduled:
            self._has_changed = True

    def look(self) -> None:
        """Answer if there is enough by now; else go on waiting."""
        self._read_soon(may_wait=True)

    def _time_is_up(self) -> None:
        self._is_over = True
        self._read_soon(may_wait=False)

    def _read_soon(self, *, may_wait: bool) -> None:
        if self._scheduled:
            self._has_changed = True
        else:
            self._scheduled = True
            if self._fetch.is_large:
                step_line().add(partial(self._begin, may_wait))
            else:
                self.future.get_loop().call_soon(self._begin, may_wait)

    def _begin(self, may_wait: bool) -> None:
        self._has_changed = False
        self._go_on(self._answer(may_wait=may_wait))

    def _go_on(self, work: Work[FetchResponse | None]) -> None:
        """Do the next piece, and have the others in turns of their own."""
        if self.future.done():
            return
        self._fetch.goes_on()
        try:
            waits_for = next(work)
        except StopIteration as end:
            if end.value is not None:
                self._settle(end.value)
        except Exception as error:  # noqa: BLE001 handed to the connection, which logs it and closes
            self.future.set_exception(error)
        else:
            self._fetch.will_wait()
            if waits_for is None:
                step_line().add(partial(self._go_on, work))
            else:
                waits_for.add_done_callback(lambda _: self._go_on(work))

    def _answer(self, *, may_wait: bool) -> Work[FetchResponse | None]:
        """Read again, and return the response; None if it is to wait, as there is too little."""
        fetch = self._fetch
        answers = yield from self._read()
        if may_wait and not self._is_over and not fetch.need_not_wait:
            fetch.will_wait()
            self._scheduled = False
            self.wait()
            if self._has_changed:
                self.look()
            return None
        return (yield from fetch.conclude_in_pieces(answers))

    def _read(self) -> Work[list[tuple[Key, FetchPartitionData]]]:
        fetch = self._fetch
        while True:
            if fetch.cold:  # before anything is read: to ask about it has the system begin to read it
                yield asyncio.ensure_future(fetch.warm(self._is_wanted))
            fetch.refresh()
            answers = (yield from self._read_large()) if fetch.is_large else fetch.read()
            if not fetch.has_to_wait or (self._is_over and fetch.size):
                fetch.cold.release()
                return answers
            yield from fetch.unready.get_ready()

    def _is_wanted(self) -> bool:
        """Whether the client is still there; a worker may ask."""
        return not self.future.done()

    def _read_large(self) -> Pieces[list[tuple[Key, FetchPartitionData]]]:
        """Read in pieces; what is read for the first time tells of changes from then on."""
        reading = self._fetch.read_in_pieces()
        while True:
            try:
                next(reading)
            except StopIteration as end:
                answers: list[tuple[Key, FetchPartitionData]] = end.value
                self._is_watched = True
                return answers
            self._promise()
            if not self._is_watched:
                self._watch(self._fetch.partitions[len(self._waiters) :])
            yield

    def _watch(self, partitions: Sequence[Partition]) -> None:
        if (session := self._fetch.watching_session) is not None:
            session.waiters[self] = None
            return
        is_follower = self._fetch.replica_id >= 0
        is_committed = self._fetch.request.isolation_level == READ_COMMITTED and not is_follower
        for partition in partitions:
            waiter: Waiter = StableWaiter(self, partition) if is_committed else self
            self._waiters.append((partition, waiter))
            partition.wait(waiter, for_tail=is_follower)

    def _settle(self, response: FetchResponse) -> None:
        self._promise()
        size, self._promised = self._promised, 0
        # Behind the connection's own callback, which writes, or begins to.
        self.future.add_done_callback(lambda _: self._fetch.when_written(size))
        self.future.set_result(response)

    def _promise(self) -> None:
        size = self._fetch.answer_bytes
        self._fetch.output.promise(size - self._promised)
        self._promised = size

    def _stop(self, _: asyncio.Future[FetchResponse]) -> None:
        self._fetch.output.fulfil(self._promised)  # of what is not answered
        self._fetch.cold.release()
        if self._timer is not None:
            self._timer.cancel()
        if (session := self._fetch.watching_session) is not None:
            session.waiters.pop(self, None)
        for partition, waiter in self._waiters:
            partition.stop_waiting(waiter)
        self._waiters = []  # else this object, the answer with it, would stay until cycles are collected
