"""An idempotent producer beside all other clients, by whose acknowledgements progress is measured."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.cluster_processes.network import Network
from tests.history.clients.common import PARTITIONS, TOPIC, key_of
from tests.history.journal import Complete, Journal
from tests.history.operations import INFO, OK

PAUSE_SECONDS = 0.05
END_SECONDS = 20.0
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
    """Writes a record to each partition every now and then, in a thread of its own, until it is finished."""

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
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self._acknowledged.values()))

    def first_after(self, seconds: float, *, partitions: int = PARTITIONS) -> float | None:
        """When each partition had acknowledged something that was sent from that moment on."""
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
            except KafkaException as error:  # an idempotent producer that cannot go on is made anew
                self._journal.note("probe", "assign", keys=[], error=str(error))

    def _live(self, name: str) -> None:
        with self._network.inside(self._place):
            producer = Producer({**SETTINGS, "bootstrap.servers": self._bootstrap_servers, "client.id": "probe"})
            while not self._stop.is_set():
                for partition in range(PARTITIONS):
                    self._send(producer, name, partition)
                producer.poll(PAUSE_SECONDS)
                self._stop.wait(PAUSE_SECONDS)
            producer.flush(END_SECONDS)

    def _send(self, producer: Any, name: str, partition: int) -> None:
        value = f"{name}:{self._number}"
        self._number += 1
        complete = self._journal.invoke(name, "send", key=key_of(TOPIC, partition), value=value)
        report = partial(self._told, complete, partition, time.monotonic())
        try:
            producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=report)
        except BufferError:
            complete("fail", error="the queue is full")

    def _told(self, complete: Complete, partition: int, sent: float, error: Any, message: Any) -> None:
        if error is not None:
            complete(INFO, error=error.name())
            return
        complete(OK, offset=message.offset())
        self._acknowledged[partition].append((sent, time.monotonic()))
