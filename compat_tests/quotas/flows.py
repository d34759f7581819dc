"""confluent-kafka producer and consumer that run as fast as possible, and their progress over time."""

import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer, TopicPartition

VALUE = b"x" * 9_900
BATCH_BYTES = 100_000


@dataclass(slots=True, kw_only=True)
class Flow:
    """Progress: (seconds since the start, bytes so far), and the throttle times that the client received."""

    points: list[tuple[float, int]] = field(default_factory=list)
    throttled_ms: list[float] = field(default_factory=list)
    problem: Exception | None = None

    def bytes_at(self, seconds):
        return max((total for when, total in self.points if when <= seconds), default=0)

    def rate(self, start, end):
        return (self.bytes_at(end) - self.bytes_at(start)) / (end - start)


def produce(bootstrap, topic, client_id, seconds, flow):
    """Send for `seconds`; a record counts when the broker has acknowledged it."""
    total, began = 0, time.monotonic()

    def delivered(error, message):
        nonlocal total
        if error is not None:  # the client purged the record at the end
            return
        total += len(message.value())
        flow.points.append((time.monotonic() - began, total))

    client = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "batch.size": BATCH_BYTES,
            "linger.ms": 5,
            "max.in.flight": 1,
            "queue.buffering.max.kbytes": 4096,
            "throttle_cb": lambda event: flow.throttled_ms.append(event.throttle_time),
        }
    )
    while time.monotonic() - began < seconds:
        try:
            client.produce(topic, VALUE, partition=0, on_delivery=delivered)
            client.poll(0)
        except BufferError:
            client.poll(0.05)
    client.purge()
    client.flush(1)


def consume(bootstrap, topic, client_id, seconds, flow):
    """Read partition 0 from the beginning for `seconds`."""
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "enable.auto.commit": False,
            "fetch.max.bytes": BATCH_BYTES * 2,
            "max.partition.fetch.bytes": BATCH_BYTES,
            "message.max.bytes": BATCH_BYTES,
            "queued.max.messages.kbytes": 1024,
            "fetch.queue.backoff.ms": 5,
            "throttle_cb": lambda event: flow.throttled_ms.append(event.throttle_time),
        }
    )
    try:
        client.assign([TopicPartition(topic, 0, 0)])
        total, began = 0, time.monotonic()
        while time.monotonic() - began < seconds:
            for message in client.consume(100, timeout=0.05):
                assert message.error() is None, message.error()
                total += len(message.value())
            flow.points.append((time.monotonic() - began, total))
    finally:
        client.close()


def run_together(*jobs):
    """Run each (function, arguments...) in a thread; return their flows when all have ended."""
    flows = [Flow() for _ in jobs]

    def guarded(job, flow):
        try:
            job[0](*job[1:], flow)
        except Exception as error:
            flow.problem = error

    threads = [threading.Thread(target=guarded, args=each, daemon=True) for each in zip(jobs, flows, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [flow.problem for flow in flows] == [None] * len(flows)
    return flows
