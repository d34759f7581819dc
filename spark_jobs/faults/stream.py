"""Input of a round: device events in transactions, some of them aborted, and the ledger of what was committed."""

import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import Any

from confluent_kafka import KafkaException, Producer

from spark_jobs.pipeline.device_events import Sent, Shares, device_events

PARTITIONS = 2
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
PER_SECOND = 0.5
"""Events per second of event time: a round has windows that are complete."""
SHARES = Shares(duplicate=0.04, malformed=0.03, too_late=0.01, ahead=0.005)
TRANSACTION_EVENTS = (5, 40)
UNKNOWN = -1
"""Offset of a record whose delivery report has none."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Committed record of the input."""

    partition: int
    offset: int
    sent: Sent


@dataclass(slots=True)
class Ledger:
    """Committed records of one input topic, in the order of sending."""

    entries: list[Entry] = field(default_factory=list)
    aborted: int = 0
    """Transactions that were aborted."""

    @property
    def events(self) -> list[Sent]:
        return [each.sent for each in self.entries]


def partition_of(key: bytes) -> int:
    return zlib.crc32(key) % PARTITIONS


class InputStream:
    """Transactional producer of the events of one seed; each call continues where the last one ended."""

    def __init__(self, properties: Mapping[str, Any], topic: str, random_source: Random, aborted: float) -> None:
        self._properties = dict(properties)
        self._topic = topic
        self._random = random_source
        self._aborted = aborted
        seed = random_source.randrange(1 << 32)
        self._events = device_events(seed, start=START, per_second=PER_SECOND, devices=20, shares=SHARES)
        self._number = 0
        self._failure: KafkaException | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a new ledger with a new producer, for a topic that is empty."""
        self._producer = Producer({**self._properties, "transactional.id": f"{self._topic}-input"})
        self._producer.init_transactions()
        self.ledger = Ledger()

    def send(self, count: int, pause_seconds: float = 0.0, stopping: threading.Event | None = None) -> None:
        """Send events, with pauses between transactions until `stopping` is set. Raises KafkaException."""
        for events in self._transactions(count):
            if self._random.random() < self._aborted:
                self._write(events)
                self._producer.abort_transaction()
                self.ledger.aborted += 1
            while (offsets := self._committed(events)) is None:
                self.ledger.aborted += 1
            self.ledger.entries += [
                Entry(partition_of(each.key), offset, each) for each, offset in zip(events, offsets, strict=True)
            ]
            self._number += len(events)
            if stopping is not None:
                stopping.wait(pause_seconds)

    def _transactions(self, count: int) -> Iterator[list[Sent]]:
        events = islice(self._events, count)
        while transaction := list(islice(events, self._random.randint(*TRANSACTION_EVENTS))):
            yield transaction

    def _committed(self, events: list[Sent]) -> list[int] | None:
        """Return the offsets of a committed transaction, None if the broker has aborted it. Raises KafkaException."""
        try:
            offsets = self._write(events)
            self._end()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction()
            return None
        return offsets

    def _write(self, events: list[Sent]) -> list[int]:
        """Begin a transaction and write events; return their offsets."""
        self._failure, reported = None, [UNKNOWN] * len(events)
        self._producer.begin_transaction()
        for index, each in enumerate(events):
            self._producer.produce(
                self._topic,
                each.text.encode(),
                each.key,
                partition_of(each.key),
                timestamp=int(1000 * (START.timestamp() + (self._number + index) / PER_SECOND)),
                on_delivery=self._reporter(reported, index),
            )
        self._producer.flush()
        if self._failure is not None:
            raise self._failure
        return reported

    def _reporter(self, reported: list[int], index: int) -> Callable[[Any, Any], None]:
        def note(error: Any, message: Any) -> None:
            if error is not None:
                self._failure = KafkaException(error)
            else:
                reported[index] = message.offset()

        return note

    def _end(self) -> None:
        while True:
            try:
                self._producer.commit_transaction()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return
