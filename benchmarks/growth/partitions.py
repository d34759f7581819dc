"""Cost against the partitions of one broker, one of which is in use: requests, metadata changes, memory, restarts."""

import time

from benchmarks.brokers import Run
from benchmarks.growth.probes import (
    USED,
    GrowthRun,
    append_one,
    at_rest,
    client_of,
    create,
    make_used,
    metadata_changes,
    produce_and_fetch,
    settle,
    stop_seconds,
    until,
    write_to_topic,
)
from benchmarks.rows.small import warm_up

TOPIC_PARTITIONS = 100
TOPICS_AT_ONCE = 10
"""Topics in a request: together a thousand partitions, because Kafka rejects much larger requests."""


def measure(name: str, size: int) -> dict[str, float]:
    """Measure a broker with `size` partitions, each with one record."""
    with GrowthRun(name) as run:
        make_used(run)
        figures = fill(run, size - 1)
        if name == "kafka":
            warm_up(run)
        settle(run)
        figures |= at_rest(run)
        figures |= produce_and_fetch(run)
        figures |= metadata_changes(run)
        return figures | restarts(run)


def fill(run: Run, partitions: int) -> dict[str, float]:
    """Create partitions and write a record to each."""
    topics, created = create_all(run, partitions)
    started = time.perf_counter()
    write_to_all(run, topics)
    return {"all partitions created, s": created, "all written to, s": time.perf_counter() - started}


def create_all(run: Run, partitions: int, prefix: str = "idle") -> tuple[dict[str, int], float]:
    """Create topics (name -> partitions); return them and the seconds that it took."""
    topics = {
        f"{prefix}-{first // TOPIC_PARTITIONS}": min(TOPIC_PARTITIONS, partitions - first)
        for first in range(0, partitions, TOPIC_PARTITIONS)
    }
    names = list(topics)
    started = time.perf_counter()
    with client_of(run) as client:
        for first in range(0, len(names), TOPICS_AT_ONCE):
            create(client, {name: topics[name] for name in names[first : first + TOPICS_AT_ONCE]})
    return topics, time.perf_counter() - started


def write_to_all(run: Run, topics: dict[str, int]) -> None:
    """Append a record to each partition."""
    with client_of(run) as client:
        for topic, count in topics.items():
            write_to_topic(client, topic, count)


def restarts(run: Run) -> dict[str, float]:
    """Time a restart after kill -9 with unflushed records in all partitions, a clean stop, and a restart after it."""
    run.broker.kill()
    killed = seconds_until_served(run)
    settle(run)
    return {
        "restart after kill, s": killed,
        "clean stop, s": stop_seconds(run),
        "restart after a clean stop, s": seconds_until_served(run),
    }


def seconds_until_served(run: Run) -> float:
    """Return the seconds from exec until the partition in use accepts a record."""
    started = time.perf_counter()
    run.broker.launch()
    until(lambda: _is_served(run))
    return time.perf_counter() - started


def _is_served(run: Run) -> bool:
    assert run.broker.process is not None
    assert run.broker.process.poll() is None, run.broker.output()[-4000:]
    try:
        with client_of(run) as client:
            return append_one(client, USED)
    except OSError:
        return False
