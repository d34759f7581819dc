"""The image, run by the testcontainers library, with clients outside the container."""

import os
import subprocess

import pytest
from confluent_kafka import Consumer, Producer
from proof.container import KwireContainer
from proof.image import docker

from compat_tests.harness.payloads import numbered
from compat_tests.harness.ports import free_ports
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_python.client import as_record, create_topic, producer, read_from, send_all

SECONDS = 60


@pytest.fixture(scope="module")
def kwire(image, run):
    assert os.environ["TESTCONTAINERS_RYUK_DISABLED"] == "true"
    with KwireContainer(image, {"num.partitions": "2"}, labels={"kwire.run": run}) as container:
        yield container


def name(container):
    return container.get_wrapped_container().name


def test_kafka_python_produces_and_consumes(kwire, topic):
    create_topic(kwire.bootstrap_server, topic)
    records = numbered(500)
    with producer(kwire.bootstrap_server) as client:
        send_all(client, topic, records)
    received = read_from(kwire.bootstrap_server, topic, len(records))
    assert [as_record(each) for each in received] == records


def test_confluent_kafka_produces_and_a_group_consumes(kwire, topic):
    sender = Producer({"bootstrap.servers": kwire.bootstrap_server, "acks": "all"})
    for number in range(500):
        sender.produce(topic, b"value %d" % number, key=b"k%d" % (number % 7))
    assert sender.flush(SECONDS) == 0
    settings = {"bootstrap.servers": kwire.bootstrap_server, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    received = []

    def all_are_there():
        received.extend(each.value() for each in consumer.consume(500, timeout=1.0) if each.error() is None)
        return len(received) >= 500

    try:
        eventually(all_are_there, "500 records", SECONDS)
    finally:
        consumer.close()
    assert sorted(received) == sorted(b"value %d" % number for number in range(500))


def test_settings_reach_the_broker(kwire, topic):
    with producer(kwire.bootstrap_server) as client:
        assert client.partitions_for(topic) == {0, 1}


def test_the_container_becomes_healthy(kwire):
    status = ("inspect", "--format", "{{.State.Health.Status}}", name(kwire))
    eventually(lambda: docker(*status) == "healthy", "the health check passes", SECONDS)


def test_the_broker_does_not_run_as_root(kwire):
    assert docker("exec", name(kwire), "id", "--user", "--name") == "kwire"
    assert docker("exec", name(kwire), "id", "--user") == "1000"
    assert docker("exec", name(kwire), "stat", "-c", "%U", "/var/lib/kwire/data/meta.properties") == "kwire"


def test_a_stopped_container_ends_cleanly(image, run, topic):
    with KwireContainer(image, labels={"kwire.run": run}) as kwire:
        with producer(kwire.bootstrap_server) as client:
            send_all(client, topic, numbered(10))
        docker("stop", "--time", "30", name(kwire))
        assert docker("inspect", "--format", "{{.State.ExitCode}}", name(kwire)) == "0"
        assert "kwire: stopped" in docker("logs", name(kwire))


def test_a_wrong_setting_is_one_line_and_a_status(image):
    command = ["docker", "run", "--rm", image, "--override", "num.partitions=none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "num.partitions" in line


def test_the_health_check_fails_without_a_broker(image):
    (port,) = free_ports(1)
    command = ["docker", "run", "--rm", "--entrypoint", "python3", image, "/opt/kwire/health.py", f"127.0.0.1:{port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no broker at" in done.stdout


def test_the_image_holds_the_package_and_no_signposts(image):
    listed = docker("run", "--rm", "--entrypoint", "kwire", image, "--version")
    assert listed.startswith("kwire")
    files = docker("run", "--rm", "--entrypoint", "find", image, "/opt/kwire", "-name", "log")
    assert [path.partition("/site-packages/")[2] for path in files.splitlines()] == ["kwire/log"]
