"""Rows of three brokers: start, replicated produce with acks=all, takeover after a leader's death, many partitions."""

import re
import statistics
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.brokers import COMPARED
from benchmarks.cluster import SECONDS_MAX, ClusterNode, ClusterRun
from benchmarks.frames import produce_error_position, produce_frame
from benchmarks.load import load
from benchmarks.rows.engine import Figures
from benchmarks.rows.perf import tool
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw_client import RawClient
from tests.support.requests import batch, produce_request

REPETITIONS = 3
SETTLE_SECONDS = 3.0
PARTITIONS = 6
RECORDS = {100: 200_000, 1000: 60_000}
BATCHING = {"": (), ", large batches": ("batch.size=131072", "linger.ms=5")}
LATENCY_RATE = 500
LATENCY_SECONDS = 5.0
MANY = 3000
SESSION_MS = 2000
HEARTBEAT_MS = 500
TAKEOVERS = 6
"""Takeovers of a short run."""
PRODUCE_VERSION = 11


def _samples() -> dict[str, dict[str, list[float]]]:
    return defaultdict(lambda: defaultdict(list))


def cluster() -> Figures:
    """Measure the seconds until three nodes form a cluster, their memory, and acks=all produce to three replicas."""
    figures = _samples()
    for number in range(REPETITIONS):
        for name in COMPARED if number % 2 else reversed(COMPARED):
            with ClusterRun(name) as run:
                time.sleep(SETTLE_SECONDS)
                figures["cluster of 3 started, s"][name].append(run.start_seconds)
                figures["cluster of 3, memory idle, MB"][name].append(run.resident_megabytes())
                for figure, value in _produce(run).items():
                    figures[figure][name].append(value)
                figures["cluster of 3, memory after load, MB"][name].append(run.resident_megabytes())
    return figures


def _produce(run: ClusterRun) -> dict[str, float]:
    found: dict[str, float] = {}
    run.make_topic("warm", PARTITIONS)
    run.await_in_sync("warm", PARTITIONS)
    _rate(run, "warm", 100, RECORDS[100], ())
    for size, records in RECORDS.items():
        for batching, properties in BATCHING.items():
            topic = f"produce-{size}-{len(properties)}"
            run.make_topic(topic, PARTITIONS)
            run.await_in_sync(topic, PARTITIONS)
            before = run.cpu_seconds()
            found[f"replicated produce {size} B{batching}, records/s"] = _rate(run, topic, size, records, properties)
            if not properties:
                gigabytes = size * records / 1e9
                found[f"replicated CPU s per GB in, {size} B"] = (run.cpu_seconds() - before) / gigabytes
    return found | _latency(run)


def _rate(run: ClusterRun, topic: str, size: int, records: int, properties: tuple[str, ...]) -> float:
    output = tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", records, "--record-size", size, "--throughput", -1),
        *("--bootstrap-server", run.bootstrap, "--command-property", "acks=all", *properties),
    )
    last = output.strip().splitlines()[-1]
    found = re.match(rf"{records} records sent, ([0-9.]+) records/sec", last)
    assert found, output
    return float(found[1])


def _latency(run: ClusterRun) -> dict[str, float]:
    """Measure single records to partitions that node 1 leads, far below its capacity, timed from when they were due."""
    run.make_topic("latency", PARTITIONS, led_by=1)
    run.await_in_sync("latency", PARTITIONS)
    for partition in range(PARTITIONS):  # the leader may receive the topic's metadata after the node that created it
        while not _takes_a_record(run.nodes[0], "latency", partition):
            pass
    frames = [produce_frame("latency", partition, 100, acks=-1) for partition in range(PARTITIONS)]
    position = produce_error_position("latency")
    for seconds in (2.0, LATENCY_SECONDS):
        loaded = load(run, frames, position, seconds=seconds, connections=10, rate=LATENCY_RATE)  # type: ignore[arg-type]
    p50, p99, _ = loaded.latencies_us
    return {"replicated latency p50 at 500/s, us": p50, "replicated latency p99 at 500/s, us": p99}


