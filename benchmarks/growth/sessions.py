"""Cost against the topics of one fetch session (KIP-227): one active partition, none, and opening the session."""

import statistics
import time
from collections.abc import Callable

from benchmarks.brokers import Run
from benchmarks.growth.probes import (
    WINDOWS,
    GrowthRun,
    append_one,
    client_of,
    create,
    settle,
    until,
)
from benchmarks.rows.small import warm_up
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.raw_client import RawClient

FETCH_VERSION = 12
"""Newest version whose requests name topics instead of topic ids."""
MOVED = "topic-0"
FETCHES = 12
"""Fetches in a window."""
WARM_FETCHES = 2000
"""Fetches before the measurement, of the same kind: Kafka's just-in-time compiler needs them."""
TOPICS_AT_ONCE = 1000
WAIT_MS = 10_000
PAUSE_SECONDS = 0.005


def measure(name: str, size: int) -> dict[str, float]:
    """Measure a broker with `size` one-partition topics, each with a record, all in one fetch session."""
    with GrowthRun(name) as run:
        with client_of(run) as client:
            topics = [f"topic-{number}" for number in range(size)]
            for first in range(0, size, TOPICS_AT_ONCE):
                create(client, dict.fromkeys(topics[first : first + TOPICS_AT_ONCE], 1))
            for topic in topics:
                until(lambda topic=topic: append_one(client, topic))  # type: ignore[misc]
        if name == "kafka":
            warm_up(run)
        settle(run)
        with client_of(run) as consumer, client_of(run) as producer:
            session = Session(consumer, topics)
            if name == "kafka":
                for _ in range(WARM_FETCHES * 10 // max(10, size)):
                    session.fetch()
            return _figures(run, session, producer)


class Session:
    """Client side of a fetch session, whose partitions are read up to their ends."""

    def __init__(self, client: RawClient, topics: list[str]) -> None:
        self.client = client
        self.offsets = dict.fromkeys(topics, 1)
        self.opened = self.id = self.epoch = 0
        started = time.perf_counter()
        self.id = self.client.ask(self.request(topics), FETCH_VERSION).session_id
        self.opening_seconds = time.perf_counter() - started
        assert self.id, "no session was opened"
        self.epoch = 1
        self.to_tell: list[str] = []
        """Partitions that were read since the last fetch: the next fetch sends their new offsets."""

    def request(self, topics: list[str], wait_ms: int = 0) -> FetchRequest:
        asked = [
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=0, fetch_offset=self.offsets[topic], partition_max_bytes=1 << 20)],
            )
            for topic in topics
        ]
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 24,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=asked,
        )

    def send(self, wait_ms: int = 0) -> FetchRequest:
        request = self.request(self.to_tell, wait_ms)
        self.client.send_bytes(self.client.frame(request, FETCH_VERSION))
        self.epoch += 1
        self.to_tell = []
        return request

    def receive(self, request: FetchRequest) -> list[str]:
        """Return the topics that had records in the response."""
        answer = self.client.receive(request, FETCH_VERSION)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        moved = [each.topic for each in answer.responses if any(part.records for part in each.partitions)]
        for topic in moved:
            self.offsets[topic] += 1
        self.to_tell = moved
        return moved

    def fetch(self) -> list[str]:
        return self.receive(self.send())


def _figures(run: Run, session: Session, producer: RawClient) -> dict[str, float]:
    figures = {"session opened, ms": session.opening_seconds * 1e3}
    for what, once in {"nothing moved": _nothing, "one moved": _one_ready, "one moves meanwhile": _one_waited}.items():
        windows = [_window(run, session, producer, once) for _ in range(WINDOWS)]
        figures[f"fetch, {what} CPU, us"] = min(cpu for cpu, _ in windows) * 1e6
        figures[f"fetch, {what}, us"] = min(statistics.median(taken) for _, taken in windows) * 1e6
    return figures


def _window(
    run: Run, session: Session, producer: RawClient, once: Callable[[Run, Session, RawClient], tuple[float, float]]
) -> tuple[float, list[float]]:
    """Return the mean CPU of a fetch, and the time that each fetch took."""
    found = [once(run, session, producer) for _ in range(FETCHES)]
    return statistics.fmean(cpu for cpu, _ in found), [taken for _, taken in found]


def _nothing(run: Run, session: Session, _: RawClient) -> tuple[float, float]:
    cpu, started = run.cpu_seconds(), time.perf_counter()
    moved = session.fetch()
    taken = time.perf_counter() - started
    assert not moved
    return run.cpu_seconds() - cpu, taken


def _one_ready(run: Run, session: Session, producer: RawClient) -> tuple[float, float]:
    """Append a record, then fetch it."""
    assert append_one(producer, MOVED)
    time.sleep(PAUSE_SECONDS)
    cpu, started = run.cpu_seconds(), time.perf_counter()
    moved = session.fetch()
    taken = time.perf_counter() - started
    assert moved == [MOVED]
    used = run.cpu_seconds() - cpu
    session.fetch()
    return used, taken


def _one_waited(run: Run, session: Session, producer: RawClient) -> tuple[float, float]:
    """Append a record while the fetch waits; measure the CPU of both, and the time from the append to the response."""
    cpu = run.cpu_seconds()
    request = session.send(WAIT_MS)
    time.sleep(PAUSE_SECONDS)
    started = time.perf_counter()
    assert append_one(producer, MOVED)
    moved = session.receive(request)
    taken = time.perf_counter() - started
    assert moved == [MOVED]
    used = run.cpu_seconds() - cpu
    session.fetch()
    return used, taken
