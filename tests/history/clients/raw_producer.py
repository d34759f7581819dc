"""Transactional producer of plain frames with either protocol: v1, or v2 with an epoch for each transaction.

It behaves as a correct client: a batch or an EndTxn without a response is sent again on a new connection, with the same
sequence and epoch. After an error it starts again with InitProducerId.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import Record, encode_batch
from tests.history.clients.common import REQUEST_SECONDS, TRANSACTION_TIMEOUT_MS, Session, partition_of, run
from tests.history.clients.routes import Routes
from tests.history.operations import FAIL, INFO, OK

VERSIONS = {"v1": {"init": 4, "produce": 11, "end": 4}, "v2": {"init": 5, "produce": 12, "end": 5}}
ADD_VERSION = 3
PATIENCE_SECONDS = 8.0
RETRIABLE = {3, 5, 6, 7, 14, 15, 16, 19, 20, 51, 56}
"""Error codes: unknown topic, no leader, timeout, coordinator loading or moved, too few replicas, concurrent
transactions.
"""
NOT_APPENDED = {2, 10, 29, 42, 53, 87}
"""Error codes of Produce after which nothing was appended."""


class RejectedError(Exception):
    """Raised if the broker returns an error, or does not respond for too long."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


class Producer:
    """Producer id and epoch, from InitProducerId until an error."""

    def __init__(
        self, transactional_id: str, bootstrap_server: str, protocol: str, *, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self.transactional_id = transactional_id
        self.protocol = protocol
        self._routes = Routes(transactional_id, bootstrap_server, request_seconds)
        self._versions = VERSIONS[protocol]
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[str, int] = defaultdict(int)
        self._added: set[str] = set()

    def close(self) -> None:
        self._routes.close()

    def _until(self, attempt: Callable[[], tuple[int, Any]]) -> Any:
        """Repeat an attempt, which returns (code, response), while it has no response or a retriable error."""
        given_up, code = time.monotonic() + PATIENCE_SECONDS, -1
        while time.monotonic() < given_up:
            with contextlib.suppress(OSError):
                code, answer = attempt()
                if code == 0:
                    return answer
                if code not in RETRIABLE:
                    raise RejectedError(code)
                self._routes.forget()
            time.sleep(0.02)
        raise RejectedError(code)

    def initialise(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )

        def attempt() -> tuple[int, Any]:
            answer = self._routes.ask_coordinator(request, self._versions["init"])
            return answer.error_code, answer

        answer = self._until(attempt)
        self._take(answer.producer_id, answer.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = producer_id, epoch
            self._sequences.clear()

    def send(self, key: str, value: str) -> int:
        """Send a record and return its offset."""
        if self.protocol == "v1" and key not in self._added:
            self._until(functools.partial(self._add, key))
            self._added.add(key)
        records = [Record(key=b"k", value=value.encode(), timestamp=int(time.time() * 1000))]
        batch = bytes(
            encode_batch(
                records,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=self._sequences[key],
                transactional=True,
            )
        )
        offset: int = self._until(functools.partial(self._produce, key, batch)).base_offset
        self._sequences[key] += 1
        return offset

    def _add(self, key: str) -> tuple[int, Any]:
        topic, partition = partition_of(key)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        answer = (
            self._routes.ask_coordinator(request, ADD_VERSION).results_by_topic_v3_and_below[0].results_by_partition[0]
        )
        return answer.partition_error_code, answer

    def _produce(self, key: str, batch: bytes) -> tuple[int, Any]:
        topic, partition = partition_of(key)
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=int(REQUEST_SECONDS * 1000), topic_data=[data]
        )
        answer = self._routes.ask_leader(key, request, self._versions["produce"]).responses[0].partition_responses[0]
        return answer.error_code, answer

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commit,
        )

    @property
    def end_version(self) -> int:
        return self._versions["end"]

    def end(self, *, commit: bool) -> None:
        request = self.end_request(commit=commit)

        def attempt() -> tuple[int, Any]:
            answer = self._routes.ask_coordinator(request, self.end_version)
            return answer.error_code, answer

        answer = self._until(attempt)
        self._added.clear()
        if self.protocol == "v2":
            self._take(answer.producer_id, answer.producer_epoch)


def transact(session: Session, process: str, producer: Producer) -> None:
    """Run one transaction. Raises RejectedError if the producer cannot be used any more."""
    journal = session.journal
    keys, commit = session.plan()
    name = f"{process}/{session.number()}"
    about: dict[str, Any] = {"transaction": name}
    journal.note(process, "begin", transactional_id=producer.transactional_id, protocol=producer.protocol, **about)
    for key in keys:
        value = session.value()
        complete = journal.invoke(process, "send", key=key, value=value, **about)
        try:
            complete(OK, offset=producer.send(key, value))
        except RejectedError as error:
            complete(FAIL if error.code in NOT_APPENDED else INFO, error=error.code)
            raise
    complete = journal.invoke(process, "end", commit=commit, **about)
    try:
        producer.end(commit=commit)
    except RejectedError as error:
        complete(INFO, error=error.code)
        raise
    complete(OK)


def main(session: Session, protocol: str) -> None:
    while not session.stopping.is_set():
        process = f"{session.name}.{session.number()}"
        producer = Producer(session.id, session.bootstrap_server, protocol)
        with contextlib.suppress(RejectedError), contextlib.closing(producer):
            producer.initialise()
            while not session.stopping.is_set():
                transact(session, process, producer)
                session.pause()


if __name__ == "__main__":
    run(functools.partial(main, protocol=sys.argv.pop(1)), __doc__)
