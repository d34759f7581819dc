"""The Compose file: its broker keeps its data over stops, kills and a new container."""

import pytest
from proof.compose import Project
from proof.image import docker

from compat_tests.harness.payloads import numbered
from compat_tests.harness.ports import free_ports
from compat_tests.harness.readiness import is_ready
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_python.client import as_record, create_topic, producer, read_from, send_all

SECONDS = 60


class Composed:
    """Compose project on a free port of the host."""

    def __init__(self, image, project):
        (self.port,) = free_ports(1)
        self.bootstrap = f"localhost:{self.port}"
        self.project = project
        self.call = Project("compose.yaml", project, KWIRE_IMAGE=image, KWIRE_PORT=str(self.port))

    def __call__(self, *arguments):
        self.call(*arguments)

    def wait(self):
        eventually(lambda: is_ready(("localhost", self.port)), "the broker answers", SECONDS)

    def up(self):
        self("up", "--detach", "--no-build")
        self.wait()


@pytest.fixture
def composed(image, run):
    project = Composed(image, run)
    try:
        project.up()
        yield project
    finally:
        project("down", "--volumes", "--timeout", "5")


def send(composed, topic, records):
    with producer(composed.bootstrap) as client:
        send_all(client, topic, records)


def held(composed, topic, count):
    return [as_record(each) for each in read_from(composed.bootstrap, topic, count)]


def test_data_outlives_stop_kill_and_a_new_container(composed, topic):
    records = numbered(400)
    create_topic(composed.bootstrap, topic)
    send(composed, topic, records[:100])
    assert held(composed, topic, 100) == records[:100]

    composed("stop")
    composed("start")
    composed.wait()
    assert held(composed, topic, 100) == records[:100]
    send(composed, topic, records[100:200])

    composed("kill", "-s", "KILL")
    composed("start")
    composed.wait()
    assert held(composed, topic, 200) == records[:200]
    send(composed, topic, records[200:300])

    composed("down")
    composed.up()
    assert held(composed, topic, 300) == records[:300]
    send(composed, topic, records[300:])
    assert held(composed, topic, 400) == records


def test_other_containers_get_an_address_of_their_network(composed, image):
    ask = ("--entrypoint", "python3", image, "/opt/kwire/health.py")
    network = ("run", "--rm", "--network", f"{composed.project}_default")
    assert docker(*network, *ask, "kwire:19092") == "kwire:19092"
    assert docker(*network, *ask, "kwire:9092") == f"localhost:{composed.port}"
