"""Rows of Spark: its source and sinks beside each other on both brokers. They need `.venv-spark` (make spark)."""

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Mapping

from benchmarks.brokers import COMPARED, Run
from benchmarks.cluster import ClusterRun
from benchmarks.rows.engine import Figures
from benchmarks.rows.perf import produce, tool
from benchmarks.topics import PARTITIONS, make_topic
from compat_tests.harness.paths import ROOT

ROWS = int(os.environ.get("SPARK_ROWS", "10000000"))
SIZE = 200
TOPIC = "spark"
REPETITIONS = 3


def spark(run: Run) -> Mapping[str, float]:
    """Measure rows per second and latency against one broker."""
    make_topic(run, TOPIC)
    produce(run, TOPIC, SIZE, ROWS, ("acks=1", "batch.size=131072", "linger.ms=5"))
    return figures(run.broker.bootstrap, "Spark")


def figures(bootstrap: str, prefix: str) -> Mapping[str, float]:
    """Return the figures of Spark against a cluster whose topic has the rows."""
    python = ROOT / ".venv-spark" / "bin" / "python"
    assert python.exists(), f"{python} is missing: run make spark"
    command = [str(python), "-m", "benchmarks.spark_work", bootstrap, TOPIC, prefix]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: Mapping[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def three_brokers() -> Figures:
    """Measure Spark's source on three brokers, alternately."""
    samples: Figures = defaultdict(lambda: defaultdict(list))
    for number in range(REPETITIONS):
        for name in COMPARED if number % 2 else reversed(COMPARED):
            with ClusterRun(name) as run:
                run.make_topic(TOPIC, PARTITIONS)
                run.await_in_sync(TOPIC, PARTITIONS)
                load = ("--num-records", ROWS, "--record-size", SIZE, "--throughput", -1)
                tool("ProducerPerformance", "--topic", TOPIC, *load, "--bootstrap-server", run.bootstrap)
                for figure, value in figures(run.bootstrap, "Spark from 3 brokers,").items():
                    samples[figure][name].append(value)
    return samples
