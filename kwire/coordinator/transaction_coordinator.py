"""Transaction coordinator: finds the shard of a transactional id and answers requests by the transaction's rules.

Each method returns the answer, or an awaitable of it if the answer must become durable first. Both the call and the
awaitable may raise KafkaError, which the API converts to an error code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from typing import TypeVar

from kwire.chunks import chunks
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.topic_names import TRANSACTION_STATE_TOPIC
from kwire.coordinator.answers import Answer
from kwire.coordinator.key_partitions import KeyPartitions
from kwire.coordinator.runtime import CoordinatorRuntime
from kwire.coordinator.shard import Shard, ShardState, Step, Write
from kwire.coordinator.timers import Timers
from kwire.coordinator.transaction.adding import check_producer, with_partitions
from kwire.coordinator.transaction.completion import RETRY_PAUSE_S, MarkerWriter, PendingMarkers
from kwire.coordinator.transaction.config import TransactionConfig
from kwire.coordinator.transaction.ending import (
    completed,
    fenced,
    fencing_needs_producer_id,
    needs_next_producer_id,
    prepared_end,
    prepared_end_classic,
)
from kwire.coordinator.transaction.initialising import (
    Producer,
    check_can_initialise,
    initialised,
    needs_producer_id,
    new_transaction,
)
from kwire.coordinator.transaction.listing import ListingFilter
from kwire.coordinator.transaction.machine import TransactionMachine
from kwire.coordinator.transaction.memory import TransactionMemory
from kwire.coordinator.transaction.records import TransactionRecord
from kwire.coordinator.transaction.states import PREPARED, TransactionState
from kwire.coordinator.transaction.transaction import (
    TopicPartition,
    Transaction,
    check_step,
)
from kwire.protocol.control_records import EPOCH_PER_TRANSACTION
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kwire.seams import Clock

__all__ = ["TransactionConfig", "TransactionCoordinator"]

logger = logging.getLogger(__name__)

T = TypeVar("T")
NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
"""Producer in the answer of EndTxn to classic clients, which keep their epoch."""

TransactionShard = Shard[TransactionRecord, TransactionMachine]


class TransactionCoordinator:
    """Transaction coordinator for the partitions of __transaction_state that this broker leads."""

    def __init__(
        self,
        *,
        config: TransactionConfig,
        partitions: Partitions,
        image: Callable[[], MetadataImage],
        clock: Clock,
        next_producer_id: Callable[[], Awaitable[int]],
        version: Callable[[], int],
        marker_writer: MarkerWriter,
        count_loaded: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Create a coordinator.

        `version` returns the cluster's transaction.version; `marker_writer` sends markers to partition leaders.
        """
        self._config = config
        self._partitions = partitions
        self.keys = KeyPartitions(TRANSACTION_STATE_TOPIC, image)
        self._clock = clock
        self._next_producer_id = next_producer_id
        self._version = version
        self._runtime: CoordinatorRuntime[TransactionRecord, TransactionMachine] = CoordinatorRuntime(
            make=self._make_machine, clock=clock, write_timeout_ms=config.write_timeout_ms, count_loaded=count_loaded
        )
        self._memory = TransactionMemory(config.memory_bytes_max)
        self._spare_producer_ids: list[int] = []
        self._fetching: asyncio.Task[None] | None = None
        self._markers = PendingMarkers(marker_writer=marker_writer, image=image)

    def _make_machine(self, timers: Timers[Step[TransactionRecord]]) -> TransactionMachine:
        return TransactionMachine(
            timers,
            config=self._config,
            version=self._version,
            clock=self._clock,
            memory=self._memory,
            allocate_producer_id=self._take_producer_id,
            send_markers=self._send_markers,
        )

    # --- start and stop

    async def start(self) -> None:
        """Serve the partitions that this broker leads; slow loading continues in the background."""
        await self._runtime.start(
            each for each in self._partitions if each.topic == TRANSACTION_STATE_TOPIC and each.is_led
        )

    async def loaded(self) -> None:
        """Wait until all led partitions are loaded."""
        await self._runtime.loaded()

    def stop(self) -> None:
        """Answer all waiting requests, and stop."""
        self._runtime.stop()
        self._markers.stop()
        if self._fetching is not None:
            self._fetching.cancel()

    def partition_removed(self, partition: Partition) -> None:
        """Drop the state of a partition that was removed from this broker."""
        if partition.topic == TRANSACTION_STATE_TOPIC:
            self._resign(partition.index)

    def role_changed(self, partition: Partition) -> None:
        """Serve or release a partition after a change of its leader."""
        if partition.topic != TRANSACTION_STATE_TOPIC:
            return
        if partition.is_led:
            self._runtime.lead(partition)
        else:
            self._resign(partition.index)

    def _resign(self, index: int) -> None:
        """Release a partition; its transactions' new coordinator sends their markers."""
        shard = self._runtime.find(index)
        if shard is None:
            return
        for transactional_id in shard.machine.transactions:
            self._markers.cancel(transactional_id)
        self._runtime.resign(index)

    # --- shards

    def partition_for(self, transactional_id: str) -> int:
        """Return the id's partition of __transaction_state. Raises NOT_COORDINATOR if the topic does not exist."""
        return self.keys.find(transactional_id)

    def _shard(self, transactional_id: str) -> TransactionShard:
        index = self.partition_for(transactional_id)
        if self._runtime.find(index) is None:
            partition = self._partitions.get(TRANSACTION_STATE_TOPIC, index)
            if partition is not None:
                self._runtime.serve_or_release(partition)
        return self._runtime.active(index)

    def _shard_of_valid_id(self, transactional_id: str) -> TransactionShard:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return self._shard(transactional_id)

    # --- InitProducerId

    async def initialise(self, transactional_id: str, timeout_ms: int, expected: Producer | None) -> Producer:
        """Return the next producer id and epoch of a client after fencing the previous ones.

        An open transaction of the previous producer is aborted. `expected` is the client's current producer id and
        epoch, if it sent them. Raises KafkaError, CONCURRENT_TRANSACTIONS while an earlier transaction is ending.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._config.timeout_max_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        new_producer_id = NO_PRODUCER_ID
        while True:
            shard = self._shard(transactional_id)
            with shard:
                before = shard.machine.transactions.get(transactional_id)
                if before is not None:
                    check_can_initialise(before, expected)
                elif not self._memory.has_room:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if new_producer_id != NO_PRODUCER_ID or not needs_producer_id(before, expected, self._version()):
                break
            new_producer_id = await self._next_producer_id()
        with shard:
            answer = self._begin(
                shard, transactional_id, before, expected, new_producer_id=new_producer_id, timeout_ms=timeout_ms
            )
        producer = await _awaited(answer)
        if producer is None:  # the open transaction is being aborted
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return producer

    def _begin(
        self,
        shard: TransactionShard,
        transactional_id: str,
        before: Transaction | None,
        expected: Producer | None,
        *,
        new_producer_id: int,
        timeout_ms: int,
    ) -> Answer[Producer | None]:
        """Store the initial state of a producer; return None if an open transaction is aborted first."""
        now_ms = self._clock.wall_ms()
        if before is None:
            after = new_transaction(transactional_id, new_producer_id, timeout_ms=timeout_ms, now_ms=now_ms)
        elif before.state is TransactionState.ONGOING:
            version = self._version()
            next_id = new_producer_id if fencing_needs_producer_id(before, version) else NO_PRODUCER_ID
            after = fenced(before, version=version, next_producer_id=next_id, now_ms=now_ms)
            return self._decide(shard, before, after, None)
        else:
            after = initialised(before, expected, new_producer_id=new_producer_id, timeout_ms=timeout_ms, now_ms=now_ms)
        return self._store(shard, before, after, Producer(after.producer_id, after.producer_epoch))

    def _take_producer_id(self) -> int:
        """Return a spare producer id; if there is none, return NO_PRODUCER_ID and fetch one for the next call."""
        if self._spare_producer_ids:
            return self._spare_producer_ids.pop()
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_producer_id())
        return NO_PRODUCER_ID

    async def _fetch_producer_id(self) -> None:
        try:
            self._spare_producer_ids.append(await self._next_producer_id())
        except KafkaError as error:
            logger.warning("no producer id for a transaction that has to be aborted: %s", error)

    # --- partitions

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
    ) -> Answer[None]:
        """Add partitions to the transaction, which begins if none is open. Raises KafkaError."""
        shard = self._shard_of_valid_id(transactional_id)
        with shard:
            before = check_producer(shard.machine.transactions.get(transactional_id), *producer)
            after = with_partitions(before, partitions, now_ms=self._clock.wall_ms(), client_version=client_version)
            if after is before:
                return shard.read(None)
            if not self._memory.has_room:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return self._store(shard, before, after, None)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> Answer[dict[TopicPartition, ErrorCode]]:
        """Return TRANSACTION_ABORTABLE for partitions that are not in the producer's transaction. Raises KafkaError."""
        shard = self._shard_of_valid_id(transactional_id)
        with shard:
            transaction = check_producer(shard.machine.transactions.get(transactional_id), *producer)
        answer = {
            partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }
        return shard.read(answer)

    # --- EndTxn

    def end(
        self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: int
    ) -> Answer[Producer]:
        """Commit or abort a transaction. Return the next producer id and epoch, or `NO_PRODUCER` for a classic client.

        Raises KafkaError.
        """
        shard = self._shard_of_valid_id(transactional_id)
        with shard:
            if client_version < EPOCH_PER_TRANSACTION:
                before = shard.machine.transactions.get(transactional_id)
                after = prepared_end_classic(before, *producer, is_commit=is_commit, now_ms=self._clock.wall_ms())
                assert before is not None
                return shard.read(NO_PRODUCER) if after is before else self._decide(shard, before, after, NO_PRODUCER)
            if needs_next_producer_id(shard.machine.transactions.get(transactional_id)):
                return self._end_with_new_id(transactional_id, producer, is_commit=is_commit)
            return self._end(shard, transactional_id, producer, NO_PRODUCER_ID, is_commit=is_commit)

    async def _end_with_new_id(self, transactional_id: str, producer: Producer, *, is_commit: bool) -> Producer:
        next_producer_id = await self._next_producer_id()
        shard = self._shard(transactional_id)
        with shard:
            if not needs_next_producer_id(shard.machine.transactions.get(transactional_id)):
                next_producer_id = NO_PRODUCER_ID
            answer = self._end(shard, transactional_id, producer, next_producer_id, is_commit=is_commit)
        return await _awaited(answer)

    def _end(
        self,
        shard: TransactionShard,
        transactional_id: str,
        producer: Producer,
        next_producer_id: int,
        *,
        is_commit: bool,
    ) -> Answer[Producer]:
        now_ms = self._clock.wall_ms()
        before = shard.machine.transactions.get(transactional_id)
        after = prepared_end(before, *producer, is_commit=is_commit, next_producer_id=next_producer_id, now_ms=now_ms)
        assert before is not None
        if after is before:
            return shard.read(Producer(after.producer_id, after.producer_epoch))
        complete = completed(after, now_ms=now_ms)
        return self._decide(shard, before, after, Producer(complete.producer_id, complete.producer_epoch))

    def _send_markers(self, decided: Transaction) -> None:
        """Send the markers of a committed decision; when all are written, store the completion."""
        transactional_id = decided.transactional_id
        try:
            partition = self._partitions.find(TRANSACTION_STATE_TOPIC, self.partition_for(transactional_id))
        except KafkaError:
            return  # the topic was deleted, or another broker coordinates now and sends the markers
        self._markers.send(
            decided, coordinator_epoch=partition.leader_epoch, done=lambda: self._complete(transactional_id)
        )

    def _complete(self, transactional_id: str) -> None:
        try:
            shard = self._shard(transactional_id)
            with shard:
                self._store_completion(shard, transactional_id)
        except KafkaError:
            return  # after the next load, the coordinator sends the markers again

    def _store_completion(self, shard: TransactionShard, transactional_id: str) -> None:
        decided = shard.machine.transactions.get(transactional_id)
        if decided is None or decided.state not in PREPARED:
            return  # it is already complete, for example because another broker coordinated it meanwhile
        after = completed(decided, now_ms=self._clock.wall_ms())
        check_step(decided, after)

        def outcome(error: KafkaError | None) -> None:
            if error is not None and shard.state is ShardState.ACTIVE:
                logger.warning("the end of %s cannot be stored yet: %s", decided, error)
                asyncio.get_running_loop().call_later(RETRY_PAUSE_S, self._complete, transactional_id)

        shard.attempt(Write(answer=None, records=[TransactionRecord(transactional_id, after)], outcome=outcome))

    # --- administration

    def describe(self, transactional_id: str) -> Transaction:
        """Return the transaction; an ending one with the partitions that still need a marker. Raises KafkaError."""
        transaction = self._shard_of_valid_id(transactional_id).machine.transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return self._markers.with_remaining(transaction)

    def list_transactions(self, listing_filter: ListingFilter) -> Iterator[list[Transaction]]:
        """Yield all transactional ids of this broker that match the filter, a few at a time.

        Raises KafkaError (COORDINATOR_LOAD_IN_PROGRESS) if some are not loaded yet.
        """
        now_ms = self._clock.wall_ms()
        for shard in list(self._runtime):
            if shard.state is ShardState.LOADING:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            if shard.state is ShardState.ACTIVE:
                for some in chunks(list(shard.machine.transactions.values())):  # they may change between two steps
                    yield [each for each in some if listing_filter.matches(each, now_ms)]

    # --- storing

    def _store(self, shard: TransactionShard, before: Transaction | None, after: Transaction, answer: T) -> Answer[T]:
        check_step(before, after)
        return shard.write(Write(answer=answer, records=[TransactionRecord(after.transactional_id, after)]))

    def _decide(self, shard: TransactionShard, before: Transaction, after: Transaction, answer: T) -> Answer[T]:
        check_step(before, after)
        return shard.write(shard.machine.decision_write(after, answer))


async def _awaited(answer: Answer[T]) -> T:
    return await answer if isinstance(answer, Awaitable) else answer
