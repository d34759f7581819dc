"""Rows of Kafka's own ProducerPerformance and ConsumerPerformance."""

import itertools
import subprocess
from collections.abc import Mapping

from benchmarks.brokers import Run
from benchmarks.topics import delete_topic, make_topic
from compat_tests.harness.reference import class_path

BATCHING = {"": (), ", large batches": ("batch.size=131072", "linger.ms=5")}
"""The producer's defaults, and the values that its documentation recommends for throughput."""


def perf(size: int, records: int):
    """Measure records a second by acks, compression and batching, and the broker's CPU per gigabyte in and out."""

    def row(run: Run) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        warm = f"warm-{size}"
        make_topic(run, warm)
        produce(run, warm, size, records // 2, ())
        consume(run, warm, records // 2)
        delete_topic(run, warm)
        for acks, codec, (name, properties) in itertools.product(("1", "all"), ("none", "lz4"), BATCHING.items()):
            topic = f"perf-{size}-{acks}-{codec}-{len(properties)}"
            make_topic(run, topic)
            before = run.cpu_seconds()
            rate = produce(run, topic, size, records, (f"acks={acks}", f"compression.type={codec}", *properties))
            cpu = run.cpu_seconds() - before
            figures[f"produce {size} B, acks={acks}, {codec}{name}, records/s"] = rate
            if (acks, codec, name) == ("1", "none", ""):
                figures[f"CPU s per GB in, {size} B"] = cpu / (size * records / 1e9)
                before = run.cpu_seconds()
                figures[f"consume {size} B, records/s"] = consume(run, topic, records)
                figures[f"CPU s per GB out, {size} B"] = (run.cpu_seconds() - before) / (size * records / 1e9)
            delete_topic(run, topic)
        return figures

    return row


def produce(run: Run, topic: str, size: int, records: int, properties: tuple[str, ...], bootstrap: str = "") -> float:
    """Produce records with Kafka's ProducerPerformance; return records per second. `bootstrap` is another listener."""
    output = tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", records, "--record-size", size, "--throughput", -1),
        *("--bootstrap-server", bootstrap or run.broker.bootstrap),
        *(("--command-property", *properties) if properties else ()),
    )
    last = output.strip().splitlines()[-1]
    assert last.startswith(f"{records} records sent"), output
    return float(last.split(",")[1].split()[0])


def consume(run: Run, topic: str, records: int, properties: tuple[str, ...] = (), bootstrap: str = "") -> float:
    """Consume records with Kafka's ConsumerPerformance; return records per second."""
    output = tool(
        "ConsumerPerformance",
        *("--topic", topic, "--messages", records, "--bootstrap-server", bootstrap or run.broker.bootstrap),
        *("--timeout", 60000, "--hide-header"),
        *(each for value in properties for each in ("--command-property", value)),
    )
    fields = [part.strip() for part in output.strip().splitlines()[-1].split(",")]
    assert int(fields[4]) >= records, output
    return float(fields[9])


def tool(name: str, *arguments: object) -> str:
    """Return the output of one of Kafka's tools. Raises if it fails."""
    command = ["java", "-Xmx512M", "-cp", class_path(), f"org.apache.kafka.tools.{name}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
