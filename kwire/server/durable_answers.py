"""Produce answers that wait until their appends are durable, as flush.messages asks (kwire.cluster.group_commit).

Every append waits by itself, so that a flush that says something to one of thousands costs as much as for a few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from kwire.cluster.partition import Partition
from kwire.cluster.partitions import Partitions
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.produce_exchange import ProducedPartition, ProduceExchange

Append = tuple[Partition, ProducedPartition, int]
"""Where, the answer so far, and the last offset."""


class DurableAnswer:
    """The answer to one request; its future has the exchange once nothing of it waits any more."""

    def __init__(self, exchange: ProduceExchange, appends: Iterable[Append], partitions: Partitions) -> None:
        self.future: asyncio.Future[ProduceExchange] = asyncio.get_running_loop().create_future()
        self._exchange = exchange
        self._waiting = {_WaitingAppend(self, append, partitions) for append in appends}
        self.future.add_done_callback(self._stop)
        for waiting in self._waiting:
            waiting.partition.wait(waiting)

    def settled(self, append: _WaitingAppend) -> None:
        """What became of an append is known."""
        append.partition.stop_waiting(append)
        self._waiting.discard(append)
        if not self._waiting and not self.future.done():
            self.future.set_result(self._exchange)

    def look(self) -> None:
        """Find out what has happened since the appends: a flush that is over tells nobody."""
        for waiting in list(self._waiting):
            waiting.more_data(0)

    def _stop(self, _: asyncio.Future[ProduceExchange]) -> None:
        """Also when the client has left: its records are stored all the same."""
        for waiting in self._waiting:
            waiting.partition.stop_waiting(waiting)
        self._waiting.clear()


class Admission:
    """The answer to a request some of whose batches wait at a transaction's gate, and then maybe to be durable."""

    def __init__(self, exchange: ProduceExchange, appends: list[Append], at_gate: int, partitions: Partitions) -> None:
        """Appends are added to as batches come through; each, or its refusal, is settled."""
        self._exchange = exchange
        self._appends = appends
        self._at_gate = at_gate
        self._partitions = partitions
        self._all_through: asyncio.Future[None] | None = None

    def settled(self) -> None:
        self._at_gate -= 1
        if self._at_gate == 0 and self._all_through is not None and not self._all_through.done():
            self._all_through.set_result(None)

    def answer(self) -> Awaitable[ProduceExchange] | None:
        """None if nothing waits any more."""
        if self._at_gate == 0:
            return DurableAnswer(self._exchange, self._appends, self._partitions).future if self._appends else None
        self._all_through = asyncio.get_running_loop().create_future()
        return self._later(self._all_through)

    async def _later(self, all_through: asyncio.Future[None]) -> ProduceExchange:
        await all_through
        if self._appends:
            durable = DurableAnswer(self._exchange, self._appends, self._partitions)
            durable.look()
            await durable.future
        return self._exchange


class _WaitingAppend:
    """One append; its partition tells it of every flush and of the end."""

    __slots__ = ("_answer", "_data", "_last_offset", "_partitions", "partition")

    def __init__(self, answer: DurableAnswer, append: Append, partitions: Partitions) -> None:
        self._answer = answer
        self._partitions = partitions
        self.partition, self._data, self._last_offset = append

    def more_data(self, size: int) -> None:
        """Look whether it is durable, or never will be (size 0)."""
        partition = self.partition
        if partition.high_watermark > self._last_offset:
            self._answer.settled(self)
        elif size == 0 and partition.log.failure is not None:
            self._refuse(ErrorCode.KAFKA_STORAGE_ERROR)
        elif size == 0 and self._partitions.get(partition.topic, partition.index) is not partition:
            self._refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _refuse(self, code: ErrorCode) -> None:
        data = self._data
        data.error_code = code
        data.base_offset = data.log_append_time_ms = data.log_start_offset = -1
        self._answer.settled(self)
