"""Latency of produce requests beside consumers that read records which are not in the page cache."""

import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.brokers import Run
from benchmarks.frames import fetch_error_position, fetch_frame, produce_error_position, produce_frame
from benchmarks.load import load
from benchmarks.topics import PARTITIONS, delete_topic, make_topic

SIZE = 1_000_000
RECORDS = 48
"""Records of a partition; each is a batch of its own."""
RATE = 500
WARM_UP_SECONDS = 2.0
MEASURED_SECONDS = 6.0
READERS = 4
DROP_SECONDS = 0.02
STALE, LIVE = "stale", "live"


def cold_reads(run: Run) -> Mapping[str, float]:
    """Measure 500 produce requests a second, acks=1, alone and beside 4 consumers that read 1 MB each from the device.

    Then measure them beside consumers that read the same amount from the page cache: the difference is the device's.
    """
    make_topic(run, STALE)
    make_topic(run, LIVE)
    for partition in range(PARTITIONS):
        frames = [produce_frame(STALE, partition, SIZE)]
        stored = 0.0
        while stored < RECORDS:
            stored += load(run, frames, produce_error_position(STALE), seconds=0.2, connections=1).answers
    _live(run, WARM_UP_SECONDS)
    alone = _live(run, MEASURED_SECONDS)
    offsets = range(1, RECORDS + 1)  # after the small record that make_topic writes
    reads = [fetch_frame(STALE, index, SIZE + 1000, offset) for offset in offsets for index in range(PARTITIONS)]
    with _dropped(run), ThreadPoolExecutor(1) as pool:
        position, seconds = fetch_error_position(STALE), MEASURED_SECONDS + 1
        reading = pool.submit(lambda: load(run, reads, position, seconds=seconds, connections=READERS))
        beside = _live(run, MEASURED_SECONDS)
        read = reading.result()
    load(run, reads, position, seconds=WARM_UP_SECONDS, connections=READERS)
    with ThreadPoolExecutor(1) as pool:
        rate = round(read.answers / read.seconds)
        reading = pool.submit(lambda: load(run, reads, position, seconds=seconds, connections=READERS, rate=rate))
        beside_warm = _live(run, MEASURED_SECONDS)
        read_warm = reading.result()
    for topic in (STALE, LIVE):
        delete_topic(run, topic)
    return {
        "cold reads, MB/s": read.bytes_received / read.seconds / 1e6,
        "live produce p99 alone, us": alone,
        "live produce p99 beside cold reads, us": beside,
        "live produce p99 beside cold reads, times": beside / alone,
        "as many reads from the page cache, MB/s": read_warm.bytes_received / read_warm.seconds / 1e6,
        "live produce p99 beside reads from the page cache, us": beside_warm,
    }


def _live(run: Run, seconds: float) -> float:
    """Return the 99th percentile in microseconds, from the time when a request was due."""
    frames = [produce_frame(LIVE, partition, 100) for partition in range(PARTITIONS)]
    loaded = load(run, frames, produce_error_position(LIVE), seconds=seconds, connections=10, rate=RATE)
    return loaded.latencies_us[1]


@contextmanager
def _dropped(run: Run) -> Iterator[None]:
    """Drop the stale topic's files from the page cache repeatedly."""
    files = [os.open(path, os.O_RDWR) for path in Path(run.directory).rglob(f"{STALE}-*/*.log")]
    ended = threading.Event()

    def drop() -> None:
        while not ended.wait(DROP_SECONDS):
            for file in files:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    for file in files:
        os.fsync(file)
    thread = threading.Thread(target=drop)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for file in files:
            os.close(file)
