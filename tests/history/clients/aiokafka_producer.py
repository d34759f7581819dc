"""aiokafka as a transactional producer (v1), or as an idempotent one without transactions: `python -m
tests.history.clients.aiokafka_producer transactional ...`
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.history.clients.common import TRANSACTION_TIMEOUT_MS, Session, partition_of, run
from tests.history.journal import Complete
from tests.history.operations import INFO, OK

REQUEST_TIMEOUT_MS = 3_000
PATIENCE_SECONDS = 20.0
"""Time limit of one step. After it the outcome is unknown, and a new producer is created."""
FAILURES = (KafkaError, TimeoutError, OSError)
TRANSACTIONAL = "transactional"


def producer(session: Session, kind: str) -> Any:
    about: dict[str, Any] = {"enable_idempotence": True}
    if kind == TRANSACTIONAL:
        about = {"transactional_id": session.id, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS}
    return AIOKafkaProducer(
        bootstrap_servers=session.bootstrap_server.split(","),
        client_id=session.id,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        retry_backoff_ms=50,
        metadata_max_age_ms=2_000,
        **about,
    )


async def send(session: Session, process: str, client: Any, key: str, **about: Any) -> None:
    """Send a record and record its outcome once it is known. Raises the client's exceptions."""
    topic, partition = partition_of(key)
    value = session.value()
    complete = session.journal.invoke(process, "send", key=key, value=value, **about)
    try:
        future = await client.send(topic, value.encode(), partition=partition)
        reported = await future
    except FAILURES as error:
        complete(INFO, error=repr(error))
        raise
    complete(OK, offset=reported.offset if reported.offset >= 0 else None)


async def finished(complete: Complete, step: Any) -> None:
    try:
        await asyncio.wait_for(step, PATIENCE_SECONDS)
    except FAILURES as error:
        complete(INFO, error=repr(error))
        raise
    complete(OK)


async def transact(session: Session, process: str, client: Any) -> None:
    keys, commit = session.plan()
    name = f"{process}/{session.number()}"
    session.journal.note(process, "begin", transaction=name, transactional_id=session.id, protocol="v1")
    await client.begin_transaction()
    for key in keys:
        await asyncio.wait_for(send(session, process, client, key, transaction=name), PATIENCE_SECONDS)
    complete = session.journal.invoke(process, "end", commit=commit, transaction=name)
    await finished(complete, client.commit_transaction() if commit else client.abort_transaction())


async def write(session: Session, process: str, client: Any) -> None:
    keys, _ = session.plan()
    for key in keys:
        await asyncio.wait_for(send(session, process, client, key), PATIENCE_SECONDS)


async def live(session: Session, process: str, kind: str) -> None:
    """Run one producer until it fails or the session ends."""
    client = producer(session, kind)
    step = transact if kind == TRANSACTIONAL else write
    try:
        await asyncio.wait_for(client.start(), PATIENCE_SECONDS)
        while not session.stopping.is_set():
            await step(session, process, client)
            await asyncio.sleep(session.random_source.uniform(0.005, 0.03))
    except FAILURES:
        return
    finally:
        try:
            await asyncio.wait_for(client.stop(), 5.0)
        except FAILURES:
            logging.getLogger(__name__).debug("the producer could not be closed in order")


def main(session: Session, kind: str) -> None:
    while not session.stopping.is_set():
        asyncio.run(live(session, f"{session.name}.{session.number()}", kind))
        session.stopping.wait(0.1)


if __name__ == "__main__":
    logging.disable()
    run(functools.partial(main, kind=sys.argv.pop(1)), __doc__)
