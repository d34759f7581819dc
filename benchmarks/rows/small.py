"""Produce requests of one 100-byte record, acks=1, from 20 connections."""

from collections.abc import Mapping

from benchmarks.brokers import Run
from benchmarks.frames import produce_error_position, produce_frame
from benchmarks.load import load
from benchmarks.topics import PARTITIONS, delete_topic, make_topic

TOPIC = "small"
WARM_UP_SECONDS = 6.0
MEASURED_SECONDS = 4.0


def warm_up(run: Run) -> None:
    """Warm up a broker that has served no request, so that a row that runs alone has the conditions of a full run."""
    make_topic(run, TOPIC)
    rate(run, WARM_UP_SECONDS, 5)
    delete_topic(run, TOPIC)


def rate(run: Run, seconds: float, in_flight: int) -> float:
    """Return requests a second; the topic exists already."""
    return load(run, *_requests(), seconds=seconds, in_flight=in_flight).rate


def _requests() -> tuple[list[bytes], int]:
    frames = [produce_frame(TOPIC, partition, 100) for partition in range(PARTITIONS)]
    return frames, produce_error_position(TOPIC)


def small_requests(run: Run) -> Mapping[str, float]:
    """Measure one request in flight per connection (a synchronous client) and five (a producer's default)."""
    make_topic(run, TOPIC)
    frames, position = _requests()
    load(run, frames, position, seconds=WARM_UP_SECONDS, in_flight=5)
    one = load(run, frames, position, seconds=MEASURED_SECONDS, in_flight=1)
    five = load(run, frames, position, seconds=MEASURED_SECONDS, in_flight=5)
    delete_topic(run, TOPIC)
    return {
        "small requests/s, 1 in flight": one.rate,
        "small requests/s, 5 in flight": five.rate,
        "CPU s per million requests, 1 in flight": one.cpu_seconds / one.answers * 1e6,
        "CPU s per million requests, 5 in flight": five.cpu_seconds / five.answers * 1e6,
    }
