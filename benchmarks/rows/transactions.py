"""Transactions of ten records each from Kafka's own producer, which bumps its epoch for each of them (KIP-890)."""

import subprocess
from collections import defaultdict
from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType

from benchmarks.brokers import COMPARED, Run
from benchmarks.rows.engine import Figures
from benchmarks.topics import PARTITIONS, admin, make_topic
from compat_tests.harness.reference import class_path

TOPIC = "transactions"
STATE_TOPIC = "__transaction_state"
PROGRAM = Path(__file__).parents[1] / "Transactions.java"
PRODUCERS = (1, 20)
WARM_UP_SECONDS = 2.0
MEASURED_SECONDS = 3.0
REPETITIONS = 2
ATTEMPTS_MAX = 5
SENT_TOO_LATE = 3
"""Exit status of the program when its producer requests a commit before it has sent the records."""


def transactions() -> Figures:
    """Measure both with their default durability (kwire flushes, Kafka does not), then with both flushing."""
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in COMPARED:
        with Run(name) as run:
            make_topic(run, TOPIC)
            for count in PRODUCERS:
                figures[f"transactions/s, {count} producers, as shipped"][name].append(_rate(run, count))
            _flush_every_decision(run)
            for count in PRODUCERS * REPETITIONS:
                figures[f"transactions/s, {count} producers, durable in both"][name].append(_rate(run, count))
    return figures


def _rate(run: Run, producers: int) -> float:
    command = ["java", "-Xmx512M", "-cp", class_path(), str(PROGRAM), run.broker.bootstrap, TOPIC, str(PARTITIONS)]
    command += [str(producers), str(WARM_UP_SECONDS), str(MEASURED_SECONDS)]
    for _ in range(ATTEMPTS_MAX):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != SENT_TOO_LATE:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    return float(done.stdout.split()[-1])


def _flush_every_decision(run: Run) -> None:
    with admin(run) as client:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, STATE_TOPIC, configs={"flush.messages": "1"})])
