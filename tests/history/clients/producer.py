"""confluent-kafka as a transactional producer: librdkafka, which uses v1."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.history.clients.common import REQUEST_SECONDS, TRANSACTION_TIMEOUT_MS, Session, partition_of, run
from tests.history.journal import Complete
from tests.history.operations import INFO, OK

END_SECONDS = 8.0
WITHOUT_BOOTSTRAP_AGAIN = {"metadata.recovery.strategy": "none"}
"""If librdkafka 2.16 bootstraps again after a lost connection, it drops its coordinator. Then it waits forever for the
response to a transaction's offsets, and cannot be closed.
"""


class UnusableError(Exception):
    """Raised if a new producer must be created."""


def settings(session: Session) -> dict[str, Any]:
    return {
        "bootstrap.servers": session.bootstrap_server,
        "client.id": session.id,
        "transactional.id": session.id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "socket.timeout.ms": int(REQUEST_SECONDS * 1000),
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "linger.ms": 1,
        "log_level": 0,
        **WITHOUT_BOOTSTRAP_AGAIN,
    }


def delivered(complete: Complete, failed: list[str], error: Any, message: Any) -> None:
    """Record the outcome of a record; failures are recorded because later records depend on them."""
    if error is None:
        complete(OK, offset=message.offset() if message.offset() >= 0 else None)
    else:
        failed.append(error.name())
        complete(INFO, error=error.name())


def send(session: Session, process: str, producer: Any, key: str, failed: list[str], **about: Any) -> None:
    topic, partition = partition_of(key)
    value = session.value()
    complete = session.journal.invoke(process, "send", key=key, value=value, **about)
    on_delivery = functools.partial(delivered, complete, failed)
    producer.produce(topic, value.encode(), partition=partition, on_delivery=on_delivery)


def end(session: Session, process: str, producer: Any, *, commit: bool, transaction: str) -> bool:
    """Commit or abort; a failed commit is aborted if the client allows it. Return True if it was committed."""
    complete = session.journal.invoke(process, "end", commit=commit, transaction=transaction)
    given_up = time.monotonic() + END_SECONDS
    while True:
        try:
            (producer.commit_transaction if commit else producer.abort_transaction)(REQUEST_SECONDS)
        except KafkaException as raised:
            error = raised.args[0]
            if error.retriable() and time.monotonic() < given_up:
                continue
            complete(INFO, error=error.name())
            if commit and error.txn_requires_abort():
                return end(session, process, producer, commit=False, transaction=transaction)
            raise UnusableError from raised
        complete(OK)
        return commit


def transact(session: Session, process: str, producer: Any) -> None:
    """Run one transaction. A producer that purged a record must not be used again.

    librdkafka 2.16 may give the sequence number of such a record, already sent once, to the next one. The broker then
    takes the next one for a duplicate.
    """
    keys, commit = session.plan()
    failed: list[str] = []
    name = f"{process}/{session.number()}"
    session.journal.note(process, "begin", transaction=name, transactional_id=session.id, protocol="v1")
    producer.begin_transaction()
    for key in keys:
        send(session, process, producer, key, failed, transaction=name)
        if session.random_source.random() < 0.5:
            producer.flush(REQUEST_SECONDS)
    producer.flush(REQUEST_SECONDS)
    end(session, process, producer, commit=commit, transaction=name)
    if failed:
        raise UnusableError


def main(session: Session) -> None:
    while not session.stopping.is_set():
        process = f"{session.name}.{session.number()}"
        producer = Producer(settings(session))
        with contextlib.suppress(KafkaException, UnusableError):
            producer.init_transactions(END_SECONDS)
            while not session.stopping.is_set():
                transact(session, process, producer)
                session.pause()


if __name__ == "__main__":
    run(main, __doc__)
