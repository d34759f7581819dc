"""Producers of a history: idempotent ones, and transactional ones with an epoch for each transaction (KIP-890).

They behave as a correct client: a batch or an EndTxn without a response is sent again with the same sequence and epoch.
After an error they start again with InitProducerId. Producers of the classic protocol are in history_classic.py.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.records import Record, encode_batch
from tests.history.operations import FAIL, INFO, Begin, End, Send, Store
from tests.simulation.cluster_history import KEYS, PARTITIONS, TOPIC
from tests.simulation.connections import GIVE_UP_SECONDS, GROUP, TRANSACTION
from tests.simulation.history_worker import RejectedError, Worker

TRANSACTION_TIMEOUT_MS: Final = 8000
PAUSE_SECONDS: Final = 0.8
SENDS_MAX: Final = 3


class Versions(NamedTuple):
    """Versions of the requests of a producer."""

    initialise: int
    produce: int
    end: int
    offsets: int


class Producer(Worker):
    """Idempotent producer that uses one producer id and epoch after another."""

    transactional_id: str | None = None
    versions = Versions(initialise=5, produce=13, end=5, offsets=5)
    delivery_seconds: float | None = None
    """Time until a record is given up; None for patience_seconds."""
    request_seconds = GIVE_UP_SECONDS
    """Time until a record is sent again."""
    _producer_id = -1
    _epoch = -1
    _asked_in = -1
    """Leader epoch of the broker that received the last produce request; -1 if it had none."""

    async def run(self, end: float) -> None:
        """Work until the end time."""
        while self._simulation.now < end:
            try:
                await self.initialise()
                while self._simulation.now < end:
                    await self.work()
                    await self.pause(PAUSE_SECONDS, self._ledger)
            except RejectedError as error:
                self._check_rejection(error)
        self.close()

    async def work(self) -> None:
        """Send a record. Raises RejectedError."""
        await self.send(None)

    async def initialise(self, producer_id: int = -1, epoch: int = -1) -> None:
        """Get a producer id, or the next epoch of this one. Raises RejectedError."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

        async def attempt() -> tuple[int, Any]:
            target = await self.coordinator(self.name, TRANSACTION) if self.transactional_id else self._anyone()
            answer = await self.ask(target, request, self.versions.initialise)
            return answer.error_code, answer

        self.number()
        answer = await self.until(attempt)
        if self.transactional_id is None:
            self._ledger.take_producer_id(answer.producer_id)
        self._take(answer.producer_id, answer.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        assert (producer_id, epoch) > (self._producer_id, self._epoch) or producer_id != self._producer_id, (
            f"T5: {self.name} has epoch {self._epoch} of {self._producer_id} and is given {epoch}"
        )
        self._producer_id, self._epoch = producer_id, epoch
        self._sequences = dict.fromkeys(range(PARTITIONS), 0)
        self._acknowledged_in: dict[int, int] = {}
        """Newest leader epoch at the time of the last acknowledgement, by partition."""

    async def send(self, transaction: str | None) -> None:
        """Send a record to one of the partitions. Raises RejectedError."""
        await self.send_to(self._random_source.below(PARTITIONS), transaction)

    async def send_to(self, index: int, transaction: str | None) -> None:
        """Send a record to this partition. Raises RejectedError."""
        await self.prepare(index)
        value = f"{self.name}-{self.number()}"
        send = self._history.begin(Send(process=self.name, key=KEYS[index], value=value, transaction=transaction))
        batch = encode_batch(
            [Record(key=b"k", value=value.encode(), timestamp=1_700_000_000_000)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[index],
            transactional=transaction is not None,
        )
        try:
            answer = await self.until(lambda: self._produce(index, bytes(batch)), seconds=self.delivery_seconds)
        except RejectedError as error:
            self._history.end(send, FAIL if error.is_certain else INFO)
            error.is_of_deposed = self._asked_in < self._acknowledged_in.get(index, -1)
            raise
        send.offset = answer.base_offset
        self._history.end(send)
        self._sequences[index] += 1
        self._acknowledged_in[index] = self._ledger.epochs.get((self._history.topic_id, index), 0)

    async def prepare(self, index: int) -> None:
        """Prepare a partition for its first record. Raises RejectedError."""

    async def _produce(self, index: int, batch: bytes) -> tuple[int, Any]:
        data = TopicProduceData(
            name=TOPIC,
            topic_id=self._history.topic_id,
            partition_data=[PartitionProduceData(index=index, records=batch)],
        )
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=2500, topic_data=[data])
        leader = await self.leader_of(index)
        self._asked_in = self._epoch_at(leader.broker_id, index)
        seconds = self.request_seconds
        response = await self.ask(leader.broker_id, request, self.versions.produce, seconds=seconds)
        answer = response.responses[0].partition_responses[0]
        return answer.error_code, answer

    def _epoch_at(self, broker_id: int, index: int) -> int:
        """Return the leader epoch of a broker: all its later responses are from this epoch or a newer one.

        The epoch in the metadata response may be older, because a leader accepts records from clients with older
        metadata.
        """
        broker = self._brokers[broker_id]
        partition = broker.server.services.partitions.get(TOPIC, index) if broker.is_serving else None
        return -1 if partition is None else partition.leader_epoch

    def _check_rejection(self, error: RejectedError) -> None:
        """Check an error: records in order must never be out of order, because each was acknowledged before the next.

        Only a leader that was deposed before that acknowledgement, and has no newer metadata, lacks the previous
        record. Produce responses contain no leader epoch, so the client cannot detect this leader. It starts again with
        a new producer id or epoch, as Kafka's clients do.
        """
        is_forgiven = any((self._history.topic_id, index) in self._ledger.forgiven for index in range(PARTITIONS))
        is_disorder = error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert is_forgiven or error.is_of_deposed or not is_disorder, (
            f"T1: {self.name} is told that its sequence numbers are out of order"
        )


class TransactionalProducer(Producer):
    """Producer that writes records and offsets in transactions, and commits or aborts them."""

    protocol = "v2"

    @property
    def transactional_id(self) -> str:  # type: ignore[override] # its name
        return self.name

    async def work(self) -> None:
        """Run a transaction. Raises RejectedError."""
        await self.transact(commit=self._random_source.happens(0.75))

    async def transact(self, *, commit: bool) -> None:
        """Run a transaction. Raises RejectedError."""
        name = f"{self.name}/{self.number()}"
        begin = Begin(process=self.name, transaction=name, transactional_id=self.name, protocol=self.protocol)
        self._history.note(begin)
        for _ in range(1 + self._random_source.below(SENDS_MAX)):
            await self.send(name)
        if self._random_source.happens(0.3):
            await self.store(name)
        await self.end(name, commit=commit)

    async def end(self, transaction: str, *, commit: bool) -> None:
        """Commit or abort the transaction. Raises RejectedError."""
        end = self._history.begin(End(process=self.name, transaction=transaction, commit=commit))
        self.number()
        answer = await self.until(lambda: self._end(commit=commit))
        self._history.end(end)
        self._ended(answer)

    def _ended(self, answer: Any) -> None:
        """Use the new epoch for the next transaction."""
        self._take(answer.producer_id, answer.producer_epoch)

    async def _end(self, *, commit: bool) -> tuple[int, Any]:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self._producer_id, producer_epoch=self._epoch, committed=commit
        )
        target = await self.coordinator(self.name, TRANSACTION)
        answer = await self.ask_untimely(target, request, self.versions.end)
        return answer.error_code, answer

    async def store(self, transaction: str) -> None:
        """Commit an offset of a group with the producer's name. Raises RejectedError."""
        index, offset = self._random_source.below(PARTITIONS), self.number()
        store = Store(process=self.name, group=self.name, offsets={KEYS[index]: offset}, transaction=transaction)
        self._history.begin(store)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            member_id="",
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )

        async def attempt() -> tuple[int, Any]:
            target = await self.coordinator(self.name, GROUP)
            answer = await self.ask_untimely(target, request, self.versions.offsets)
            return answer.topics[0].partitions[0].error_code, answer

        await self.until(attempt)
        self._history.end(store)

    async def ask_untimely(self, node_id: int, request: Any, version: int) -> Any:
        """Return a broker's response to a request whose epoch shows if it arrives too late. Raises OSError."""
        return await self.ask(node_id, request, version)
