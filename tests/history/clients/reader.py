"""confluent-kafka as a consumer of all partitions, by assignment: `python -m tests.history.clients.reader committed
...`
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.history.clients.common import KEYS, REQUEST_SECONDS, Session, key_of, partition_of, run
from tests.history.journal import Journal
from tests.history.operations import ASSIGN

EMPTY_POLLS_SECONDS = 0.5
"""Interval in which empty polls are recorded."""


def consumer(bootstrap_server: str, level: str, **more: Any) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": "nobody",
            "isolation.level": f"read_{level}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "socket.timeout.ms": int(REQUEST_SECONDS * 4000),
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            "metadata.recovery.strategy": "none",
        }
        | {name.replace("_", "."): value for name, value in more.items()}
    )


def assign(reading: Any, process: str, journal: Journal) -> None:
    """Assign every key from its beginning."""
    reading.assign([TopicPartition(*partition_of(key), OFFSET_BEGINNING) for key in KEYS])
    journal.note(process, "assign", keys=KEYS)


def record_of(message: Any) -> tuple[str, int, str]:
    return key_of(message.topic(), message.partition()), message.offset(), message.value().decode()


def main(session: Session, level: str) -> None:
    reading = consumer(session.bootstrap_server, level, client_id=session.id)
    assign(reading, session.name, session.journal)
    noted = 0.0
    while not session.stopping.is_set():
        invoked = time.monotonic_ns()
        records = [record_of(message) for message in reading.consume(50, 0.2) if message.error() is None]
        if records or time.monotonic() - noted > EMPTY_POLLS_SECONDS:
            noted = time.monotonic()
            session.journal.note(session.name, "poll", at=invoked, level=level, mode=ASSIGN, records=records)
    reading.close()


if __name__ == "__main__":
    run(functools.partial(main, level=sys.argv.pop(1)), __doc__)
