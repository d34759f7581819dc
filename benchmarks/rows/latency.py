"""Latency of one request on a broker with low load, and of one record from producer to consumer."""

import re
from collections.abc import Mapping

from benchmarks.brokers import Run
from benchmarks.frames import produce_error_position, produce_frame
from benchmarks.load import load
from benchmarks.rows.perf import tool
from benchmarks.topics import PARTITIONS, delete_topic, make_topic

RATE = 2000
CONNECTIONS = 10
WARM_UP_SECONDS = 2.0
MEASURED_SECONDS = 6.0
RECORDS = 6000


def latency(run: Run) -> Mapping[str, float]:
    """Measure 2,000 produce requests a second of one 100-byte record each, acks=1, timed from when they were due."""
    topic = "latency"
    make_topic(run, topic)
    frames = [produce_frame(topic, partition, 100) for partition in range(PARTITIONS)]
    position = produce_error_position(topic)
    load(run, frames, position, seconds=WARM_UP_SECONDS, connections=CONNECTIONS, rate=RATE)
    loaded = load(run, frames, position, seconds=MEASURED_SECONDS, connections=CONNECTIONS, rate=RATE)
    delete_topic(run, topic)
    p50, p99, p999 = loaded.latencies_us
    return {"latency p50 at 2,000/s, us": p50, "latency p99, us": p99, "latency p99.9, us": p999}


def end_to_end(run: Run) -> Mapping[str, float]:
    """Run Kafka's own EndToEndLatency: one record at a time, acks=1, 100 bytes; return the mean of the records."""
    topic = "end-to-end"
    make_topic(run, topic, 1)
    output = tool(
        "EndToEndLatency",
        *("--bootstrap-server", run.broker.bootstrap, "--topic", topic, "--num-records", RECORDS),
        *("--producer-acks", 1, "--record-size", 100),
    )
    found = re.search(r"Avg latency: ([0-9.]+) ms", output)
    assert found, output
    return {"end to end, ms": float(found.group(1))}