def takeovers(count: int = TAKEOVERS) -> Figures:
    """Time kill -9 of a leader to its successor's first acknowledged record; includes the broker session timeout."""
    figures = _samples()
    for name in COMPARED:
        settings = {"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": str(HEARTBEAT_MS)}
        with ClusterRun(name, **settings) as run:
            run.make_topic("taken-over")
            run.await_in_sync("taken-over")
            gaps = [_takeover(run) for _ in range(count)]
        p99 = statistics.quantiles(gaps, n=100, method="inclusive")[98]
        for figure, value in {"p50": statistics.median(gaps), "p99": p99}.items():
            figures[f"takeover {figure}, s"][name].append(value)
            # The last heartbeat may be one interval old, so the session cannot end earlier than this.
            known_least = (SESSION_MS - HEARTBEAT_MS) / 1000
            figures[f"takeover {figure} without the session, s"][name].append(value - known_least)
    return figures


def _takeover(run: ClusterRun) -> float:
    gone = run.leader("taken-over")
    others = [node for node in run.nodes if node is not gone]
    run.kill(gone)
    killed = time.perf_counter()
    while not any(_takes_a_record(node, "taken-over") for node in others):
        assert time.perf_counter() - killed < 60, "no broker takes over"
    gap = time.perf_counter() - killed
    run.start(gone)
    run.await_in_sync("taken-over")
    return gap


def _takes_a_record(node: ClusterNode, topic: str, partition: int = 0) -> bool:
    """Return True if a node leads the partition and its followers acknowledge a record."""
    with RawClient(node.bootstrap) as client:
        answer = client.ask(produce_request(topic, batch(b"record"), partition=partition), PRODUCE_VERSION)
    code: int = answer.responses[0].partition_responses[0].error_code
    time.sleep(0.005)
    return code == ErrorCode.NONE


def thirty_takeovers() -> Figures:
    """Measure 30 takeovers, which is enough for percentiles."""
    return takeovers(30)


def many_partitions() -> Figures:
    """Measure 3,000 partitions with three replicas each.

    The times: until all nodes show them, until each replica has a record, and until all are in sync again after a
    kill -9 of one node.
    """
    figures = _samples()
    for name in COMPARED:
        with ClusterRun(name) as run:
            began = time.perf_counter()
            run.make_topic("wide", MANY)
            run.await_in_sync("wide", MANY)
            figures["3,000 partitions of 3 replicas made, s"][name].append(time.perf_counter() - began)
            with ThreadPoolExecutor() as pool:
                list(pool.map(partial(_write_to_all, run, "wide"), run.nodes))
            figures["3,000 partitions made, each with a record, s"][name].append(time.perf_counter() - began)
            lost = run.nodes[-1]
            run.kill(lost)
            for node in run.nodes[:-1]:
                _await_lost(run, node)
            began = time.perf_counter()
            run.start(lost)
            run.await_in_sync("wide", MANY)
            figures["3,000 partitions in sync again after a restart, s"][name].append(time.perf_counter() - began)
            figures["3,000 partitions of 3 replicas, memory, MB"][name].append(run.resident_megabytes())
    return figures


def _write_to_all(run: ClusterRun, topic: str, node: ClusterNode) -> None:
    """Write a record, acknowledged by all replicas, to each partition that the node leads."""
    found = run.described(topic, node).partitions
    left = [each.partition_index for each in found if each.leader_id == node.node_id]
    with RawClient(node.bootstrap) as client:
        client.socket.settimeout(SECONDS_MAX)
        while left:
            wanted = [PartitionProduceData(index=index, records=batch(b"record")) for index in left]
            topic_data = [TopicProduceData(name=topic, partition_data=wanted)]
            request = ProduceRequest(acks=-1, timeout_ms=int(SECONDS_MAX * 1000), topic_data=topic_data)
            (answer,) = client.ask(request, PRODUCE_VERSION).responses
            left = [each.index for each in answer.partition_responses if each.error_code != ErrorCode.NONE]
            time.sleep(0.005)


def three_brokers() -> Figures:
    """Measure all of it, for the page."""
    return {**cluster(), **thirty_takeovers(), **many_partitions()}


def _await_lost(run: ClusterRun, node: ClusterNode) -> None:
    deadline = time.perf_counter() + 60
    while any(len(each.isr_nodes) == len(run.nodes) for each in run.described("wide", node).partitions):
        assert time.perf_counter() < deadline, "the dead node stays in sync"
        time.sleep(0.1)
