"""Transaction verification: a transaction's batch is written only to partitions that belong to the transaction.

A batch whose transaction is already open in its partition passes at once. The first batch waits. A classic client must
have added the partition before, which is verified with the coordinator; for other clients it is added now (KIP-890).
Meanwhile later batches of the same producer and epoch for the partition wait behind it and keep their order. Other
writers and the event loop do not wait. If a marker ends the transaction, or the leader epoch changes, the waiting
batches are rejected.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.verification import Verification
from kwire.coordinator.answers import Answer
from kwire.coordinator.transaction.config import TransactionConfig
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.transaction import TopicPartition
from kwire.protocol.control_records import EPOCH_PER_TRANSACTION
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Clock

NOT_ADDED = "Partition was not added to the transaction"
_RETRIABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

OnVerified = Callable[[KafkaError | None], KafkaError | None]
"""Callback after verification, called once with None or the error. Returns an error if the batch was not written."""


class Coordinator(Protocol):
    """Coordinator of a transactional id, on this or another broker."""

    def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], *, client_version: int
    ) -> Answer[None]: ...

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Answer[Mapping[TopicPartition, ErrorCode]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionClaim:
    """Transaction of a produce request."""

    transactional_id: str
    adds: bool
    """True if writing adds a partition to the transaction; else it must have been added before."""
    supports_abortable: bool
    """True if the client supports TRANSACTION_ABORTABLE."""


class UnverifiedBatch(NamedTuple):
    """Batch to be written to a partition."""

    partition: Partition
    producer: Producer
    sequence: int
    """Sequence of the batch's first record; -1 if sequences do not matter."""
    on_verified: OnVerified


