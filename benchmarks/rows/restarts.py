"""Starts with much data: after a clean stop, after a crash, and with many partitions."""

import time
from collections import defaultdict
from pathlib import Path

from kafka.admin import NewTopic

from benchmarks.brokers import COMPARED, Run
from benchmarks.rows.engine import Figures, in_process
from benchmarks.topics import admin, make_topic

TOPIC = "kept"
PARTITIONS = 1_000
MEGABYTES = 5
"""Megabytes in each partition."""
STARTS = 2
MANY_TOPICS, MANY_PARTITIONS = 10, 1_000
SETTLE_SECONDS = 2.0
CLEAN_FILE, RECOVERY_POINTS = ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"


def restarts() -> Figures:
    """Measure the seconds from exec to the first response with 1,000 partitions and 5 GB, after a crash and a stop."""
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in COMPARED:
        with Run(name) as run:
            make_topic(run, TOPIC, PARTITIONS)
            run.broker.stop()
            data = _data(run)
            in_process("fill.py", str(data), TOPIC, str(MEGABYTES))
            for _ in range(STARTS):
                figures["restart of 1,000 partitions, 5 GB, clean, s"][name].append(_start_seconds(run))
                run.broker.stop()
            for _ in range(STARTS):
                for file in (CLEAN_FILE, RECOVERY_POINTS):
                    (data / file).unlink()
                figures["restart of 1,000 partitions, 5 GB, all unflushed, s"][name].append(_start_seconds(run))
                run.broker.stop()
    return figures


def many_partitions() -> Figures:
    """Measure a broker with 10,000 partitions: time to the first response, and memory of each partition."""
    with Run("kwire") as run:
        time.sleep(SETTLE_SECONDS)
        before = run.resident_megabytes()
        for number in range(MANY_TOPICS):
            _make_topic(run, f"many-{number}", MANY_PARTITIONS)
        run.broker.stop()
        seconds = [_start_seconds(run)]
        time.sleep(SETTLE_SECONDS)
        assert run.broker.process is not None
        descriptors = sum(1 for _ in Path(f"/proc/{run.broker.process.pid}/fd").iterdir())
        each = (run.resident_megabytes() - before) * 1000 / (MANY_TOPICS * MANY_PARTITIONS)
        for _ in range(STARTS - 1):
            run.broker.stop()
            seconds.append(_start_seconds(run))
    return {
        "start with 10,000 partitions, s": {"kwire": seconds},
        "memory of a partition among 10,000, KB": {"kwire": [each]},
        "descriptors with 10,000 partitions": {"kwire": [float(descriptors)]},
    }


def _make_topic(run: Run, topic: str, partitions: int) -> None:
    """Create a topic without writing a record to each partition."""
    with admin(run) as client:
        client.create_topics([NewTopic(topic, partitions, 1)])


def _start_seconds(run: Run) -> float:
    started = time.perf_counter()
    run.broker.start()
    return time.perf_counter() - started


def _data(run: Run) -> Path:
    """Return the broker's log directory."""
    (meta,) = run.directory.rglob("meta.properties")
    return meta.parent
