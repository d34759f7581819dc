"""Cost against the number of idle connections: other clients' requests, one more connection, memory."""

import socket
import time
from contextlib import ExitStack

from benchmarks.brokers import Run
from benchmarks.growth.probes import GrowthRun, at_rest, make_used, produce_and_fetch, repeated, settle
from benchmarks.rows.connections import API_VERSIONS_V0, AT_ONCE
from benchmarks.rows.small import warm_up
from compat_tests.harness.ports import HOST

OPENED = 20
"""Connections that are opened in a window."""


def measure(name: str, size: int) -> dict[str, float]:
    """Measure a broker with `size` connections, each of which sent ApiVersions once and is then idle."""
    with GrowthRun(name) as run, ExitStack() as stack:
        make_used(run)
        if name == "kafka":
            warm_up(run)
        started = time.perf_counter()
        for first in range(0, size, AT_ONCE):
            _open(stack, run.broker.port, min(AT_ONCE, size - first))
        figures = {"all connections opened, s": time.perf_counter() - started}
        settle(run)
        return figures | at_rest(run) | produce_and_fetch(run) | _one_more(run)


def _open(stack: ExitStack, port: int, count: int) -> None:
    """Open connections in groups that fit Kafka's listen backlog, and send ApiVersions on each."""
    sockets = [stack.enter_context(socket.create_connection((HOST, port))) for _ in range(count)]
    for connection in sockets:
        connection.sendall(API_VERSIONS_V0)
    for connection in sockets:
        answer = connection.recv(65536)
        assert answer[8:10] == b"\0\0", "ApiVersions was rejected"


def _one_more(run: Run) -> dict[str, float]:
    """Measure opening a connection, sending ApiVersions and closing it."""

    def once(_: int) -> None:
        with ExitStack() as stack:
            _open(stack, run.broker.port, 1)

    cpu, taken = repeated(run, once, OPENED)
    return {"one more connection CPU, us": cpu * 1e6, "one more connection, us": taken * 1e6}
