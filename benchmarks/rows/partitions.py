"""Row about a topic of 2,000 partitions: its creation, and writes to all partitions."""

import time
from collections.abc import Mapping

from benchmarks.brokers import Run
from benchmarks.frames import produce_error_position, produce_frame
from benchmarks.load import load
from benchmarks.topics import delete_topic, make_topic

PARTITIONS = 2_000
MEASURED_SECONDS = 3.0


def many_partitions(run: Run) -> Mapping[str, float]:
    """Measure the seconds until all have a record, and small requests to all: 20 connections with 5 in flight."""
    topic = "wide"
    started = time.perf_counter()
    make_topic(run, topic, PARTITIONS)
    made = time.perf_counter() - started
    frames = [produce_frame(topic, partition, 100) for partition in range(PARTITIONS)]
    position = produce_error_position(topic)
    load(run, frames, position, seconds=1.0, in_flight=5)
    loaded = load(run, frames, position, seconds=MEASURED_SECONDS, in_flight=5)
    delete_topic(run, topic)
    return {"2,000 partitions created and written to, s": made, "requests/s over 2,000 partitions": loaded.rate}
