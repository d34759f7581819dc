"""Probe: an idempotent producer in addition to all clients, whose acknowledgements measure progress."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.cluster_processes.network import Network
from tests.history.clients.common import PARTITIONS, TOPIC, key_of
from tests.history.journal import Complete, Journal
from tests.history.operations import FAIL, INFO, OK

PAUSE_SECONDS = 0.05
END_SECONDS = 20.0
PATIENCE_SECONDS = 10.0
"""Time without a response after which a new producer is created, as by an application's watchdog.

librdkafka may request metadata only from the one broker that it is connected to. If that one leads no more and is
isolated, librdkafka waits until it returns.
"""
SETTINGS = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 1,
    "socket.timeout.ms": 3000,
    "request.timeout.ms": 2500,
    "message.timeout.ms": 60_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 1000,
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class Probe:
    """Producer that regularly writes a record to each partition, in a separate thread, until it is finished."""

    def __init__(self, network: Network, place: int, bootstrap_servers: str, journal: Journal) -> None:
        self._network = network
        self._place = place
        self._bootstrap_servers = bootstrap_servers
        self._journal = journal
        self._stop = threading.Event()
        self._acknowledged: dict[int, list[tuple[float, float]]] = defaultdict(list)
        """For each partition (sent, acknowledged), by time.monotonic()."""
        self.problems: list[str] = []
        self._number = 0
        self._waiting: dict[int, float] = {}
        """Time at which each pending record was sent, by its number."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self._acknowledged.values()))

    def first_after(self, seconds: float, *, partitions: int = PARTITIONS) -> float | None:
        """Return the time by which each partition had acknowledged a record sent since that time."""
        first = [
            min((done for sent, done in list(self._acknowledged[each]) if sent >= seconds), default=None)
            for each in range(partitions)
        ]
        return None if None in first else max(each for each in first if each is not None)

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        incarnation = 0
        while not self._stop.is_set():
            incarnation += 1
            try:
                self._live(f"probe.{incarnation}")
            except KafkaException as error:  # an idempotent producer that cannot continue is replaced
                self._journal.note("probe", "assign", keys=[], error=str(error))

    def _live(self, name: str) -> None:
        with self._network.inside(self._place):
            producer = Producer({**SETTINGS, "bootstrap.servers": self._bootstrap_servers, "client.id": "probe"})
            while not self._stop.is_set() and not self._is_stuck:
                for partition in range(PARTITIONS):
                    self._send(producer, name, partition)
                producer.poll(PAUSE_SECONDS)
                self._stop.wait(PAUSE_SECONDS)
            if self._is_stuck:
                producer.purge()
            producer.flush(END_SECONDS)

    @property
    def _is_stuck(self) -> bool:
        return time.monotonic() - min(self._waiting.values(), default=math.inf) > PATIENCE_SECONDS

    def _send(self, producer: Any, name: str, partition: int) -> None:
        number, sent = self._number, time.monotonic()
        value = f"{name}:{number}"
        self._number += 1
        complete = self._journal.invoke(name, "send", key=key_of(TOPIC, partition), value=value)
        report = partial(self._told, complete, partition, number)
        self._waiting[number] = sent
        try:
            producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=report)
        except BufferError:
            del self._waiting[number]
            complete(FAIL, error="the queue is full")

    def _told(self, complete: Complete, partition: int, number: int, error: Any, message: Any) -> None:
        sent = self._waiting.pop(number)
        if error is not None:
            complete(INFO, error=error.name())
            return
        complete(OK, offset=message.offset())
        self._acknowledged[partition].append((sent, time.monotonic()))
