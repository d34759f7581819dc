"""The gate of a transaction: nothing of it is written into a partition that its coordinator does not know of.

A batch that belongs to a transaction which is open in its partition passes at once. The first one waits: a classic
client has added the partition before, which is verified; for others it is added now (KIP-890). While it waits, later
batches of the same producer and epoch for the partition wait behind it, so that they keep their order; the loop, and
all others who write there, do not. A marker that ends the transaction meanwhile makes what waits void, and so does
another leader epoch.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kwire.cluster.partition import Partition
from kwire.cluster.verification import Verification
from kwire.coordinator.answers import Answer
from kwire.coordinator.transaction.config import TransactionConfig
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, TopicPartition
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Clock

NOT_ADDED = "Partition was not added to the transaction"
_NOT_KNOWN_YET = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Entered = Callable[[KafkaError | None], KafkaError | None]
"""Called once when a batch may be written, or with the reason why it may not; returns why it was not written."""


class Coordinator(Protocol):
    """The coordinator of a transactional id, wherever it is."""

    def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], *, client_version: int
    ) -> Answer[None]: ...

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Answer[Mapping[TopicPartition, ErrorCode]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Visa:
    """What a request says of its transaction."""

    transactional_id: str
    adds: bool
    """Whether writing adds a partition to the transaction; else it must have been added before."""
    knows_abortable: bool
    """Whether the client knows TRANSACTION_ABORTABLE."""


class Entry(NamedTuple):
    """Somebody who wants to write into a partition."""

    partition: Partition
    producer: Producer
    sequence: int
    """Of the batch's first record; -1 if sequences do not count."""
    entered: Entered


