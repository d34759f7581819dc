"""The Compose file of three brokers: one is killed and restarted, all are stopped, and Spark reads from them."""

import json
import subprocess
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from proof.compose import Project
from proof.consuming import consumed_values
from proof.image import docker

from compat_tests.harness.ports import free_ports
from compat_tests.harness.waiting import eventually

SECONDS = 90
BROKERS = ("broker-1", "broker-2", "broker-3")
NETWORK = ",".join(f"{name}:19092" for name in BROKERS)
EVENTS = 400
BAD_EVENTS = 4


class ComposedCluster:
    """Compose project on free ports of the host."""

    def __init__(self, image, spark_image, project):
        ports = free_ports(3)
        self.bootstrap = ",".join(f"localhost:{port}" for port in ports)
        names = {f"KWIRE_PORT_{number + 1}": str(port) for number, port in enumerate(ports)}
        self.call = Project("cluster.yaml", project, KWIRE_IMAGE=image, SPARK_IMAGE=spark_image, **names)

    def container(self, broker):
        return self.call("ps", "--quiet", broker).split()[0]

    def status(self, asked="broker-1"):
        """Return the status that kwire reports for its cluster; None if no broker answers."""
        command = ["docker", "exec", self.container(asked), "kwire", "cluster", "status", "--format", "json"]
        done = subprocess.run([*command, "--bootstrap-server", NETWORK], capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.stdout else None

    def watermarks(self, topic, partition):
        """Return the partition's first and end offsets."""
        client = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused"})
        try:
            return client.get_watermark_offsets(TopicPartition(topic, partition), timeout=SECONDS)
        finally:
            client.close()

    def await_health(self):
        eventually(lambda: (self.status() or {}).get("healthy"), "the cluster is healthy", SECONDS)


@pytest.fixture(scope="module")
def cluster(image, spark_image, run):
    composed = ComposedCluster(image, spark_image, run)
    try:
        composed.call("up", "--detach", "--no-build")
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
    cluster.call("stop")
    assert {docker("inspect", "--format", "{{.State.ExitCode}}", cluster.container(name)) for name in BROKERS} == {"0"}
    cluster.call("start")
    cluster.await_health()
    produce(cluster, replicated, 300, 400)
    assert consume(cluster, replicated, 400) == list(range(400))


def test_the_spark_job_counts_events_and_rejects_bad_ones(cluster):
    create(cluster, *(NewTopic(name, 2, 3) for name in ("events", "counts", "events-dead-letters")))
    sample = ("spark_jobs.sample_events", f"--bootstrap={NETWORK}", "--topic=events", f"--count={EVENTS}")
    cluster.call("run", "--rm", "spark", *sample)
    cluster.call("run", "--rm", "spark")
    assert len(values(cluster, "events-dead-letters", BAD_EVENTS)) == BAD_EVENTS
    stored = sum(cluster.watermarks("counts", partition)[1] for partition in (0, 1))
    counts = [json.loads(each)["count"] for each in values(cluster, "counts", stored)]
    # Not in the output: windows that the watermark has not passed, and events that came too late.
    assert EVENTS // 2 < sum(counts) <= EVENTS - BAD_EVENTS
