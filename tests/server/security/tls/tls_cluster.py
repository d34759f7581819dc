"""Three nodes over TLS for tests: a listener of brokers and one of controllers, whose clients have certificates."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compat_tests.harness.ports import free_ports
from tests.support.certificates import PASSWORD, Authority
from tests.support.processes import SECONDS
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, fetch, produce, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORIES = {node: f"{node}Db5QLSqSZieL3rJBUUegA" for node in (1, 2, 3)}


class TlsCluster:
    """Three nodes with both roles. Each has a key store of another kind."""

    listener = "SSL"
    """Name of the brokers' listener."""
    protocol = "SSL"
    users: tuple[str, ...] = ()
    """Arguments of `kwire format` for users."""

    def __init__(self, directory: Path, *, hosts: tuple[str, ...] = ("127.0.0.1",)) -> None:
        self.directory = directory
        self.authority = Authority()
        self.hosts = hosts
        ports = free_ports(6)
        self.ports, self.controller_ports = (
            dict(zip(DIRECTORIES, each, strict=True)) for each in (ports[:3], ports[3:])
        )
        self.nodes: dict[int, RunningBroker] = {}
        for node in DIRECTORIES:
            self._format(node)

    def settings(self, node: int) -> dict[str, str]:
        names = (self.listener, self.ports[node]), ("CONTROLLER", self.controller_ports[node])
        return {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in names),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"{self.listener}:{self.protocol},CONTROLLER:{self.protocol}",
            "inter.broker.listener.name": self.listener,
            "controller.quorum.bootstrap.servers": ",".join(
                f"127.0.0.1:{port}" for port in self.controller_ports.values()
            ),
            "log.dirs": str(self.directory / str(node)),
            "offsets.topic.replication.factor": "3",
        }

    def _format(self, node: int) -> None:
        properties = self.directory / f"{node}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings(node).items()))
        voters = ",".join(
            f"{each}@127.0.0.1:{port}:{DIRECTORIES[each]}" for each, port in self.controller_ports.items()
        )
        arguments = ["format", "-c", str(properties), "-t", CLUSTER_ID, "-I", voters, *self.users]
        subprocess.run([sys.executable, "-m", "kwire", *arguments], check=True, capture_output=True, timeout=SECONDS)

    def stores(self, node: int) -> dict[str, str]:
        identity = self.authority.issue(f"node-{node}", hosts=self.hosts)
        path = self.directory / f"{node}.store"
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.authority.pem}
        if node == 1:
            return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(identity.pem_file(path)), **trust}
        file = identity.jks_file(path) if node == 2 else identity.pkcs12_file(path)
        return {"ssl.keystore.location": str(file), "ssl.keystore.password": PASSWORD, **trust}

    def start(self) -> None:
        def start_one(node: int) -> RunningBroker:
            more = {**self.stores(node), "listener.name.controller.ssl.client.auth": "required"}
            more[f"listener.name.{self.listener.lower()}.ssl.client.auth"] = "required"
            return RunningBroker(self.directory / str(node), {**self.settings(node), **more})

        with ThreadPoolExecutor(3) as threads:
            for node, running in zip(DIRECTORIES, threads.map(start_one, DIRECTORIES), strict=True):
                self.nodes[node] = running

    def client(self, node: int) -> RawClient:
        context = self.authority.client(self.authority.issue("client"), self.directory)
        return RawClient(f"127.0.0.1:{self.ports[node]}", tls=context)

    def stop(self) -> None:
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(RunningBroker.stop, self.nodes.values()))


def replicate(cluster: TlsCluster, clients: dict[int, RawClient], node: int, topic: str) -> None:
    """Create a topic at a node, produce to its leader, and find the records on all nodes."""
    request = create_request(topic, replicas=3)
    eventually(lambda: clients[node].ask(request, 7).topics[0].error_code in {0, 36}, "a topic")
    leader = eventually(lambda: leader_of(cluster.nodes[node], topic), "a leader")
    eventually(lambda: produce(clients[leader], topic, batch(b"a", b"b")).error_code == 0, "a produce")
    eventually(lambda: all(stored(each, topic) >= 2 for each in cluster.nodes.values()), "all replicas")
    assert values_in(fetch(clients[leader], topic).records)[:2] == [b"a", b"b"]


def leader_of(running: RunningBroker, topic: str) -> int:
    image = running.call(lambda: running.server.metadata_log.image)
    found = image.topics.get(topic)
    return 0 if found is None else max(0, found.partitions[0].leader)


def stored(running: RunningBroker, topic: str) -> int:
    partition = running.call(lambda: running.server.services.partitions.get(topic, 0))
    return 0 if partition is None else running.call(lambda: partition.log.log_end_offset)


def peers(running: RunningBroker) -> set[str]:
    controller = running.server._controller
    assert controller is not None
    tables = running.server._listeners.table, controller.listeners.table
    return running.call(lambda: {each.principal for table in tables for each in table.connections})
