"""Brokers of the campaign: one behind a proxy, or three; both live through many rounds."""

import signal
from pathlib import Path
from random import Random
from typing import Any, Protocol

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka import TopicPartition as Place

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.harness.brokers import BROKERS
from compat_tests.harness.ports import HOST, free_ports
from compat_tests.harness.process import REPLICATED
from compat_tests.harness.waiting import eventually
from spark_jobs.faults.proxy import Proxy
from spark_jobs.faults.reading import client_of

SECONDS = 60.0
SETTINGS = {
    # Deletions begin and end within a round.
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "auto.create.topics.enable": "false",
}
KEPT = {"retention.ms": "-1"}
"""Records of the input have old timestamps."""


class Site(Protocol):
    """Brokers and what can happen to them."""

    bootstrap: str

    def start(self) -> None: ...
    def kill(self, random_source: Random) -> None:
        """Kill a broker with kill -9."""

    def restart(self) -> None:
        """Start the killed broker, and wait until it responds."""

    def close(self) -> None: ...


class OneBroker:
    """Broker that clients reach through the proxy."""

    def __init__(self, kind: str, directory: Path) -> None:
        port, proxy_port = free_ports(2)
        directory.mkdir(parents=True)
        self.proxy = Proxy(port, proxy_port)
        self.bootstrap = self.proxy.address
        self._broker = BROKERS[kind](directory, port)
        advertised = f"PLAINTEXT://{HOST}:{proxy_port}"
        self._broker.more_settings = {**SETTINGS, "advertised.listeners": advertised}

    def start(self) -> None:
        self.proxy.start()
        self._broker.start()

    def kill(self, random_source: Random) -> None:
        self._broker.kill()

    def restart(self) -> None:
        self._broker.start()

    def close(self) -> None:
        self._broker.kill()
        self.proxy.close()


class ThreeBrokers:
    """Cluster whose topics have three replicas, of which two must be in sync."""

    def __init__(self, kind: str, directory: Path) -> None:
        directory.mkdir(parents=True)
        replicated = {**REPLICATED, "default.replication.factor": "3"}
        self._cluster = Cluster(kind, directory, SHAPES["combined"], **SETTINGS, **replicated)
        self._killed: Any = None

    def start(self) -> None:
        self._cluster.start()
        self.bootstrap = self._cluster.bootstrap

    def kill(self, random_source: Random) -> None:
        self._killed = random_source.choice(self._cluster.nodes)
        self._killed.end(signal.SIGKILL)

    def restart(self) -> None:
        self._killed.start()
        self._cluster.await_brokers()

    def move_leaders(self, topic: str, random_source: Random) -> bool:
        """Give every partition of a topic another preferred leader, and elect it; return True if leaders moved."""
        before = leaders(self.bootstrap, topic)
        if not before:
            return False
        places = {
            Place(topic, partition): self._other_order(leader, random_source) for partition, leader in before.items()
        }
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            client.alter_partition_reassignments(places)
            eventually(lambda: not client.list_partition_reassignments(), f"{topic} is reassigned", SECONDS)
        finally:
            client.close()
        partitions = [TopicPartition(topic, partition) for partition in before]
        electing = admin(self.bootstrap)
        electing.elect_leaders(ElectionType.PREFERRED, partitions).result(SECONDS)
        eventually(lambda: leaders(self.bootstrap, topic) != before, f"leaders of {topic} move", SECONDS)
        return True

    def _other_order(self, leader: int, random_source: Random) -> list[int]:
        others = [each.node_id for each in self._cluster.brokers if each.node_id != leader]
        random_source.shuffle(others)
        return [*others, leader]

    def close(self) -> None:
        self._cluster.end()


def admin(bootstrap: str) -> AdminClient:
    """Return a client, which its user keeps until a result is there: it gives up its requests when it is deleted."""
    return AdminClient(client_of(bootstrap))


def leaders(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the leader of each partition; none if the topic does not exist."""
    found = admin(bootstrap).list_topics(topic, SECONDS).topics[topic]
    return {partition: each.leader for partition, each in found.partitions.items()}


def create_topics(bootstrap: str, names: list[str], partitions: int, config: dict[str, str] | None = None) -> None:
    """Create topics with the brokers' number of replicas, and wait until their partitions have leaders."""
    settings = {**KEPT, **(config or {})}
    new = [NewTopic(name, num_partitions=partitions, replication_factor=-1, config=settings) for name in names]
    client = admin(bootstrap)
    for created in client.create_topics(new).values():
        created.result(SECONDS)
    for name in names:
        eventually(lambda name=name: -1 not in (leaders(bootstrap, name) or [-1]), f"{name} has leaders", SECONDS)  # type: ignore[misc]


def delete_topic(bootstrap: str, name: str) -> None:
    client = admin(bootstrap)
    client.delete_topics([name])[name].result(SECONDS)
    eventually(lambda: name not in client.list_topics(timeout=SECONDS).topics, f"{name} is deleted", SECONDS)
