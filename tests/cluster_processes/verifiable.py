"""Kafka's VerifiableProducer and VerifiableConsumer on a topic, and a comparison of their events with its records."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compat_tests.harness.reference import class_path
from tests.support.waiting import eventually

JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xlog:disable", "-Dlog4j2.level=OFF")
MAIN = "org.apache.kafka.tools."
THROUGHPUT = 40
CATCH_UP_SECONDS = 40.0
STOP_SECONDS = 40.0
COMMON = {"reconnect.backoff.max.ms": "200", "metadata.max.age.ms": "2000", "request.timeout.ms": "3000"}
PRODUCER = {**COMMON, "delivery.timeout.ms": "60000", "enable.idempotence": "true", "retries": "2147483647"}
CONSUMER = {**COMMON, "default.api.timeout.ms": "60000", "session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
Place = tuple[int, int]
"""(partition, offset)."""


@dataclass(slots=True)
class Program:
    """Process of one of the two, and the file with its events."""

    output: Path
    process: subprocess.Popen[bytes]

    def events(self) -> Iterator[dict[str, Any]]:
        for line in self.output.read_text(errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}"):
                yield json.loads(line)

    def stop(self) -> bool:
        """Stop the program; return True if it ended cleanly."""
        if self.process.poll() is not None:
            return False
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_SECONDS)


def start(
    tool: str, directory: Path, within: list[str], bootstrap_servers: str, topic: str, *, throughput: int = THROUGHPUT
) -> Program:
    """Start "VerifiableProducer" or "VerifiableConsumer"; the command `within` precedes its own."""
    name = tool.lower()
    settings = PRODUCER if tool == "VerifiableProducer" else CONSUMER
    properties = directory / f"{name}.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    arguments = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--command-config", str(properties)]
    if tool == "VerifiableProducer":
        arguments += ["--throughput", str(throughput), "--repeating-keys", "17"]
    else:
        arguments += ["--group-id", f"{topic}-readers", "--verbose", "--reset-policy", "earliest"]
    output = directory / f"{name}.out"
    with output.open("ab") as sink:
        command = [*within, "java", *JVM, "-cp", class_path(), MAIN + tool, *arguments]
        return Program(output, subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL))


@dataclass(slots=True)
class Verified:
    """Events of both programs."""

    acknowledged: dict[Place, str] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)
    consumed: list[tuple[Place, str]] = field(default_factory=list)


def reported(producer: Program, consumer: Program) -> Verified:
    found = Verified()
    for event in producer.events():
        if event["name"] == "producer_send_success":
            found.acknowledged[event["partition"], event["offset"]] = event["value"]
        elif event["name"] == "producer_send_error":
            found.rejected[event["exception"]] += 1
    for event in consumer.events():
        if event["name"] == "record_data":
            found.consumed.append(((event["partition"], event["offset"]), event["value"]))
    return found


def await_consumed(producer: Program, consumer: Program) -> Verified:
    """Wait until the consumer has read all acknowledged records, or for a limited time; return the events."""

    def is_consumed() -> bool:
        found = reported(producer, consumer)
        return found.acknowledged.keys() <= {place for place, _ in found.consumed}

    with suppress(AssertionError):  # `judge` reports missing records
        eventually(is_consumed, "all is consumed", CATCH_UP_SECONDS)
    return reported(producer, consumer)


def judge(found: Verified, stored: dict[Place, str]) -> list[str]:
    """Return violations of Kafka's rule and more: acknowledged records exist and are consumed, without duplicates."""
    problems = [
        f"verifiable: {value} was acknowledged at {place}, where {stored.get(place)} is"
        for place, value in found.acknowledged.items()
        if stored.get(place) != value
    ]
    problems += [
        f"verifiable: {value} was consumed at {place}, where {stored.get(place)} is"
        for place, value in found.consumed
        if stored.get(place) != value
    ]
    problems += [f"verifiable: {value} is there {n} times" for value, n in Counter(stored.values()).items() if n > 1]
    missing = found.acknowledged.keys() - {place for place, _ in found.consumed}
    if missing:
        problems.append(f"verifiable: {len(missing)} acknowledged records were not consumed, as {min(missing)}")
    return problems
