"""Benchmark of cached log reads beside plain pread, both sent through a socket; prints one JSON object.

Run it as a script with `python -P`, so that the installed kwire is measured. A process at the other end of the socket
discards the bytes. The log was reopened and read once, so that every CRC has been checked.
"""

import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator

from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings, open_log
from kwire.protocol.records import Record, encode_batch, iterate_headers
from kwire.seams import SystemClock, SystemRandomSource

LOG_BYTES = 128 * 1024 * 1024
FETCH_BYTES = 1024 * 1024
ROUNDS = 11


def filled(directory: str) -> PartitionLog:
    """Return a log of 16 KB batches, in the state after a restart."""
    batch = bytes(encode_batch([Record(value=os.urandom(1000), timestamp=1) for _ in range(16)]))
    log = opened(directory)
    for _ in range(LOG_BYTES // len(batch)):
        log.append(batch, leader_epoch=0)
    log.close(clean=True)
    return opened(directory)


def opened(directory: str) -> PartitionLog:
    surroundings = Surroundings(disk=RealDisk(), clock=SystemClock(), random_source=SystemRandomSource())
    return open_log(
        directory, topic="t", partition=0, config=LogConfig(), surroundings=surroundings, was_clean_shutdown=True
    )


def fetches(log: PartitionLog) -> Iterator[bytes]:
    """Yield the whole log in pieces, as a consumer's fetches read it."""
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, FETCH_BYTES)
        yield data
        offset += RECORDS_IN[len(data)]


RECORDS_IN: dict[int, int] = {}
"""Number of records by response size: counting records must not take time in the measurement."""


def learn(log: PartitionLog) -> None:
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, FETCH_BYTES)
        count = sum(header.last_offset_delta + 1 for _, header in iterate_headers(data))
        assert RECORDS_IN.setdefault(len(data), count) == count
        offset += count


def preads(path: str) -> Iterator[bytes]:
    descriptor = os.open(path, os.O_RDONLY)
    position = 0
    while data := os.pread(descriptor, FETCH_BYTES, position):
        yield data
        position += len(data)
    os.close(descriptor)


def rate(source: Callable[[], Iterator[bytes]], out: socket.socket) -> float:
    size, started = 0, time.perf_counter()
    for data in source():
        out.sendall(data)
        size += len(data)
    return size / (time.perf_counter() - started)


def main() -> None:
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        buffer = bytearray(FETCH_BYTES)
        while theirs.recv_into(buffer):
            pass
        os._exit(0)
    theirs.close()
    rates: dict[str, list[float]] = {"read": [], "pread": []}
    with tempfile.TemporaryDirectory(prefix="kwire-bench-log-") as directory:
        log = filled(directory)
        learn(log)
        path = log.segments.first.file.path
        sources = {"read": lambda: fetches(log), "pread": lambda: preads(path)}
        for number in range(ROUNDS):
            for name in sources if number % 2 else reversed(sources):
                rates[name].append(rate(sources[name], ours))
    ours.close()
    os.wait()
    print(json.dumps({name: statistics.median(values) for name, values in rates.items()}))


if __name__ == "__main__":
    main()
