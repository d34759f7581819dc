"""The pipeline by spark-submit on a standalone cluster of two workers, against three brokers, while machines end."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from itertools import islice

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.harness.paths import ROOT
from compat_tests.harness.process import REPLICATED
from compat_tests.harness.waiting import eventually
from spark_jobs.pipeline.config import Config, Tables
from spark_jobs.pipeline.device_events import device_events
from spark_jobs.tests.checks import EVENTS, NOON, RATE, bad_values, check, expected_windows, send
from spark_jobs.tests.standalone import SETTINGS, StandaloneCluster
from spark_jobs.tests.support import SECONDS, read_committed

COUNT, PART = 3000, 500
PROCESSED_SECONDS = 300.0
TOPIC = {"retention.ms": "-1", "min.insync.replicas": "2"}
CONF = {
    **SETTINGS,
    "spark.executor.cores": "1",
    "spark.driver.memory": "768m",
    "spark.pyspark.python": sys.executable,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@pytest.fixture
def brokers(request, tmp_path):
    settings = {**REPLICATED, "default.replication.factor": "3"}
    cluster = Cluster(request.config.getoption("--broker"), tmp_path / "brokers", SHAPES["combined"], **settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def workers(tmp_path):
    cluster = StandaloneCluster(tmp_path / "spark", workers=2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def config(brokers, tmp_path):
    config = Config(
        bootstrap=brokers.bootstrap,
        input="events",
        checkpoint=str(tmp_path / "checkpoint"),
        tables=Tables(path=str(tmp_path / "tables"), format="parquet"),
        trigger="1 second",
        events=EVENTS,
        slots=2,
        queries=["raw", "cleaned", "counts", "dead_letters"],
    )
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    topics = [NewTopic(name, 2, 3, config=TOPIC) for name in (config.input, config.output, config.dead_letters)]
    for made in admin.create_topics(topics).values():
        made.result(SECONDS)
    return config


def as_toml(config):
    names = ("bootstrap", "input", "checkpoint", "trigger", "slots", "queries")
    lines = [f"{name} = {json.dumps(getattr(config, name))}" for name in names]
    for section in ("tables", "events"):
        values = getattr(config, section)
        lines += [f"[{section}]", *(f"{name} = {json.dumps(getattr(values, name))}" for name in values.__slots__)]
    return "\n".join(lines)


@contextmanager
def submitted(config, workers, directory):
    """Run the pipeline by spark-submit. Its Python files come from the archive: no path leads to the sources."""
    (directory / "pipeline.toml").write_text(as_toml(config))
    conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
    command = [sys.executable, "-m", "spark_jobs.submit", "--master", workers.url, "--format", "parquet", *conf]
    with (directory / "driver.txt").open("ab") as output:
        process = subprocess.Popen(
            [*command, "--", "run", "--config", str(directory / "pipeline.toml")],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)


class Progress:
    """Tables and topics of a running pipeline, and how far they are."""

    def __init__(self, config, process, say):
        self.config, self.process, self.say = config, process, say

    def await_raw(self, count):
        self._await(lambda: self._raw() == count, f"table raw has {count} rows")

    def await_topics(self, events):
        windows, bad = len(expected_windows(events)), bad_values(events).total()
        self._await(lambda: self._records(self.config.output) == windows, f"{windows} windows are in the topic")
        self._await(lambda: self._records(self.config.dead_letters) == bad, f"{bad} dead letters are in the topic")

    def _await(self, condition, what):
        try:
            eventually(lambda: self.process.poll() is not None or condition(), what, PROCESSED_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.say()}") from error
        assert self.process.poll() is None, self.say()

    def _raw(self):
        files = (ROOT / self.config.tables.path / "raw").glob("query=*/batch=*/*.parquet")
        return sum(pq.read_metadata(each).num_rows for each in files)

    def _records(self, topic):
        return len(read_committed(self.config.bootstrap, topic))


def test_the_pipeline_outlives_a_worker_and_a_broker(spark, brokers, workers, config, tmp_path):
    events = list(islice(device_events(7, start=NOON, per_second=RATE, devices=5), COUNT))
    parts = iter(range(0, COUNT, PART))

    def send_part():
        first = next(parts)
        send(config.bootstrap, config.input, events[first : first + PART], first)
        return first + PART

    def say():
        return (tmp_path / "driver.txt").read_text(errors="replace")[-6000:] + workers.output()

    with submitted(config, workers, tmp_path) as process:
        progress = Progress(config, process, say)
        progress.await_raw(send_part())
        workers.await_executors(2)
        send_part()
        workers.kill_worker(1)
        progress.await_raw(send_part())
        workers.start_worker(1)
        workers.await_executors(2)
        send_part()
        brokers[2].end(signal.SIGKILL)
        progress.await_raw(send_part())
        brokers[2].start()
        brokers.await_brokers()
        progress.await_raw(send_part())
        progress.await_topics(events)
    assert process.returncode == 0, say()
    assert "INFO stopped" in (tmp_path / "driver.txt").read_text()
    check(spark, config, events)
