"""Benchmark of offset and timestamp lookups in a large partition in the page cache; prints one JSON object.

Run it as a script with `python -P GIGABYTES`, so that the installed kwire is measured.
"""

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from kwire.chunks import at_once
from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings, open_log
from kwire.log.timestamp_search import TimestampOffset, TimestampSearch
from kwire.protocol.records import Record, encode_batch
from kwire.seams import SystemClock, SystemRandomSource, ThreadWorkers
from kwire.server.requests.large_batches import WorkersForLargeBatches

LOOKUPS = 5_000
RECORDS = 16
FIRST_MS = 1_700_000_000_000
STEP_MS = 100


def filled(directory: str, size: int) -> PartitionLog:
    """Fill a log with 16 KB batches, 100 ms apart, in segments of 1 GB; return it reopened after a clean stop."""
    values = [os.urandom(1000) for _ in range(RECORDS)]
    log = opened(directory)
    now_ms = FIRST_MS
    while log.size_in_bytes < size:
        now_ms += STEP_MS
        log.append(bytes(encode_batch([Record(value=value, timestamp=now_ms) for value in values])), leader_epoch=0)
    log.close(clean=True)
    return opened(directory)


def opened(directory: str) -> PartitionLog:
    surroundings = Surroundings(disk=RealDisk(), clock=SystemClock(), random_source=SystemRandomSource())
    return open_log(
        directory,
        topic="t",
        partition=0,
        config=LogConfig(message_timestamp_before_max_ms=2**62, retention_ms=-1),
        surroundings=surroundings,
        was_clean_shutdown=True,
    )


def microseconds(look_up: Callable[[int], object], upper: int) -> dict[str, float]:
    random_source = random.Random(1)
    taken = []
    for number in range(LOOKUPS + LOOKUPS // 5):
        wanted = random_source.randrange(upper)
        started = time.perf_counter_ns()
        found = look_up(wanted)
        if number >= LOOKUPS // 5:
            taken.append((time.perf_counter_ns() - started) / 1000)
        assert found is not None
    return {"p50": statistics.median(taken), "p99": statistics.quantiles(taken, n=100)[98]}


def by_offset(log: PartitionLog, offset: int) -> int:
    """Look up the position of the batch with this offset, without reading the batch."""
    segment = log.segments[log.segments.index_of(offset)]
    return segment.position_of(offset)


LARGE_BATCHES = WorkersForLargeBatches(ThreadWorkers(1))


def by_timestamp(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """Look up the first record with this timestamp or a later one."""
    return at_once(TimestampSearch(lambda: log, LARGE_BATCHES).first(timestamp))


def main(size: int) -> None:
    with tempfile.TemporaryDirectory(prefix="kwire-bench-log-") as directory:
        log = filled(directory, size)
        span_ms = log.log_end_offset // RECORDS * STEP_MS
        print(
            json.dumps(
                {
                    "offset": microseconds(lambda offset: by_offset(log, offset), log.log_end_offset),
                    "time": microseconds(lambda late: by_timestamp(log, FIRST_MS + late), span_ms),
                }
            )
        )


if __name__ == "__main__":
    main(int(float(sys.argv[1]) * 1e9))
