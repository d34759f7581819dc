"""Delayed fetch: waits for its partitions to grow or for max_wait_ms, or reads them in pieces, in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from functools import partial
from typing import Final, TypeVar

from kwire.chunks import Pieces, step_line
from kwire.cluster.partitions.partition import READ_COMMITTED, Partition
from kwire.cluster.partitions.waiters import Waiter
from kwire.protocol.messages.fetch import FetchPartitionData, FetchResponse
from kwire.server.fetching.fetch import Fetch
from kwire.server.fetching.session_watch import Key, StableWaiter

MAX_WAIT_MS: Final = 2**31 - 1
T = TypeVar("T")
Work = Generator[asyncio.Future[None] | None, None, T]
"""Generator that yields None where other requests may run, and a future where the caller must wait for it."""


class DelayedFetch:
    """Fetch request that is answered later.

    It found too little and waits for its partitions to grow or for max_wait_ms. Or it reads so many partitions that
    other requests get turns meanwhile.
    """

    __slots__ = (
        "_fetch",
        "_has_changed",
        "_is_over",
        "_is_watched",
        "_missing",
        "_reserved_bytes",
        "_scheduled",
        "_timer",
        "_waiters",
        "future",
    )

    def __init__(self, fetch: Fetch) -> None:
        loop = asyncio.get_running_loop()
        fetch.pause_timing()
        self._fetch = fetch
        self._missing = 0
        self._reserved_bytes = 0
        """Bytes that were read in pieces for the response and are already counted as output."""
        self._scheduled = False
        """True if the partitions are being read or will be read soon."""
        self._has_changed = False
        """True if a partition changed while the fetch was being read or scheduled."""
        self._is_over = False
        """True if max_wait_ms is over."""
        self._is_watched = False
        """True if all partitions notify this fetch of changes."""
        self._waiters: list[tuple[Partition, Waiter]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.future: asyncio.Future[FetchResponse] = loop.create_future()
        self.future.add_done_callback(self._stop)

    def wait(self) -> None:
        """Wait until there is more than the fetch has found, then answer."""
        fetch = self._fetch
        self._missing = fetch.bytes_min - fetch.reading.size
        if not self._is_watched:
            self._watch(fetch.reading.partitions)
            self._is_watched = True
        if self._timer is None:
            wait_ms = min(fetch.request.max_wait_ms, MAX_WAIT_MS)
            self._timer = self.future.get_loop().call_later(wait_ms / 1000.0, self._time_is_up)

    def read_in_pieces(self) -> None:
        """Read for the first time, in turns with other requests."""
        self._read_soon(may_wait=True)

    def data_available(self, size: int) -> None:
        self._missing -= size
        if self._missing <= 0:
            self.state_changed()
        elif self._scheduled:
            self._has_changed = True

    def state_changed(self) -> None:
        # Not at once: the append of the new data is still being served.
        self._read_soon(may_wait=False)

    def check(self) -> None:
        """Answer if there is enough now; else keep waiting."""
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
        self._continue(self._answer(may_wait=may_wait))

    def _continue(self, work: Work[FetchResponse | None]) -> None:
        """Run the next piece, and schedule the following ones."""
        if self.future.done():
            return
        self._fetch.resume_timing()
        try:
            waits_for = next(work)
        except StopIteration as end:
            if end.value is not None:
                self._settle(end.value)
        except Exception as error:  # noqa: BLE001 the connection logs it and closes
            self.future.set_exception(error)
        else:
            self._fetch.pause_timing()
            if waits_for is None:
                step_line().add(partial(self._continue, work))
            else:
                waits_for.add_done_callback(lambda _: self._continue(work))

    def _answer(self, *, may_wait: bool) -> Work[FetchResponse | None]:
        """Read again, and return the response; None if there is too little and the fetch keeps waiting."""
        fetch = self._fetch
        answers = yield from self._read()
        if may_wait and not self._is_over and not fetch.need_not_wait:
            fetch.pause_timing()
            self._scheduled = False
            self.wait()
            if self._has_changed:
                self.check()
            return None
        return (yield from fetch.conclude_in_pieces(answers))

    def _read(self) -> Work[list[tuple[Key, FetchPartitionData]]]:
        fetch, reading = self._fetch, self._fetch.reading
        while True:
            if reading.cold:  # before any other read: even the check for cached pages makes the system start to read
                yield asyncio.ensure_future(fetch.warm(self._is_wanted))
            fetch.refresh()
            answers = (yield from self._read_large()) if fetch.is_large else fetch.read()
            if not fetch.has_to_wait or (self._is_over and reading.size):
                reading.cold.release()
                return answers
            yield from reading.unready.get_ready()

    def _is_wanted(self) -> bool:
        """Return True if the client still waits for the response; called by workers too."""
        return not self.future.done()

    def _read_large(self) -> Pieces[list[tuple[Key, FetchPartitionData]]]:
        """Read in pieces. A partition notifies this fetch of changes after its first read."""
        pieces = self._fetch.read_in_pieces()
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                answers: list[tuple[Key, FetchPartitionData]] = end.value
                self._is_watched = True
                return answers
            self._reserve_output()
            if not self._is_watched:
                self._watch(self._fetch.reading.partitions[len(self._waiters) :])
            yield

    def _watch(self, partitions: Sequence[Partition]) -> None:
        if (session := self._fetch.watching_session) is not None:
            session.waiters[self] = None
            return
        is_follower = self._fetch.reading.replica_id >= 0
        is_committed = self._fetch.request.isolation_level == READ_COMMITTED and not is_follower
        for partition in partitions:
            waiter: Waiter = StableWaiter(self, partition) if is_committed else self
            self._waiters.append((partition, waiter))
            partition.wait(waiter, for_log_end=is_follower)

    def _settle(self, response: FetchResponse) -> None:
        self._reserve_output()
        size, self._reserved_bytes = self._reserved_bytes, 0
        # After the connection's own callback, which writes the response or starts to.
        self.future.add_done_callback(lambda _: self._fetch.when_written(size))
        self.future.set_result(response)

    def _reserve_output(self) -> None:
        size = self._fetch.reading.answer_bytes
        self._fetch.output.reserve(size - self._reserved_bytes)
        self._reserved_bytes = size

    def _stop(self, _: asyncio.Future[FetchResponse]) -> None:
        self._fetch.output.release_reserved(self._reserved_bytes)  # bytes that are not sent
        self._fetch.reading.cold.release()
        if self._timer is not None:
            self._timer.cancel()
        if (session := self._fetch.watching_session) is not None:
            session.waiters.pop(self, None)
        for partition, waiter in self._waiters:
            partition.stop_waiting(waiter)
        self._waiters = []  # otherwise a reference cycle would keep this object and its response