class TransactionVerifier:
    """Verification for all partitions of a broker."""

    def __init__(
        self, *, coordinator: Coordinator, config: TransactionConfig, clock: Clock, verifies: Callable[[], bool]
    ) -> None:
        """Create it; `verifies` returns transaction.partition.verification.enable, which applies to classic clients."""
        self._coordinator = coordinator
        self._config = config
        self._clock = clock
        self._verifies = verifies
        self._tasks: set[asyncio.Task[None]] = set()

    def can_write(self, partition: Partition, producer: Producer, *, adds: bool) -> bool:
        """Return True if a batch may be written without verification."""
        if producer in partition.verifications:
            return False
        if partition.log.producers.has_ongoing_transaction(*producer):
            return True
        return not adds and not self._verifies()

    def verify(self, claim: TransactionClaim, batches: Sequence[UnverifiedBatch]) -> None:
        """Verify the batches, and call each one's callback: possibly before this returns, in order per producer."""
        pending: dict[Producer, dict[TopicPartition, tuple[Partition, Verification]]] = {}
        for partition, producer, sequence, on_verified in batches:
            verification = partition.verifications.get(producer)
            if verification is None:
                verification = partition.verifications[producer] = Verification(claim)
                key = (partition.topic, partition.index)
                pending.setdefault(producer, {})[key] = partition, verification
            elif verification.claim != claim:
                # A pending verification of another request, maybe with another transactional id, does not apply here.
                _record_rejection(partition, producer, sequence)
                on_verified(_rejection(ErrorCode.NETWORK_EXCEPTION, claim))
                continue
            verification.waiting.append((sequence, on_verified))
        for producer, verifications in pending.items():
            self._send_request(claim, producer, verifications)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _send_request(
        self,
        claim: TransactionClaim,
        producer: Producer,
        pending: Mapping[TopicPartition, tuple[Partition, Verification]],
    ) -> None:
        try:
            answer = self._request(claim, producer, list(pending))
        except KafkaError as error:
            if not (claim.adds and error.code is ErrorCode.CONCURRENT_TRANSACTIONS):
                _complete(pending, producer, claim, error)
                return
            answer = self._retry_add(claim, producer, list(pending))
        else:
            if claim.adds and inspect.isawaitable(answer):
                answer = self._add_remotely(answer, claim, producer, list(pending))
        if not inspect.isawaitable(answer):
            _complete(pending, producer, claim, answer)
            return
        task = asyncio.get_running_loop().create_task(self._wait(answer, claim, producer, pending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _request(
        self, claim: TransactionClaim, producer: Producer, partitions: list[TopicPartition]
    ) -> Answer[Mapping[TopicPartition, ErrorCode] | None]:
        coordinator = self._coordinator
        if claim.adds:
            return coordinator.add(claim.transactional_id, producer, partitions, client_version=EPOCH_PER_TRANSACTION)
        return coordinator.verify(claim.transactional_id, producer, partitions)

    async def _wait(
        self,
        answer: Awaitable[Mapping[TopicPartition, ErrorCode] | None],
        claim: TransactionClaim,
        producer: Producer,
        pending: Mapping[TopicPartition, tuple[Partition, Verification]],
    ) -> None:
        try:
            outcome: Mapping[TopicPartition, ErrorCode] | KafkaError | None = await answer
        except KafkaError as error:
            outcome = error.without_traceback()  # without the traceback, which refers to this frame
        except BaseException:
            _complete(pending, producer, claim, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            raise
        _complete(pending, producer, claim, outcome)

    async def _add_remotely(
        self, answer: Awaitable[object], claim: TransactionClaim, producer: Producer, partitions: list[TopicPartition]
    ) -> None:
        """Wait until another broker's coordinator has added partitions; retry on CONCURRENT_TRANSACTIONS."""
        try:
            await answer
        except KafkaError as error:
            if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                raise
        else:
            return
        await self._retry_add(claim, producer, partitions)

    async def _retry_add(self, claim: TransactionClaim, producer: Producer, partitions: list[TopicPartition]) -> None:
        """Retry to add partitions while the producer's previous transaction is ending."""
        deadline_ms = self._clock.monotonic_ms() + self._config.add_backoff_max_ms
        while True:
            await asyncio.sleep(self._config.add_backoff_ms / 1000.0)
            try:
                answer = self._request(claim, producer, partitions)
                if inspect.isawaitable(answer):
                    await answer
            except KafkaError as error:
                is_ending = error.code is ErrorCode.CONCURRENT_TRANSACTIONS
                if is_ending and self._clock.monotonic_ms() < deadline_ms:
                    continue
                raise
            return


def _complete(
    pending: Mapping[TopicPartition, tuple[Partition, Verification]],
    producer: Producer,
    claim: TransactionClaim,
    outcome: Mapping[TopicPartition, ErrorCode] | KafkaError | None,
) -> None:
    for key, (partition, verification) in pending.items():
        del partition.verifications[producer]
        error = outcome if isinstance(outcome, KafkaError) else None
        if isinstance(outcome, Mapping) and outcome[key] is not ErrorCode.NONE:
            error = KafkaError(outcome[key])
        if error is not None:
            error = _rejection(error.code, claim)
        error = error or verification.error
        for sequence, on_verified in verification.waiting:
            rejection = error or _out_of_order_error(partition, producer, sequence)
            failure = on_verified(rejection)
            # If the disk was full, the log has already recorded the batch in `rejected`.
            if rejection is not None or (failure is not None and failure.code is not ErrorCode.KAFKA_STORAGE_ERROR):
                _record_rejection(partition, producer, sequence)


def _record_rejection(partition: Partition, producer: Producer, sequence: int) -> None:
    """Record the sequence of a rejected batch, so that a later batch is not accepted as the first one."""
    partition.log.producers.rejected.record_unverified(producer.producer_id, producer.epoch, sequence)


def _out_of_order_error(partition: Partition, producer: Producer, sequence: int) -> KafkaError | None:
    """Return the error for a batch that comes after a rejected one in sequence, or None."""
    producers = partition.log.producers
    has_batches = producers.has_batches(*producer)
    return producers.rejected.out_of_order_error(
        producer.producer_id, producer.epoch, sequence, has_batches=has_batches
    )


def _rejection(code: ErrorCode, claim: TransactionClaim) -> KafkaError:
    """Return the error for the producer, chosen so that old clients react correctly."""
    if code in _RETRIABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not claim.adds):
        # Clients retry after this error, without a metadata refresh.
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, message)
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not claim.supports_abortable:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, NOT_ADDED)
    return KafkaError(code)
