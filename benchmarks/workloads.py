"""What is measured: each workload takes a running broker and gives figures by name."""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from benchmarks.brokers import Run
from compat_tests.harness.install import install
from compat_tests.harness.paths import CACHE
from compat_tests.harness.ports import HOST
from compat_tests.harness.reference import class_path
from kwire.protocol.codec import encode
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import Record, encode_batch

PARTITIONS = 6
CONNECTIONS = 20
SETTLE_SECONDS = 2.0
WARM_UP_SECONDS = 8.0
MEASURED_SECONDS = 5.0
TOPIC = "bench"
PRODUCE_VERSION = 7

Figures = Mapping[str, float]
Workload = Callable[[Run], Figures]


def start(run: Run) -> Figures:
    """Seconds from exec to the first answer of ApiVersions; megabytes when nothing happens."""
    time.sleep(SETTLE_SECONDS)
    return {"start to first answer, s": run.start_seconds, "memory idle, MB": run.resident_megabytes()}


def small_requests(run: Run) -> Figures:
    """Produce requests of one 100-byte record, acks=1, from 20 connections with one in flight each."""
    _make_topic(run, TOPIC)
    frames = run.directory / "frames"
    frames.write_bytes(b"".join(_produce_frame(TOPIC, partition) for partition in range(PARTITIONS)))
    # Response version 7: size, correlation id, topics, name, partitions, index; then the error code.
    error_position = 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4
    command = [str(_load_generator()), HOST, str(run.broker.port), str(CONNECTIONS)]
    last = [str(frames), str(error_position)]
    subprocess.run([*command, str(WARM_UP_SECONDS), *last], check=True, capture_output=True)
    before = run.cpu_seconds()
    output = subprocess.run([*command, str(MEASURED_SECONDS), *last], check=True, capture_output=True, text=True).stdout
    cpu = run.cpu_seconds() - before
    answers, seconds = (float(part) for part in output.split())
    return {"small requests/s": answers / seconds, "CPU s per million requests": cpu / answers * 1e6}


def perf(size: int, records: int) -> Workload:
    """ProducerPerformance and ConsumerPerformance with their defaults and acks=1."""

    def workload(run: Run) -> Figures:
        topic = f"perf-{size}"
        _make_topic(run, topic)
        _produce(run, topic, size, records // 5)
        before = run.cpu_seconds()
        rate = _produce(run, topic, size, records)
        produced = run.cpu_seconds()
        fetched = _consume(run, topic, records)
        consumed = run.cpu_seconds()
        gigabytes = size * records / 1e9
        return {
            f"produce {size} B, records/s": rate,
            f"consume {size} B, records/s": fetched,
            f"CPU s per GB in, {size} B": (produced - before) / gigabytes,
            f"CPU s per GB out, {size} B": (consumed - produced) / gigabytes,
        }

    return workload


def _produce(run: Run, topic: str, size: int, records: int) -> float:
    output = _tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", records, "--record-size", size, "--throughput", -1),
        *("--producer-props", f"bootstrap.servers={run.broker.bootstrap}", "acks=1"),
    )
    last = output.strip().splitlines()[-1]
    assert last.startswith(f"{records} records sent"), output
    return float(last.split(",")[1].split()[0])


def _consume(run: Run, topic: str, records: int) -> float:
    output = _tool(
        "ConsumerPerformance",
        *("--topic", topic, "--messages", records, "--bootstrap-server", run.broker.bootstrap),
        *("--timeout", 60000, "--hide-header"),
    )
    fields = [part.strip() for part in output.strip().splitlines()[-1].split(",")]
    assert int(fields[4]) >= records, output
    return float(fields[9])


def _tool(name: str, *arguments: object) -> str:
    command = ["java", "-Xmx512M", "-cp", class_path(), f"org.apache.kafka.tools.{name}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _make_topic(run: Run, topic: str) -> None:
    """Create a topic and wait until each of its partitions takes records."""
    admin = KafkaAdminClient(bootstrap_servers=run.broker.bootstrap)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=run.broker.bootstrap)
    for partition in range(PARTITIONS):
        producer.send(topic, b"first", partition=partition).get(30)
    producer.close()


def _produce_frame(topic: str, partition: int) -> bytes:
    batch = encode_batch([Record(value=b"x" * 100, timestamp=int(time.time() * 1000))])
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(acks=1, timeout_ms=30000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    body = bytearray(b"\0\0" + PRODUCE_VERSION.to_bytes(2, "big") + b"\0\0\0\1" + b"\0\4load")
    encode(request, PRODUCE_VERSION, body)
    return len(body).to_bytes(4, "big") + bytes(body)


def _load_generator() -> Path:
    source = Path(__file__).with_name("load.c")
    program = CACHE / "bench" / "load"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        install("cc")
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-Wall", "-o", str(program), str(source)], check=True)
    return program


ROWS: Mapping[str, Workload] = {
    "start": start,
    "small": small_requests,
    "perf-100": perf(100, 1_000_000),
    "perf-1000": perf(1000, 300_000),
}
