"""confluent-kafka as a copier: a group member that reads committed records and writes a copy of each, and commits the
group's offsets in the same transaction. Therefore each committed record has one committed copy.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition

from tests.history.clients.common import (
    COPIES,
    PARTITIONS,
    REQUEST_SECONDS,
    TOPIC,
    Session,
    key_of,
    partition_of,
    run,
)
from tests.history.clients.producer import END_SECONDS, UnusableError, delivered, end, settings
from tests.history.clients.reader import consumer, record_of
from tests.history.operations import COMMITTED, INFO, OK, SUBSCRIBE

GROUP = "copiers"


class Copier:
    """A consumer and a producer, from the first assignment until an error."""

    def __init__(self, session: Session, process: str) -> None:
        self.session = session
        self.process = process
        self.has_changed = False
        self.consumer = consumer(
            session.bootstrap_server,
            COMMITTED,
            group_id=GROUP,
            client_id=session.id,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        )
        self.consumer.subscribe([TOPIC], on_assign=self._note_change, on_revoke=self._note_change)
        self.producer = Producer(settings(session))

    def _note_change(self, *_: Any) -> None:
        self.has_changed = True

    def close(self) -> None:
        with contextlib.suppress(KafkaException, RuntimeError):
            self.consumer.close()

    def restore(self) -> None:
        """Fetch the group's committed position, as at a start."""
        asked = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        complete = self.session.journal.invoke(self.process, "restore", group=GROUP)
        try:
            answered = self.consumer.committed(asked, END_SECONDS)
        except KafkaException as raised:
            complete(INFO, error=str(raised))
            return
        offsets = {key_of(each.topic, each.partition): max(each.offset, -1) for each in answered}
        complete(OK, offsets=offsets)

    def poll(self, transaction: str) -> list[tuple[str, int, str]]:
        self.has_changed = False
        invoked = time.monotonic_ns()
        records = [record_of(message) for message in self.consumer.consume(20, 0.2) if message.error() is None]
        if records or self.has_changed:
            about: dict[str, Any] = {"level": COMMITTED, "mode": SUBSCRIBE, "rebalanced": self.has_changed}
            journal = self.session.journal
            journal.note(self.process, "poll", at=invoked, records=records, transaction=transaction, **about)
        return records

    def copy(self, records: list[tuple[str, int, str]], transaction: str) -> None:
        about: dict[str, Any] = {"transaction": transaction}
        journal = self.session.journal
        for key, _, value in records:
            copy, partition = self.session.value(), partition_of(key)[1]
            place = key_of(COPIES, partition)
            complete = journal.invoke(self.process, "send", key=place, value=copy, source=value, **about)
            on_delivery = functools.partial(delivered, complete, [])
            self.producer.produce(COPIES, copy.encode(), partition=partition, on_delivery=on_delivery)
        self.producer.flush(REQUEST_SECONDS)
        offsets = {key: offset + 1 for key, offset, _ in records}
        complete = journal.invoke(self.process, "store", group=GROUP, offsets=offsets, **about)
        asked = [TopicPartition(*partition_of(key), offset) for key, offset in offsets.items()]
        try:
            self.producer.send_offsets_to_transaction(asked, self.consumer.consumer_group_metadata(), END_SECONDS)
        except KafkaException as raised:
            complete(INFO, error=str(raised))
            raise
        complete(OK)


def transact(copier: Copier) -> None:
    session = copier.session
    name = f"{copier.process}/{session.number()}"
    records = copier.poll(name)
    if not records:
        return
    session.journal.note(copier.process, "begin", transaction=name, transactional_id=session.id, protocol="v1")
    copier.producer.begin_transaction()
    copier.copy(records, name)
    commit = session.random_source.random() > 0.1
    if not end(session, copier.process, copier.producer, commit=commit, transaction=name):
        raise UnusableError  # the consumer must return to the committed position


def main(session: Session) -> None:
    while not session.stopping.is_set():
        copier = Copier(session, f"{session.name}.{session.number()}")
        with contextlib.suppress(KafkaException, UnusableError), contextlib.closing(copier):
            copier.producer.init_transactions(END_SECONDS)
            copier.restore()
            while not session.stopping.is_set():
                transact(copier)


if __name__ == "__main__":
    run(main, __doc__)
