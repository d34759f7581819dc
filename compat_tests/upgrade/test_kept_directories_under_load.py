"""A broker of each earlier stage, at work on its own directory, becomes today's and then one of two, under load."""

import json
import signal
import tarfile

import pytest
from confluent_kafka.admin import NewTopic

from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.harness.paths import ROOT
from compat_tests.harness.ports import free_ports
from compat_tests.harness.process import SETTINGS
from compat_tests.harness.readiness import is_ready
from compat_tests.harness.waiting import eventually
from compat_tests.quorum.nodes import Node
from compat_tests.upgrade.earlier import unpack_sources
from compat_tests.upgrade.loads import PARTITIONS, Confluent, Load
from compat_tests.upgrade.rolling import at_work, await_health, place
from kwire.cluster.directory import load_meta_properties
from kwire.log.disk import RealDisk

KEPT = ROOT / "tests" / "upgrade" / "kept"
NAMES = sorted(path.stem for path in KEPT.glob("*.json"))
EARLIER_SETTINGS = {"listeners", "log.dirs", "node.id", *SETTINGS}
"""A broker of the first stages knows no others."""


class OneByOne(Node):
    """A node that serves as soon as it is started."""

    def start(self):
        super().start()
        eventually(self._answers, f"{self.bootstrap} answers")

    def _answers(self):
        assert self.process.poll() is None, self.output()[-4000:]
        host, _, port = self.bootstrap.rpartition(":")
        return is_ready((host, int(port)))


class Upgraded:
    """A broker on a kept directory, first of that stage and then today's, and a broker that joins it."""

    def __init__(self, name, directory):
        written = json.loads((KEPT / f"{name}.json").read_text())
        self.values = written["values"]
        self._sources = unpack_sources(written["commit"], directory / "earlier")
        self.nodes = [self._node(directory, 1, "broker,controller"), self._node(directory, 2, "broker")]
        for node in self.nodes:
            node.write(self.nodes[0].address)
        with tarfile.open(KEPT / f"{name}.tar.xz") as archive:
            archive.extractall(self.nodes[0].home, filter="data")

    @staticmethod
    def _node(directory, node_id, roles):
        port, client_port = free_ports(2)
        return OneByOne("kwire", node_id, roles, directory / str(node_id), port, client_port, settings=dict(SETTINGS))

    @property
    def bootstrap(self):
        return self.nodes[0].bootstrap

    def start_earlier(self):
        node = self.nodes[0]
        whole = node.properties.read_text()
        kept = [line for line in whole.splitlines() if line.partition("=")[0] in EARLIER_SETTINGS]
        alone = [line.partition(",CONTROLLER:")[0] for line in kept]
        node.properties.write_text("\n".join(alone) + "\n")
        node.sources = self._sources
        node.start()
        node.properties.write_text(whole)

    def become_todays(self):
        node = self.nodes[0]
        node.end(signal.SIGTERM)
        node.sources = None
        node.start()

    def join(self):
        meta = load_meta_properties(RealDisk(), str(self.nodes[0].home / "data"))
        self.nodes[1].format(cluster_id=meta.cluster_id)
        self.nodes[1].start()

    def end(self):
        for node in self.nodes:
            node.end()


@pytest.fixture(params=NAMES)
def upgraded(request, tested, tmp_path):
    if tested == "kafka":
        pytest.skip("these are directories of earlier kwires")
    running = Upgraded(request.param, tmp_path)
    try:
        yield running
    finally:
        running.end()


def test_a_broker_of_an_earlier_stage_becomes_one_of_two(upgraded, unique):
    upgraded.start_earlier()
    load = Load(Confluent(), upgraded.bootstrap, unique("load"), unique("group"))
    admin = confluent_client.admin(upgraded.bootstrap)
    confluent_client.result(admin.create_topics([NewTopic(load.topic, PARTITIONS, 1)]))
    with at_work([load]):
        upgraded.become_todays()
        load.await_progress()
        upgraded.join()
        place(upgraded.nodes[0], load.topic, [2, 1])
        await_health(upgraded)
        load.await_progress()
        place(upgraded.nodes[0], load.topic, [2])
        await_health(upgraded)
        load.await_progress()
    load.check()
    for index, values in enumerate(upgraded.values):
        found = confluent_client.read_from(upgraded.bootstrap, "kept", len(values), index)
        assert [message.value().decode() for message in found] == values
