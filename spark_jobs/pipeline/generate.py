"""Generator: sends a seeded stream of device events at a rate, through a transactional producer.

Some transactions are aborted and sent again, so a reader of uncommitted records would see events twice.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from confluent_kafka import Producer

from spark_jobs.pipeline.device_events import Sent, device_events

logger = logging.getLogger("spark_jobs.pipeline")

SAID_EVERY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Stream to send."""

    topic: str
    seed: int = 1
    per_second: float = 1000.0
    count: int | None = None
    """Number of events; None sends until it is stopped."""
    devices: int = 100
    transaction_seconds: float = 0.5
    aborted: float = 0.05
    """Share of the transactions that are aborted and sent again."""


def generate(
    properties: Mapping[str, Any],
    stream: Stream,
    stopping: threading.Event,
    *,
    sent: Callable[[list[Sent]], None] = lambda events: None,
) -> int:
    """Send the events and return their number; `sent` gets those of each committed transaction.

    `properties` are librdkafka's. Raises KafkaException.
    """
    producer = Producer({"transactional.id": f"{stream.topic}-generator-{stream.seed}", **properties})
    producer.init_transactions()
    events = device_events(stream.seed, start=datetime.now(UTC), per_second=stream.per_second, devices=stream.devices)
    limited = events if stream.count is None else islice(events, stream.count)
    abort_source = random.Random(f"aborts of {stream.seed}")
    begun, said, count = time.monotonic(), 0.0, 0
    for transaction in _transactions(limited, max(1, int(stream.per_second * stream.transaction_seconds))):
        if stopping.is_set():
            break
        if abort_source.random() < stream.aborted:
            _send(producer, stream.topic, transaction)
            producer.abort_transaction()
        _send(producer, stream.topic, transaction)
        producer.commit_transaction()
        sent(transaction)
        count += len(transaction)
        elapsed = time.monotonic() - begun
        if elapsed - said >= SAID_EVERY_SECONDS:
            said = elapsed
            logger.info("%d events sent, %.0f per second", count, count / elapsed)
        stopping.wait(max(0.0, count / stream.per_second - elapsed))
    return count


def _transactions(events: Iterator[Sent], size: int) -> Iterator[list[Sent]]:
    while transaction := list(islice(events, size)):
        yield transaction


def _send(producer: Producer, topic: str, events: list[Sent]) -> None:
    producer.begin_transaction()
    for each in events:
        while True:
            try:
                producer.produce(topic, each.text.encode(), each.key)
            except BufferError:
                producer.poll(1.0)
            else:
                break
    producer.flush()
