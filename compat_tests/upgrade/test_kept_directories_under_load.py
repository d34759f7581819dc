"""Upgrade under load: a broker of each earlier stage becomes the current one on its directory, then one of two brokers.

If Apache Kafka is tested, one broker of one version starts on a new directory, is restarted, and becomes one of two.
"""

import json
import signal
import tarfile

from confluent_kafka.admin import NewTopic

from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.harness.paths import ROOT
from compat_tests.harness.ports import HOST, free_ports
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
STAGES = sorted(path.stem for path in KEPT.glob("*.json"))
EARLIER_SETTINGS = {"listeners", "log.dirs", "node.id", *SETTINGS}
"""A broker of the first stages supports no settings about other brokers."""


class OneByOne(Node):
    """Node that serves as soon as it is started."""

    def start(self):
        super().start()
        eventually(self._answers, f"{self.bootstrap} answers")

    def _answers(self):
        assert self.process.poll() is None, self.output()[-4000:]
        return is_ready((HOST, self.client_port))


class Pair:
    """Combined node (broker and controller), and a second one that joins it later."""

    def __init__(self, kind, directory):
        self.nodes = [self._node(kind, directory, 1, "broker,controller"), self._node(kind, directory, 2, "broker")]
        for node in self.nodes:
            node.write(self.nodes[0].address)

    @staticmethod
    def _node(kind, directory, node_id, roles):
        port, client_port = free_ports(2)
        return OneByOne(kind, node_id, roles, directory / str(node_id), port, client_port, settings=dict(SETTINGS))

    @property
    def bootstrap(self):
        return self.nodes[0].bootstrap

    def begin_with_stage(self, name, directory):
        """Start the first node on a kept directory with the software that wrote it; return the stored values."""
        written = json.loads((KEPT / f"{name}.json").read_text())
        node = self.nodes[0]
        with tarfile.open(KEPT / f"{name}.tar.xz") as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python has no data_filter
            archive.extractall(node.home)
        whole = node.properties.read_text()
        kept = [line for line in whole.splitlines() if line.partition("=")[0] in EARLIER_SETTINGS]
        alone = [line.partition(",CONTROLLER:")[0] for line in kept]
        node.properties.write_text("\n".join(alone) + "\n")
        node.sources = unpack_sources(written["commit"], directory)
        node.start()
        node.properties.write_text(whole)
        return written["values"]

    def begin_anew(self):
        self.nodes[0].format("--standalone")
        self.nodes[0].start()

    def restart_with_todays(self):
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


def test_a_broker_of_each_earlier_stage_joins_a_cluster_of_two(tested, tmp_path, unique):
    for name in STAGES if tested == "kwire" else ("today",):
        pair = Pair(tested, tmp_path / name)
        try:
            values = []
            if tested == "kwire":
                values = pair.begin_with_stage(name, tmp_path / f"{name}-sources")
            else:
                pair.begin_anew()
            upgrade_under_load(pair, unique)
            for index, partition in enumerate(values):
                found = confluent_client.read_from(pair.bootstrap, "kept", len(partition), index)
                assert [message.value().decode() for message in found] == partition, name
        finally:
            pair.end()


def upgrade_under_load(pair, unique):
    load = Load(Confluent(), pair.bootstrap, unique("load"), unique("group"))
    admin = confluent_client.admin(pair.bootstrap)
    confluent_client.result(admin.create_topics([NewTopic(load.topic, PARTITIONS, 1)]))
    with at_work([load]):
        pair.restart_with_todays()
        load.await_progress()
        pair.join()
        place(pair.nodes[0], load.topic, [2, 1])
        await_health(pair)
        load.await_progress()
        place(pair.nodes[0], load.topic, [2])
        await_health(pair)
        load.await_progress()
    load.check()