class TransactionGate:
    """One for all partitions of a broker."""

    def __init__(
        self, *, coordinator: Coordinator, config: TransactionConfig, clock: Clock, verifies: Callable[[], bool]
    ) -> None:
        """verifies: transaction.partition.verification.enable, which counts for classic clients."""
        self._coordinator = coordinator
        self._config = config
        self._clock = clock
        self._verifies = verifies
        self._tasks: set[asyncio.Task[None]] = set()

    def is_open(self, partition: Partition, producer: Producer, *, adds: bool) -> bool:
        """Whether a batch may be written without a question."""
        if producer in partition.verifications:
            return False
        if partition.log.producers.has_ongoing_transaction(*producer):
            return True
        return not adds and not self._verifies()

    def enter(self, visa: Visa, entries: Sequence[Entry]) -> None:
        """Have each entry told what came of it: maybe before this returns, and in order for each producer."""
        asked: dict[Producer, dict[TopicPartition, tuple[Partition, Verification]]] = {}
        for partition, producer, sequence, entered in entries:
            verification = partition.verifications.get(producer)
            if verification is None:
                verification = partition.verifications[producer] = Verification(visa)
                key = (partition.topic, partition.index)
                asked.setdefault(producer, {})[key] = partition, verification
            elif verification.question != visa:
                # What is answered to somebody else, who may have named another transactional id, says nothing here.
                _remember(partition, producer, sequence)
                entered(_refusal(ErrorCode.NETWORK_EXCEPTION, visa))
                continue
            verification.waiting.append((sequence, entered))
        for producer, verifications in asked.items():
            self._ask(visa, producer, verifications)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _ask(
        self, visa: Visa, producer: Producer, asked: Mapping[TopicPartition, tuple[Partition, Verification]]
    ) -> None:
        try:
            answer = self._question(visa, producer, list(asked))
        except KafkaError as error:
            if not (visa.adds and error.code is ErrorCode.CONCURRENT_TRANSACTIONS):
                _settle(asked, producer, visa, error)
                return
            answer = self._add_again(visa, producer, list(asked))
        else:
            if visa.adds and inspect.isawaitable(answer):
                answer = self._add_there(answer, visa, producer, list(asked))
        if not inspect.isawaitable(answer):
            _settle(asked, producer, visa, answer)
            return
        task = asyncio.get_running_loop().create_task(self._wait(answer, visa, producer, asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _question(
        self, visa: Visa, producer: Producer, partitions: list[TopicPartition]
    ) -> Answer[Mapping[TopicPartition, ErrorCode] | None]:
        coordinator = self._coordinator
        if visa.adds:
            return coordinator.add(visa.transactional_id, producer, partitions, client_version=EPOCH_PER_TRANSACTION)
        return coordinator.verify(visa.transactional_id, producer, partitions)

    async def _wait(
        self,
        answer: Awaitable[Mapping[TopicPartition, ErrorCode] | None],
        visa: Visa,
        producer: Producer,
        asked: Mapping[TopicPartition, tuple[Partition, Verification]],
    ) -> None:
        try:
            outcome: Mapping[TopicPartition, ErrorCode] | KafkaError | None = await answer
        except KafkaError as error:
            outcome = error.anew()  # without the traceback, which has this frame
        except BaseException:
            _settle(asked, producer, visa, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            raise
        _settle(asked, producer, visa, outcome)

    async def _add_there(
        self, answer: Awaitable[object], visa: Visa, producer: Producer, partitions: list[TopicPartition]
    ) -> None:
        """A coordinator at another broker says only later that it has to be asked again."""
        try:
            await answer
        except KafkaError as error:
            if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                raise
        else:
            return
        await self._add_again(visa, producer, partitions)

    async def _add_again(self, visa: Visa, producer: Producer, partitions: list[TopicPartition]) -> None:
        """The transaction before this one is still ending, which takes a moment."""
        deadline_ms = self._clock.monotonic_ms() + self._config.add_backoff_max_ms
        while True:
            await asyncio.sleep(self._config.add_backoff_ms / 1000.0)
            try:
                answer = self._question(visa, producer, partitions)
                if inspect.isawaitable(answer):
                    await answer
            except KafkaError as error:
                is_ending = error.code is ErrorCode.CONCURRENT_TRANSACTIONS
                if is_ending and self._clock.monotonic_ms() < deadline_ms:
                    continue
                raise
            return


def _settle(
    asked: Mapping[TopicPartition, tuple[Partition, Verification]],
    producer: Producer,
    visa: Visa,
    outcome: Mapping[TopicPartition, ErrorCode] | KafkaError | None,
) -> None:
    for key, (partition, verification) in asked.items():
        del partition.verifications[producer]
        error = outcome if isinstance(outcome, KafkaError) else None
        if isinstance(outcome, Mapping) and outcome[key] is not ErrorCode.NONE:
            error = KafkaError(outcome[key])
        if error is not None:
            error = _refusal(error.code, visa)
        error = error or verification.refusal
        for sequence, entered in verification.waiting:
            refusal = error or _out_of_order(partition, producer, sequence)
            failure = entered(refusal)
            # A batch that found no space is remembered by the log, which refuses later ones with the same code.
            if refusal is not None or (failure is not None and failure.code is not ErrorCode.KAFKA_STORAGE_ERROR):
                _remember(partition, producer, sequence)


def _remember(partition: Partition, producer: Producer, sequence: int) -> None:
    """Remember the sequence of a refused batch, which comes again: a later one must not be taken for the first."""
    partition.log.producers.refused.not_admitted(producer.producer_id, producer.epoch, sequence)


def _out_of_order(partition: Partition, producer: Producer, sequence: int) -> KafkaError | None:
    """The error of a batch before which a refused one has to come."""
    producers = partition.log.producers
    has_batches = producers.has_batches(*producer)
    return producers.refused.admit(producer.producer_id, producer.epoch, sequence, has_batches=has_batches)


def _refusal(code: ErrorCode, visa: Visa) -> KafkaError:
    """What the producer is told, which must make an old one do the right thing."""
    if code in _NOT_KNOWN_YET or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not visa.adds):
        # To be tried again, and without asking for new metadata first.
        why = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, why)
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not visa.knows_abortable:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, NOT_ADDED)
    return KafkaError(code)
