"""Delayed Produce responses. With acks=all a response waits until the high watermark is above its last offsets. With
acks=1 it waits only for the flush that flush.messages requires.

Each append waits at its own partition: the cost of a flush does not depend on how many other appends wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from kwire.cluster.partitions.partition import ACKS_ALL, Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.produce_exchange import ProducedPartition, ProduceExchange

Append = tuple[Partition, ProducedPartition, int]
"""Partition of the append, its part of the response so far, and its last offset."""


class DelayedProduce:
    """Delayed response to one request; its future returns the exchange when the last append is complete."""

    def __init__(self, exchange: ProduceExchange, appends: Iterable[Append], partitions: Partitions) -> None:
        self.future: asyncio.Future[ProduceExchange] = asyncio.get_running_loop().create_future()
        self._exchange = exchange
        acks = exchange.acks
        self._waiting = {_WaitingAppend(self, append, acks, partitions) for append in appends}
        self.future.add_done_callback(self._stop)
        has_timeout = False
        for waiting in self._waiting:
            has_others = waiting.partition.followers is not None
            # With other replicas, acks=1 waits only for the local flush, of which the log end waiters are notified.
            waiting.partition.wait(waiting, for_log_end=has_others and acks != ACKS_ALL)
            # Without other replicas only the flush is awaited: no timeout.
            has_timeout = has_timeout or has_others
        self._timer: asyncio.TimerHandle | None = None
        if has_timeout:
            self._timer = self.future.get_loop().call_later(max(exchange.timeout_ms, 0) / 1000, self._time_out)

    def append_ended(self, append: _WaitingAppend) -> None:
        """Complete the response if this was the last append that waited."""
        append.partition.stop_waiting(append)
        self._waiting.discard(append)
        if not self._waiting and not self.future.done():
            self.future.set_result(self._exchange)

    def check(self) -> None:
        """Check all appends now: a flush that has already ended does not notify them."""
        for waiting in list(self._waiting):
            waiting.state_changed()

    def _time_out(self) -> None:
        for waiting in list(self._waiting):
            waiting.reject(ErrorCode.REQUEST_TIMED_OUT)

    def _stop(self, _: asyncio.Future[ProduceExchange]) -> None:
        """Stop waiting, also when the client has disconnected: its records are stored all the same."""
        if self._timer is not None:
            self._timer.cancel()
        for waiting in self._waiting:
            waiting.partition.stop_waiting(waiting)
        self._waiting.clear()


class VerifiedProduce:
    """Response to a request whose batches wait for verification of their transaction, and then for their acks."""

    def __init__(
        self, exchange: ProduceExchange, appends: list[Append], unverified: int, partitions: Partitions
    ) -> None:
        """`appends` grows with each verified batch; batch_verified() is called for each batch, verified or rejected."""
        self._exchange = exchange
        self._appends = appends
        self._unverified = unverified
        self._partitions = partitions
        self._all_verified: asyncio.Future[None] | None = None

    def batch_verified(self) -> None:
        self._unverified -= 1
        if self._unverified == 0 and self._all_verified is not None and not self._all_verified.done():
            self._all_verified.set_result(None)

    def answer(self) -> Awaitable[ProduceExchange] | None:
        """Return an awaitable of the response; None if it is ready."""
        if self._unverified == 0:
            return DelayedProduce(self._exchange, self._appends, self._partitions).future if self._appends else None
        self._all_verified = asyncio.get_running_loop().create_future()
        return asyncio.ensure_future(self._later(self._all_verified))

    async def _later(self, all_verified: asyncio.Future[None]) -> ProduceExchange:
        try:
            await asyncio.shield(all_verified)
        except asyncio.CancelledError:
            # The client has disconnected, but its batches still wait for verification and are stored if it succeeds.
            await all_verified
            raise
        if self._appends:
            delayed = DelayedProduce(self._exchange, self._appends, self._partitions)
            delayed.check()
            await delayed.future
        return self._exchange


class _WaitingAppend:
    """Append whose response is delayed. Its partition notifies it of commits, or of flushes with acks=1."""

    __slots__ = ("_acks", "_answer", "_data", "_last_offset", "_partitions", "partition")

    def __init__(self, answer: DelayedProduce, append: Append, acks: int, partitions: Partitions) -> None:
        self._answer = answer
        self._acks = acks
        self._partitions = partitions
        self.partition, self._data, self._last_offset = append

    def data_available(self, size: int) -> None:
        """Complete the append if its acks are satisfied."""
        self._complete_if_satisfied()

    def state_changed(self) -> None:
        """Complete the append if its acks are satisfied; reject it if they can never be."""
        partition = self.partition
        if self._complete_if_satisfied():
            return
        if partition.log.failure is not None:
            self.reject(ErrorCode.KAFKA_STORAGE_ERROR)
        elif self._partitions.get(partition.topic, partition.index) is not partition:
            self.reject(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif not partition.is_led:
            self.reject(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _complete_if_satisfied(self) -> bool:
        partition = self.partition
        if not partition.satisfies_acks(self._last_offset, self._acks):
            return False
        if self._acks == ACKS_ALL and not partition.has_enough_in_sync:
            self.reject(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        else:
            self._answer.append_ended(self)
        return True

    def reject(self, code: ErrorCode) -> None:
        """Set an error for the append; the records may be stored nevertheless."""
        data = self._data
        data.error_code = code
        data.base_offset = data.log_append_time_ms = data.log_start_offset = -1
        self._answer.append_ended(self)
