"""Idle connections: the memory of each, and the latency of other clients."""

import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack

from benchmarks.brokers import Run
from benchmarks.frames import produce_error_position, produce_frame
from benchmarks.load import load
from benchmarks.topics import PARTITIONS, delete_topic, make_topic
from compat_tests.harness.ports import HOST

FEW, MANY = 1_000, 10_000
AT_ONCE = 40
"""Connections that are opened before the first is awaited: below Kafka's listen backlog of 50."""
API_VERSIONS_V0 = bytes.fromhex("0000000e" + "0012" + "0000" + "00000001" + "0004") + b"idle"
SETTLE_SECONDS = 1.0
RATE = 2000


def idle_connections(run: Run) -> Mapping[str, float]:
    """Measure the broker's memory per connection (KB) and the median latency of other clients beside 10,000 of them."""
    topic = "idle"
    make_topic(run, topic)
    figures: dict[str, float] = {}
    with ExitStack() as opened:
        before = run.resident_megabytes()
        started = time.perf_counter()
        for number in range(0, MANY, AT_ONCE):
            _open(opened, run.broker.port)
            if number + AT_ONCE == FEW:
                figures["1,000 idle connections, KB each"] = (run.resident_megabytes() - before) * 1e3 / FEW
        figures["10,000 connections opened, s"] = time.perf_counter() - started
        time.sleep(SETTLE_SECONDS)
        figures["10,000 idle connections, KB each"] = (run.resident_megabytes() - before) * 1e3 / MANY
        frames = [produce_frame(topic, partition, 100) for partition in range(PARTITIONS)]
        loaded = load(run, frames, produce_error_position(topic), seconds=2.0, connections=10, rate=RATE)
        figures["latency p50 beside 10,000 idle, us"] = loaded.latencies_us[0]
    delete_topic(run, topic)
    return figures


def _open(opened: ExitStack, port: int) -> None:
    """Open a group of connections and send ApiVersions on each, as a client does."""
    sockets = [opened.enter_context(socket.create_connection((HOST, port))) for _ in range(AT_ONCE)]
    for connection in sockets:
        connection.sendall(API_VERSIONS_V0)
    for connection in sockets:
        answer = connection.recv(65536)
        assert answer[8:10] == b"\0\0", "ApiVersions was rejected"
