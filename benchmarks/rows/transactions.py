"""Transactions of ten records each, by Kafka's own producer, which has an epoch for each of them (KIP-890)."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType

from benchmarks.brokers import Run
from benchmarks.topics import PARTITIONS, admin, delete_topic, make_topic
from compat_tests.harness.reference import class_path

TOPIC = "transactions"
STATE_TOPIC = "__transaction_state"
PROGRAM = Path(__file__).parents[1] / "Transactions.java"
PRODUCERS = (1, 20)
WARM_UP_SECONDS = 3.0
MEASURED_SECONDS = 4.0


def transactions(run: Run) -> Mapping[str, float]:
    """First as both ship, which is durable in kwire and not in Kafka; then durable in both."""
    make_topic(run, TOPIC)
    figures = {f"transactions/s, {count} producers, as shipped": _rate(run, count) for count in PRODUCERS}
    _flush_every_decision(run)
    figures |= {f"transactions/s, {count} producers, durable in both": _rate(run, count) for count in PRODUCERS}
    delete_topic(run, TOPIC)
    return figures


def _rate(run: Run, producers: int) -> float:
    command = ["java", "-Xmx512M", "-cp", class_path(), str(PROGRAM), run.broker.bootstrap, TOPIC, str(PARTITIONS)]
    command += [str(producers), str(WARM_UP_SECONDS), str(MEASURED_SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return float(done.stdout.split()[-1])


def _flush_every_decision(run: Run) -> None:
    with admin(run) as client:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, STATE_TOPIC, configs={"flush.messages": "1"})])
