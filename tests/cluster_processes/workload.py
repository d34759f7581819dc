"""Clients of a run, in the clients' networks: those of tests/history, a probe, and Kafka's verifiable ones."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from compat_tests.harness.reference import HOME
from tests.cluster_processes import shared, verifiable
from tests.cluster_processes.access import AccessWatch
from tests.cluster_processes.broker_cluster import CLIENTS, RECOVERY_SECONDS, VERIFIED, BrokerCluster
from tests.cluster_processes.probe import Probe
from tests.history import final
from tests.history.clients.common import PARTITIONS
from tests.history.clients.reader import consumer
from tests.history.operations import OK
from tests.history.processes import Client, Kind
from tests.support.waiting import eventually

SHARE_MEMBER = Kind("share_member", is_writer=False)
KINDS = {
    "confluent": Kind("producer"),
    "raw-v2": Kind("raw_producer", "v2"),
    "aiokafka": Kind("aiokafka_producer", "transactional"),
    "aiokafka-idempotent": Kind("aiokafka_producer", "idempotent"),
    "copier": Kind("copier"),
    "committed": Kind("reader", "committed", is_writer=False),
    "uncommitted": Kind("reader", "uncommitted", is_writer=False),
    "member": Kind("member", is_writer=False),
    "second-member": Kind("member", is_writer=False),
    "consumer-member": Kind("consumer_member", is_writer=False),
    "second-consumer-member": Kind("consumer_member", is_writer=False),
    "share-member": SHARE_MEMBER,
    "second-share-member": SHARE_MEMBER,
}


@dataclass(slots=True)
class Workload:
    """Workload that starts when it is created; `finish` ends it cleanly, `abandon` at once."""

    cluster: BrokerCluster
    directory: Path
    seed: int
    clients: list[Client] = field(default_factory=list)
    programs: dict[str, verifiable.Program] = field(default_factory=dict)
    unruly: list[str] = field(default_factory=list)
    """Clients that did not stop on request."""
    verified: verifiable.Verified = field(default_factory=verifiable.Verified)
    access: AccessWatch | None = None

    def __post_init__(self) -> None:
        cluster, servers = self.cluster, self.cluster.bootstrap_servers
        shared.configure(cluster)
        cluster.probe = Probe(cluster.network, CLIENTS[0], servers, cluster.journal)
        for number, (name, kind) in enumerate(KINDS.items()):
            within = tuple(cluster.network.command(CLIENTS[number % len(CLIENTS)]))
            self.clients.append(Client(name, kind, self.directory, servers, self.seed, within=within))
        for client in self.clients:
            client.start()
        if cluster.security is not None:
            self.access = AccessWatch(list(cluster.nodes.values()), self.seed)
        if shutil.which("java") is not None and (HOME / "complete").exists():
            place = cluster.network.command(CLIENTS[1])
            for tool in ("VerifiableProducer", "VerifiableConsumer"):
                program = verifiable.start(tool, self.directory, place, servers, VERIFIED)
                self.programs[tool] = program

    def await_beginning(self) -> None:
        probe = self.cluster.probe
        assert probe is not None
        eventually(lambda: probe.first_after(0), "the first records are acknowledged", RECOVERY_SECONDS)
        if self.programs:
            producer = self.programs["VerifiableProducer"]
            is_at_work = lambda: any(event["name"] == "producer_send_success" for event in producer.events())  # noqa: E731
            eventually(is_at_work, "VerifiableProducer is at work", RECOVERY_SECONDS)

    def crash_a_client(self, random_source: random.Random) -> None:
        """Kill a client with kill -9; it restarts under its old id."""
        client = random_source.choice(self.clients)
        complete = self.cluster.journal.invoke("nemesis", "fault", what=f"kill -9 of {client.id}")
        client.kill()
        client.start()
        complete(OK)

    def finish(self) -> None:
        """Stop writers first; then, once all transactions are decided, readers; then do the final reads."""
        cluster = self.cluster
        assert cluster.probe is not None
        cluster.probe.finish()
        if self.access is not None:
            self.access.finish()
            cluster.problems += self.access.problems
        self._stop([client for client in self.clients if client.kind.is_writer])
        with cluster.network.inside(CLIENTS[0]):
            final.settle(cluster.bootstrap_servers, cluster.journal)
            shared.drain(cluster, self._replace_share_members)
        if self.programs:
            self._finish_verifiable()
        self._stop([client for client in self.clients if not client.kind.is_writer])
        with cluster.network.inside(CLIENTS[0]):
            final.read_all(cluster.bootstrap_servers, cluster.journal)
            stored = read_topic(cluster.bootstrap_servers, VERIFIED)
        cluster.problems += verifiable.judge(self.verified, stored)

    def _replace_share_members(self) -> None:
        for client in self.clients:
            if client.kind == SHARE_MEMBER:
                client.log_stacks()
                client.kill()
                client.start()

    def _finish_verifiable(self) -> None:
        producer, consumer_program = self.programs.values()
        if not producer.stop():
            self.unruly.append("VerifiableProducer")
        self.verified = verifiable.await_consumed(producer, consumer_program)
        if not consumer_program.stop():
            self.unruly.append("VerifiableConsumer")

    def _stop(self, some: list[Client]) -> None:
        for client in some:
            client.ask_to_stop()
        self.unruly += [client.id for client in some if not client.wait()]

    def abandon(self) -> None:
        if self.access is not None:
            self.access.abandon()
        for client in self.clients:
            client.kill()
        for program in self.programs.values():
            program.kill()


def read_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int = PARTITIONS,
    level: str = "uncommitted",
    seconds: float = final.READ_SECONDS,
    into: dict[tuple[int, int], str] | None = None,
) -> dict[tuple[int, int], str]:
    """Read all records of a topic; `into` contains the records read so far even after a failure."""
    reading: Any = consumer(bootstrap_servers, level, enable_partition_eof=True)
    reading.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    found: dict[tuple[int, int], str] = {} if into is None else into
    ended: set[int] = set()

    def is_read() -> bool:
        for message in reading.consume(500, 1.0):
            if message.error() is None:
                found[message.partition(), message.offset()] = message.value().decode()
            elif message.error().name() == "_PARTITION_EOF":
                ended.add(message.partition())
        return len(ended) == partitions

    try:
        eventually(is_read, f"{topic} is read to its end", seconds)
    finally:
        reading.close()
    return found
