"""Large batches without the work of a real client: batches with one record of 131 KB or 1 MB, produced and fetched."""

from collections.abc import Mapping

from benchmarks.brokers import Run
from benchmarks.frames import fetch_error_position, fetch_frame, produce_error_position, produce_frame
from benchmarks.load import load
from benchmarks.topics import PARTITIONS, delete_topic, make_topic

CONNECTIONS = 6
WARM_UP_SECONDS = 1.0
MEASURED_SECONDS = 2.5
SIZES = {"131 KB": 131_000, "1 MB": 1_000_000}


def raw(run: Run) -> Mapping[str, float]:
    """Measure megabytes a second over 6 connections with one request in flight each."""
    figures: dict[str, float] = {}
    for name, size in SIZES.items():
        topic = f"raw-{size}"
        make_topic(run, topic)
        frames = [produce_frame(topic, partition, size) for partition in range(PARTITIONS)]
        position = produce_error_position(topic)
        load(run, frames, position, seconds=WARM_UP_SECONDS, connections=CONNECTIONS)
        produced = load(run, frames, position, seconds=MEASURED_SECONDS, connections=CONNECTIONS)
        figures[f"raw produce {name}, MB/s"] = produced.rate * size / 1e6
        frames = [fetch_frame(topic, partition, size + 1000) for partition in range(PARTITIONS)]
        position = fetch_error_position(topic)
        load(run, frames, position, seconds=WARM_UP_SECONDS, connections=CONNECTIONS)
        fetched = load(run, frames, position, seconds=MEASURED_SECONDS, connections=CONNECTIONS)
        assert fetched.bytes_received > fetched.answers * size, "fetches came back short"
        figures[f"raw fetch {name}, MB/s"] = fetched.bytes_received / fetched.seconds / 1e6
        delete_topic(run, topic)
    return figures
