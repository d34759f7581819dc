"""A fetch that is answered later: when its partitions have grown, its time is up, or others have had their turn."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.cluster.partition import READ_COMMITTED, Partition, Waiter
from kwire.protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from kwire.server.apis.fetch import Fetch

MAX_WAIT_MS: Final = 2**31 - 1


class DelayedFetch:
    """A fetch that is answered later.

    It found too little, and waits for its partitions to grow or for its time to be up; or it reads so many partitions
    that others have their turn first.
    """

    __slots__ = ("_fetch", "_missing", "_scheduled", "_timer", "_waiters", "future")

    def __init__(self, fetch: Fetch) -> None:
        loop = asyncio.get_running_loop()
        fetch.will_wait()
        self._fetch = fetch
        self._missing = 0
        self._scheduled = False
        self._waiters: list[tuple[Partition, Waiter]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.future: asyncio.Future[FetchResponse] = loop.create_future()
        self.future.add_done_callback(self._stop)

    def wait(self) -> None:
        """Answer when there is more than the fetch has found."""
        fetch = self._fetch
        self._missing = fetch.bytes_min - fetch.size
        is_committed = fetch.request.isolation_level == READ_COMMITTED
        is_follower = fetch.replica_id >= 0
        self._waiters = [
            (each, _StableWaiter(self, each) if is_committed and not is_follower else self) for each in fetch.partitions
        ]
        wait_ms = min(fetch.request.max_wait_ms, MAX_WAIT_MS)
        self._timer = self.future.get_loop().call_later(wait_ms / 1000.0, self._complete)
        for partition, waiter in self._waiters:
            partition.wait(waiter, for_tail=is_follower)

    def read_soon(self) -> None:
        """Read for the first time when others have had their turn."""
        self.future.get_loop().call_soon(partial(self._complete, may_wait=True))

    def more_data(self, size: int) -> None:
        self._missing -= size
        if (self._missing <= 0 or size == 0) and not self._scheduled:
            # Not at once: the append that brought the data is still being served.
            self._scheduled = True
            self.future.get_loop().call_soon(self._complete)

    def look(self) -> None:
        """Answer if there is enough by now; else go on waiting."""
        if not self._scheduled:
            self._scheduled = True
            self.future.get_loop().call_soon(partial(self._complete, may_wait=True))

    def _complete(self, *, may_wait: bool = False) -> None:
        if self.future.done():
            return
        self._fetch.goes_on()
        try:
            answers = self._fetch.read()
            if may_wait and not self._fetch.need_not_wait:
                self._fetch.will_wait()
                self._scheduled = False
                self._missing = self._fetch.bytes_min - self._fetch.size
                if self._timer is None:
                    self.wait()
                return
            response = self._fetch.conclude(answers)
        except Exception as error:  # noqa: BLE001 handed to the connection, which logs it and closes
            self.future.set_exception(error)
            return
        size = self._fetch.answer_bytes
        self._fetch.output.promise(size)
        # Behind the connection's own callback, which writes, or begins to.
        self.future.add_done_callback(lambda _: self._fetch.when_written(size))
        self.future.set_result(response)

    def _stop(self, _: asyncio.Future[FetchResponse]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for partition, waiter in self._waiters:
            partition.stop_waiting(waiter)


class _StableWaiter:
    """Tells a read of committed records of what it may see: nothing while a transaction is open, then all at once."""

    __slots__ = ("_delayed", "_hides", "_partition", "_seen")

    def __init__(self, delayed: DelayedFetch, partition: Partition) -> None:
        self._delayed = delayed
        self._partition = partition
        self._seen = partition.end_offset(READ_COMMITTED)
        self._hides = self._seen < partition.high_watermark

    def more_data(self, size: int) -> None:
        end = self._partition.end_offset(READ_COMMITTED)
        has_moved, self._seen = end != self._seen, end
        hid, self._hides = self._hides, end < self._partition.high_watermark
        if size == 0 or not (hid or self._hides):
            self._delayed.more_data(size)
        elif has_moved:
            self._delayed.look()
