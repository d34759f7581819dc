"""Workload of transactions: coordinators, data partitions and offsets through all steps of a transaction.

Every partition flushes each record (flush.messages=1), so acknowledged data is durable. After a power cut, the
coordinators load the remaining data and continue without clients. Then
- a decision that a client has received still holds, with all data of its transaction (T8, S1);
- each transaction is complete in all partitions and with its offsets, or absent (T3, T4);
- no transaction stays open: read_committed readers reach the log end after the timeout (T7);
- no epoch that a client has received is assigned again (T5).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from kwire.cluster.partitions.partition import READ_COMMITTED
from kwire.coordinator.transaction.states import PREPARED
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.produce_exchange import ProducedPartition, ProducedTopic, ProduceExchange
from kwire.server.apis.records import produce
from kwire.server.apis.transactions import end_txn, init_producer_id, txn_offset_commit
from tests.coordinator.transaction_reading import committed_values
from tests.coordinator.transaction_script import settle
from tests.coordinator.transaction_world import FIRST_PRODUCER_ID, TransactionWorld
from tests.crash.disk import RecordingDisk, Tree
from tests.log.support import batch
from tests.virtual_loop import VirtualLoop, virtual_loop

DIRECTORY = "/kafka"
PLACES = ("t-0", "t-1")
GROUP = "g"
TIMEOUT_MS = 1000
ABORT_INTERVAL_MS = 400
LATER_S = 3600
AFTERWARDS_S = 2.0
STEPS = 7
WEIGHTS = {"commit": 5, "abort": 3, "fence": 1, "time_out": 1, "kill": 1, "restart": 1}


@dataclass(slots=True, kw_only=True)
class Ended:
    """Transaction: its records, and its outcome as known by the client."""

    values: dict[str, list[bytes]]
    offset: int | None
    """Offset that it commits for t-0, or None."""
    is_commit: bool
    begun_at: int
    """Operation from which on some of its data may be on the disk."""
    decided_from: int = 1 << 62
    """Operation from which on the decision may be on the disk, because EndTxn was sent."""
    told_at: int = 1 << 62
    """Operation from which on the client has received this outcome."""


class TransactionScript:
    """Random script: transactions of one producer, with restarts and power cuts in between."""

    def __init__(self, seed: int) -> None:
        self.start: Tree = {DIRECTORY[1:]: {}}
        self._disk = RecordingDisk(self.start)
        self.operations = self._disk.operations
        self._random_source = random.Random(f"transactions {seed}")
        self._ended: list[Ended] = []
        self._epochs: list[tuple[int, int, int]] = []
        """(operation when the client received it, producer id, epoch)."""
        self._number = 0
        self._sequences: dict[str, int] = {}
        with virtual_loop() as loop:
            self._loop: VirtualLoop = loop
            loop.run_until_complete(self._run())

    async def _run(self) -> None:
        self._world = _world(self._disk, self._loop)
        await self._world.start()
        await self._init()
        for action in self._random_source.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
            call: Callable[[], Awaitable[None]] = getattr(self, f"_{action}")
            await call()
        await self._world.shut_down()

    # --- actions of a client

    async def _init(self) -> None:
        """Send InitProducerId as a new instance until it returns an epoch."""
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=TIMEOUT_MS)
        while True:
            answer = await self._world.ask(init_producer_id.API, request, 5)
            if not answer.error_code:
                break
            await asyncio.sleep(0.1)
        self._becomes(answer.producer_id, answer.producer_epoch)

    def _becomes(self, producer_id: int, epoch: int) -> None:
        self._identity = producer_id, epoch
        self._epochs.append((len(self.operations), producer_id, epoch))
        self._sequences.clear()

    async def _write(self, place: str) -> bytes:
        self._number += 1
        value = b"%d" % self._number
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + 1
        records = batch(
            value,
            timestamp=self._world.clock.wall_ms(),
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            sequence=sequence,
            transactional=True,
        )
        topic, index = place.split("-")
        exchange = ProduceExchange("x", -1, 5000)
        exchange.topics.append(ProducedTopic(topic, None))
        data = ProducedPartition(int(index), bytes(records))
        exchange.topics[0].partitions.append(data)
        await self._world.ask(produce.API, exchange, 12)
        assert data.error_code == 0, data.error_code
        return value

    async def _commit_offset(self) -> int:
        self._number += 1
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=self._number)
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=GROUP,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        answer = await self._world.ask(txn_offset_commit.API, request, 5)
        assert answer.topics[0].partitions[0].error_code == 0
        return self._number

    async def _begin(self, *, is_commit: bool) -> Ended:
        """Begin a transaction with a record in each partition."""
        transaction = Ended(values={}, offset=None, is_commit=is_commit, begun_at=len(self.operations))
        for place in PLACES:
            count = self._random_source.choice((1, 2))
            transaction.values[place] = [await self._write(place) for _ in range(count)]
        if self._random_source.randrange(3):
            transaction.offset = await self._commit_offset()
        transaction.decided_from = len(self.operations)
        self._ended.append(transaction)
        return transaction

    async def _commit(self) -> None:
        await self._end(is_commit=True)

    async def _abort(self) -> None:
        await self._end(is_commit=False)

    async def _end(self, *, is_commit: bool) -> None:
        transaction = await self._begin(is_commit=is_commit)
        request = EndTxnRequest(
            transactional_id="x",
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            committed=is_commit,
        )
        answer = await self._world.ask(end_txn.API, request, 5)
        assert answer.error_code == 0
        transaction.told_at = len(self.operations)
        self._becomes(answer.producer_id, answer.producer_epoch)
        if self._random_source.randrange(2):
            await settle()  # otherwise the next transaction begins while this one ends

    async def _fence(self) -> None:
        """Start another instance while a transaction is open."""
        transaction = await self._begin(is_commit=False)
        await self._init()
        transaction.told_at = len(self.operations)

    async def _time_out(self) -> None:
        transaction = await self._begin(is_commit=False)
        await asyncio.sleep((TIMEOUT_MS + ABORT_INTERVAL_MS) / 1000 + 0.2)
        transaction.told_at = len(self.operations)
        await self._init()

    # --- stop and kill

    async def _kill(self) -> None:
        """End the process while a transaction is open or ending; written data stays."""
        if self._random_source.randrange(2):
            await self._begin(is_commit=False)
        await self._again(clean=False)

    async def _restart(self) -> None:
        await self._again(clean=True)

    async def _again(self, *, clean: bool) -> None:
        old = self._world
        if clean:
            await old.shut_down()
        else:
            old.kill()
            await settle()
        self._disk.kill()
        self._world = _world(self._disk, self._loop)
        self._world.producer_ids = old.producer_ids
        await self._world.start()
        await self._init()

    # --- checks

    def check(self, disk: RecordingDisk, at: int, probe: int) -> list[str]:
        with virtual_loop() as loop:
            loop.skip(LATER_S)
            return loop.run_until_complete(self._check(disk, at, loop))

    async def _check(self, disk: RecordingDisk, at: int, loop: VirtualLoop) -> list[str]:
        world = _world(disk, loop)
        world.producer_ids.next_id = FIRST_PRODUCER_ID + 1000
        await world.start()
        await asyncio.sleep(AFTERWARDS_S)
        problems = [*self._decisions(world, at), *self._open(world), *await self._next_epoch(world, at)]
        world.kill()
        await settle()
        return problems

    def _decisions(self, world: TransactionWorld, at: int) -> list[str]:
        problems = []
        visible = {place: committed_values(world.partition(place)) for place in PLACES}
        known = {place: [value for each in self._ended for value in each.values[place]] for place in PLACES}
        possible: set[int | None] = {None}
        for each in self._ended:
            found = [visible[place].count(value) for place in PLACES for value in each.values[place]]
            if set(found) - {0, 1} or len(set(found)) > 1:
                problems.append(f"T4: of {each} readers see {found}")
            elif found[0] and not each.is_commit:
                problems.append(f"T3: readers see what was aborted: {each}")
            elif each.is_commit and each.told_at <= at and not found[0]:
                problems.append(f"T8: the commit was acknowledged, and {each} is not visible")
            elif found[0] and each.decided_from > at:
                problems.append(f"T8: it was never asked for, and is committed: {each}")
            if found[0] and each.offset is not None:
                possible = {each.offset}  # of the last committed transaction
        for place, values in visible.items():
            if values != [value for value in known[place] if value in values]:
                problems.append(f"S3: {place} has {values}")
        committed = world.group_offset(GROUP, "t", 0)
        if not problems and committed not in possible:
            problems.append(f"T4: the offset is {committed}, of what is committed it would be {possible}")
        return problems

    def _open(self, world: TransactionWorld) -> list[str]:
        problems = []
        for place in (*PLACES, "__consumer_offsets-0"):
            partition = world.partition(place)
            stable, end = partition.end_offset(READ_COMMITTED), partition.log.log_end_offset
            if stable != end:
                problems.append(f"T7: {place} is stable up to {stable} only, and ends at {end}")
        known = world.machine().transactions.values()
        return problems + [f"T8: {each} does not come to its end" for each in known if each.state in PREPARED]

    async def _next_epoch(self, world: TransactionWorld, at: int) -> list[str]:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=TIMEOUT_MS)
        answer = await world.ask(init_producer_id.API, request, 5)
        if answer.error_code:
            return [f"T9: no client gets an epoch: {answer}"]
        reported = [(producer_id, epoch) for since, producer_id, epoch in self._epochs if since <= at]
        found = (answer.producer_id, answer.producer_epoch)
        if reported and not (found[0] == reported[-1][0] and found > reported[-1]):
            return [f"T5: {found} is given after {reported[-1]}"]
        return []


def _world(disk: RecordingDisk, loop: Any) -> TransactionWorld:
    world = TransactionWorld(DIRECTORY, loop, disk, **{"log.flush.interval.messages": 1})
    world.config = replace(world.config, abort_interval_ms=ABORT_INTERVAL_MS)
    return world
