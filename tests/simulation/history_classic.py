"""Transactional producers of the classic protocol, as in all clients before Kafka 4.0: one epoch for all transactions.

Partitions and groups are added before writes to them; sequence numbers continue from one transaction to the next. The
producer aborts a transaction if it can, and InitProducerId then raises the epoch of the producer id (KIP-360).

A request that this client gave up and sent again may reach the coordinator during the next transaction, where it looks
like a new one. The history must include that (`tests.history.checker`). Such a request stays on its connection. It
counts as pending until its response arrives, the connection breaks, or its receiver ends.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.simulation import WireClient
from tests.history.operations import OK, Fault
from tests.simulation.cluster_history import TOPIC
from tests.simulation.connections import TRANSACTION
from tests.simulation.history_producers import TransactionalProducer, Versions
from tests.simulation.history_worker import RETRIABLE, RejectedError

ADD: Final = 3
LATE_SECONDS: Final = 600.0
"""Timeout longer than a scenario."""
ABORTABLE: Final = RETRIABLE | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
"""Errors that allow an abort; after all others, the client starts as a new instance."""
NOBODY: Final = (-1, -1)


class Held(NamedTuple):
    """Request that was given up and may still arrive."""

    fault: Fault
    answer: asyncio.Task[Any]
    wire: WireClient
    node_id: int
    process: object
    """Only process that can read the request."""


class ClassicProducer(TransactionalProducer):
    """Producer with one epoch for all transactions."""

    protocol = "v1"
    versions = Versions(initialise=4, produce=11, end=4, offsets=3)
    delivery_seconds, request_seconds = 2.5, 1.0
    """Short timeouts, so that requests may still be in flight when a transaction ends."""
    _open: str | None = None
    """Transaction that may be aborted."""
    _expected = NOBODY

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._added: set[int] = set()
        self._held: list[Held] = []

    def close(self) -> None:
        super().close()
        for held in list(self._held):
            self._let_go(held)

    async def initialise(self, producer_id: int = -1, epoch: int = -1) -> None:
        """Get the next epoch after an abort, else a new producer id or epoch. Raises RejectedError."""
        self._added.clear()
        self._open = None
        (producer_id, epoch), self._expected = self._expected, NOBODY
        await super().initialise(producer_id, epoch)

    async def transact(self, *, commit: bool) -> None:
        """Run a transaction, and abort it if nothing else is possible. Raises RejectedError."""
        self._forget_the_dead()
        try:
            await super().transact(commit=commit)
        except RejectedError as error:
            if self._open is not None and error.code in ABORTABLE:
                await self.end(self._open, commit=False)
                self._expected = self._producer_id, self._epoch
            raise

    async def send(self, transaction: str | None) -> None:
        """Send a record to one of the partitions. Raises RejectedError."""
        self._open = transaction
        await super().send(transaction)

    async def prepare(self, index: int) -> None:
        """Add the partition, once in each transaction. Raises RejectedError."""
        if index not in self._added:
            await self.until(lambda: self._add(index))
            self._added.add(index)

    async def _add(self, index: int) -> tuple[int, Any]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[index])],
        )
        answer = await self.ask(await self.coordinator(self.name, TRANSACTION), request, ADD)
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, answer

    async def store(self, transaction: str) -> None:
        """Commit an offset of a group with the producer's name. Raises RejectedError."""
        await self.until(self._add_offsets)
        await super().store(transaction)

    async def _add_offsets(self) -> tuple[int, Any]:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=self.name,
        )
        answer = await self.ask(await self.coordinator(self.name, TRANSACTION), request, ADD)
        return answer.error_code, answer

    async def end(self, transaction: str, *, commit: bool) -> None:
        """Commit or abort the transaction. Raises RejectedError."""
        self._open = None  # the request cannot be reverted
        await super().end(transaction, commit=commit)

    def _ended(self, answer: Any) -> None:
        """Keep the epoch for the next transaction."""
        self._added.clear()

    # --- late requests

    async def ask_untimely(self, node_id: int, request: Any, version: int) -> Any:
        """Return a broker's response; if it takes too long, record the request in the history as pending. Raises
        OSError.
        """
        process = self._brokers[node_id].host.process
        wire = await self.connected(node_id)
        invoked = self._history.now
        answer = asyncio.ensure_future(wire.ask(request, version, seconds=LATE_SECONDS))
        await asyncio.wait({answer}, timeout=self.request_seconds)
        if not answer.done():
            what = type(request).__name__
            fault = self._history.begin(Fault(process=f"{self.name}: {what}", what="hold", transactional_id=self.name))
            fault.invoked = invoked
            self._hold(Held(fault, answer, wire, node_id, process))
            raise TimeoutError(f"{what} has no answer")
        if answer.exception() is not None:
            wire.close()
        else:
            self.keep(node_id, wire)
        return answer.result()

    def _hold(self, held: Held) -> None:
        self._held.append(held)
        held.answer.add_done_callback(lambda _: self._let_go(held))

    def _let_go(self, held: Held) -> None:
        """Remove a request that has arrived or can no longer arrive."""
        if held not in self._held:
            return
        self._held.remove(held)
        self._history.end(held.fault, OK)
        held.wire.close()
        if not held.answer.done():
            held.answer.cancel()
        elif not held.answer.cancelled():
            held.answer.exception()  # mark the exception as retrieved

    def _forget_the_dead(self) -> None:
        """Remove requests to ended processes: they excuse no anomaly of later transactions."""
        for held in list(self._held):
            if self._brokers[held.node_id].host.process is not held.process:
                self._let_go(held)
