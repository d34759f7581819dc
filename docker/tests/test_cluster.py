"""The Compose file of three brokers: one is killed and restarted, all are stopped, and the Spark pipeline runs."""

import json
import subprocess
import uuid
from datetime import UTC, datetime
from itertools import islice

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from proof.compose import Project
from proof.consuming import consumed_values
from proof.image import docker

from compat_tests.harness.ports import free_ports
from compat_tests.harness.waiting import eventually
from spark_jobs.pipeline.device_events import Kind, device_events

SECONDS = 90
BROKERS = ("broker-1", "broker-2", "broker-3")
NETWORK = ",".join(f"{name}:19092" for name in BROKERS)
PIPELINE_SECONDS = 240
EVENTS = 1000
SEEDS = (1, 2)
CONFIG = ("--config", "/etc/kwire/pipeline.toml")
SPARK_SERVICES = {"pipeline": ["pipeline"], "driver": ["spark-master", "spark-worker-1", "spark-worker-2", "driver"]}
"""Services of the pipeline by its driver; both have the same checkpoint."""
RAW_ROWS = """
import json, pathlib
found = [json.loads(line) for path in pathlib.Path("tables/raw/_delta_log").glob("*.json") for line in path.open()]
print(sum(json.loads(each["add"]["stats"])["numRecords"] for each in found if "add" in each))
"""


class ComposedCluster:
    """Compose project on free ports of the host."""

    def __init__(self, image, spark_image, project):
        ports = free_ports(3)
        self.bootstrap = ",".join(f"localhost:{port}" for port in ports)
        names = {f"KWIRE_PORT_{number + 1}": str(port) for number, port in enumerate(ports)}
        self.bad_events = 0
        """Dead letters that are expected so far."""
        names |= {"KWIRE_IMAGE": image, "SPARK_IMAGE": spark_image, "COMPOSE_PROFILES": "spark,standalone"}
        self.call = Project("cluster.yaml", project, **names)

    def container(self, service):
        return self.call("ps", "--quiet", service).split()[0]

    def await_driver(self, service):
        """Wait until every query of the pipeline is active."""
        state = ("inspect", "--format", "{{.State.Health.Status}}", self.container(service))
        eventually(lambda: docker(*state) == "healthy", f"{service} is healthy", PIPELINE_SECONDS)

    def raw_rows(self, service):
        """Return the rows of the table raw, according to its log."""
        return int(self.call("exec", "-T", service, "python", "-c", RAW_ROWS))

    def status(self, asked="broker-1"):
        """Return the status that kwire reports for its cluster; None if no broker answers."""
        command = ["docker", "exec", self.container(asked), "kwire", "cluster", "status", "--format", "json"]
        done = subprocess.run([*command, "--bootstrap-server", NETWORK], capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.stdout else None

    def await_health(self):
        eventually(lambda: (self.status() or {}).get("healthy"), "the cluster is healthy", SECONDS)


@pytest.fixture(scope="module")
def cluster(image, spark_image, run):
    composed = ComposedCluster(image, spark_image, run)
    try:
        composed.call("up", "--detach", "--no-build", *BROKERS)
        composed.await_health()
        yield composed
    finally:
        composed.call("down", "--volumes", "--timeout", "5")


def create(cluster, *topics):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics(list(topics)).values():
        made.result(SECONDS)


@pytest.fixture
def replicated(cluster, topic):
    create(cluster, NewTopic(topic, 3, 3))
    return topic


def produce(cluster, topic, first, last):
    errors = []
    client = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(first, last):
        client.produce(topic, b"%d" % number, on_delivery=lambda error, _: errors.append(error))
    assert client.flush(SECONDS) == 0
    assert errors == [None] * (last - first)


def values(cluster, topic, count):
    """Return at least `count` values, read as the member of a new group."""
    group = f"{topic}-{uuid.uuid4().hex[:8]}"
    return consumed_values({"bootstrap.servers": cluster.bootstrap}, topic, group, count, SECONDS)


def consume(cluster, topic, count):
    return sorted(map(int, values(cluster, topic, count)))


def test_a_broker_is_killed_and_comes_back(cluster, replicated):
    produce(cluster, replicated, 0, 500)
    docker("kill", "--signal", "KILL", cluster.container("broker-2"))
    produce(cluster, replicated, 500, 1000)
    assert consume(cluster, replicated, 1000) == list(range(1000))
    eventually(lambda: _missing(cluster) == {2}, "it is missed", SECONDS)
    cluster.call("start", "broker-2")
    cluster.await_health()
    assert consume(cluster, replicated, 1000) == list(range(1000))


def _missing(cluster):
    return {node for each in cluster.status()["unhealthy_partitions"] for node in each["missing"]}


def test_all_brokers_stop_cleanly_and_keep_their_data(cluster, replicated):
    produce(cluster, replicated, 0, 300)
    cluster.call("stop", *BROKERS)
    assert {docker("inspect", "--format", "{{.State.ExitCode}}", cluster.container(name)) for name in BROKERS} == {"0"}
    cluster.call("start", *BROKERS)
    cluster.await_health()
    produce(cluster, replicated, 300, 400)
    assert consume(cluster, replicated, 400) == list(range(400))


@pytest.mark.parametrize("driver", ["pipeline", "driver"])
def test_the_pipeline_processes_each_event_once_over_the_kill_of_its_driver(cluster, driver):
    services = SPARK_SERVICES[driver]
    cluster.call("up", "--detach", "--no-build", *services)
    try:
        cluster.await_driver(driver)
        rows, letters = cluster.raw_rows(driver), cluster.bad_events
        for seed in SEEDS:
            generate = ("spark_jobs.pipeline", "generate", *CONFIG, f"--seed={seed}", f"--count={EVENTS}")
            cluster.call("run", "--rm", "topics", *generate, "--rate=10000")
            if seed == SEEDS[0]:
                cluster.call("exec", "-T", driver, "pkill", "-KILL", "-f", "spark_jobs")
            letters += sum(each.kind is Kind.DEAD_LETTER for each in sent(seed))
        rows += EVENTS * len(SEEDS)
        eventually(lambda: cluster.raw_rows(driver) == rows, f"table raw has {rows} rows", PIPELINE_SECONDS)
        assert len(values(cluster, "events-dead-letters", letters)) == letters
        cluster.bad_events = letters
        cluster.await_driver(driver)
    finally:
        cluster.call("stop", *services)


def sent(seed):
    """Return the events that the generator sends."""
    return islice(device_events(seed, start=datetime.now(UTC), per_second=1.0), EVENTS)
