"""Benchmark of appends to a partition's log beside plain writes to the same file system; prints one JSON object.

Run it as a script with `python -P`, so that the installed kwire is measured. Both write whole files of new pages, in
alternating rounds; the rate of each is the median of its rounds.
"""

import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.recovery import Surroundings, open_log
from kwire.protocol.records import Record, encode_batch
from kwire.seams import SystemClock, SystemRandomSource

ROUND_BYTES = 192 * 1024 * 1024
ROUNDS = 9
RECORD_BYTES = 1000
SIZES = {"16 KB": 16 * 1024, "1 MB": 1024 * 1024}


def batch_of(size: int) -> bytes:
    """Return a batch of about `size` bytes, with records of 1 KB."""
    records = [Record(value=os.urandom(RECORD_BYTES), timestamp=1) for _ in range(size // (RECORD_BYTES + 20))]
    return bytes(encode_batch(records))


def appended(batch: bytes, directory: str) -> float:
    """Return the bytes per second that PartitionLog.append reaches."""
    surroundings = Surroundings(disk=RealDisk(), clock=SystemClock(), random_source=SystemRandomSource())
    log = open_log(directory, topic="t", partition=0, config=LogConfig(), surroundings=surroundings)
    count = ROUND_BYTES // len(batch)
    started = time.perf_counter()
    for _ in range(count):
        log.append(batch, leader_epoch=0)
    taken = time.perf_counter() - started
    log.close(clean=False)
    return count * len(batch) / taken


def written(batch: bytes, directory: str) -> float:
    """Return the bytes per second that pwrite reaches."""
    descriptor = os.open(f"{directory}/plain", os.O_RDWR | os.O_CREAT)
    count, position = ROUND_BYTES // len(batch), 0
    started = time.perf_counter()
    for _ in range(count):
        position += os.pwrite(descriptor, batch, position)
    taken = time.perf_counter() - started
    os.close(descriptor)
    return position / taken


def measure(batch: bytes) -> dict[str, float]:
    rates: dict[str, list[float]] = {"append": [], "write": []}
    for number in range(ROUNDS):
        pair = [("append", appended), ("write", written)]
        for name, call in pair if number % 2 else reversed(pair):
            with tempfile.TemporaryDirectory(prefix="kwire-bench-log-") as directory:
                rates[name].append(call(batch, directory))
                for path in Path(directory).iterdir():
                    path.unlink()
    return {name: statistics.median(values) for name, values in rates.items()}


if __name__ == "__main__":
    print(json.dumps({name: measure(batch_of(size)) for name, size in SIZES.items()}))
