"""Brokers in a network that can be cut, with clients elsewhere in it, and what they owe: progress, and recovery."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.uuids import uuid_to_text
from tests.campaign.ext4 import FileSystem
from tests.cluster_processes.brokers import BrokerNode
from tests.cluster_processes.network import Network
from tests.cluster_processes.nodes import PORT, revive
from tests.cluster_processes.probe import Probe
from tests.cluster_processes.replicas import PartitionState, Place, newest, partitions_told_by
from tests.cluster_processes.wire import Wires
from tests.history.clients.common import COPIES, PARTITIONS, TOPIC
from tests.history.journal import Journal
from tests.history.operations import OK
from tests.support.requests import create_topic
from tests.support.waiting import eventually

RECOVERY_SECONDS = 30.0
"""From the end of all harm until every replica is in sync and every partition takes records."""
PROGRESS_SECONDS = 30.0
"""How long a fault that leaves a quorum and enough replicas may stop a partition."""
FLUSHED = {"log.flush.interval.messages": "1"}
TOLD = 3
"""How many partitions are described."""
CLIENTS = (11, 12)
"""Where clients are in the network."""
VERIFIED = "verified"
"""The topic of Kafka's own verifiable clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShape:
    """What kind of cluster it is."""

    kind: str = "kwire"
    brokers: int = 3
    controllers: int = 3
    """Of the brokers, the first are controllers, too."""
    is_durable: bool = False
    """log.flush.interval.messages=1: nothing acknowledged is lost even when all lose power."""
    has_disks: bool = False
    """Each has a file system of its own for its records, that can be full, fail and lose power."""
    has_metadata_on_disks: bool = False
    """The metadata log is on that file system, too."""
    has_wires: bool = False
    """A proxy before each can hold requests back."""

    def __str__(self) -> str:
        more = {"flushed": self.is_durable, "on disks": self.has_disks, "behind proxies": self.has_wires}
        return " ".join([f"{self.brokers} {self.kind}", *(name for name, is_so in more.items() if is_so)])


@dataclass(slots=True, kw_only=True)
class Figures:
    """Seconds."""

    progress: list[float] = field(default_factory=list)
    """From each harm that left a quorum and enough replicas, until every partition acknowledged what was sent since."""
    recovery: list[float] = field(default_factory=list)
    """From the end of each harm until all replicas are in sync, and every partition acknowledges."""


class BrokerCluster:
    """Made by `running_brokers`."""

    def __init__(self, nodes: Mapping[int, BrokerNode], network: Network, shape: BrokerShape, journal: Journal) -> None:
        self.nodes = dict(nodes)
        self.network = network
        self.shape = shape
        self.journal = journal
        self.figures = Figures()
        self.problems: list[str] = []
        self.healers: list[Callable[[], None]] = []
        """What ends the harm that is being done, beyond what `heal` always does."""
        self.probe: Probe | None = None
        self.wires: Wires | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.client_address for node in self.nodes.values())

    # --- what is known of it

    def partitions(self) -> dict[Place, PartitionState]:
        """As the brokers that answer know them."""
        told = []
        for node in self.nodes.values():
            if node.is_answering:
                try:
                    told.append(partitions_told_by(node))
                except OSError:
                    continue
        return newest(list(told))

    def leader_of(self, topic: str = TOPIC, partition: int = 0) -> int:
        """Who leads; waits until somebody does."""
        place = (topic, partition)

        def leader() -> int:
            state = self.partitions().get(place)
            return state.leader if state is not None and state.leader in self.nodes else 0

        return eventually(leader, f"{place} has a leader", RECOVERY_SECONDS)

    def _lagging(self) -> dict[Place, PartitionState]:
        """Of all partitions that some broker tells, those that some broker does not tell to be well."""
        told = [partitions_told_by(node) for node in self.nodes.values()]
        return {place: state for each in told for place, state in each.items() if not state.is_well}

    # --- harm and its end

    def suffer(self, what: str, harm: Callable[[], None], *, owes_progress: bool = True) -> None:
        """Do harm; every partition has to go on in time if enough is left."""
        complete = self.journal.invoke("nemesis", "fault", what=what)
        harm()
        complete(OK)
        began = time.monotonic()
        if owes_progress and self.probe is not None:
            self._measure(f"progress during {what}", began, PROGRESS_SECONDS, self.figures.progress)

    def _measure(self, what: str, began: float, seconds: float, figures: list[float]) -> None:
        probe = self.probe
        assert probe is not None
        try:
            done = eventually(lambda: probe.first_after(began), what, seconds)
        except AssertionError as error:
            self.problems.append(f"{error}; {self.describe()}")
            return
        assert done is not None
        figures.append(done - began)

    def heal(self, what: str) -> None:
        """Make all well again; all replicas must be in sync in time, and every partition take records."""
        began = time.monotonic()
        self.network.heal()
        if self.wires is not None:
            self.wires.clear()
        for healer in self.healers:
            healer()
        self.healers.clear()
        for node_id, node in self.nodes.items():
            if node.has_ended_by_itself:
                self.problems.append(f"broker {node_id} ended by itself during {what}: {node.last_words()}")
        revive(self.nodes.values())
        self._await_all_in_sync(f"all replicas are in sync after {what}")
        if self.probe is not None:
            self._measure(f"recovery after {what}", time.monotonic(), RECOVERY_SECONDS, [])
        self.figures.recovery.append(time.monotonic() - began)
        if self.figures.recovery[-1] > RECOVERY_SECONDS:
            self.problems.append(f"recovery took {self.figures.recovery[-1]:.1f} s after {what}; {self.describe()}")

    def _await_all_in_sync(self, what: str) -> None:
        def all_are() -> bool:
            try:
                return not self._lagging()
            except OSError:
                return False

        try:
            eventually(all_are, what, 2 * RECOVERY_SECONDS)
        except AssertionError as error:
            self.problems.append(f"{error}; {self.describe()}")

    def describe(self) -> str:
        """What is not well, for people."""
        ill = {f"{topic}-{index}": state for (topic, index), state in self.partitions().items() if not state.is_well}
        told = [f"{name}: leader {state.leader} in sync {state.in_sync}" for name, state in ill.items()]
        running = [node_id for node_id, node in self.nodes.items() if node.is_running]
        return f"running {running}; {len(told)} partitions are not well: {', '.join(told[:TOLD])}"

    # --- beginning and end

    def begin(self) -> None:
        """Start all, and make the topics."""
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_until_ready()
        eventually(self._knows_all, "all brokers are known", 2 * RECOVERY_SECONDS)
        for topic in (TOPIC, COPIES, VERIFIED):
            with self.nodes[1].connect(10.0) as client:
                create_topic(client, PARTITIONS, name=topic, replicas=3, min_insync_replicas=2)
        self._await_all_in_sync("the new topics' replicas are in sync")
        assert not self.problems, self.problems

    def _knows_all(self) -> bool:
        try:
            told = [node.ask(MetadataRequest(topics=[]), 12, 2.0).brokers for node in self.nodes.values()]
        except OSError:
            return False
        return all({each.node_id for each in brokers} == set(self.nodes) for brokers in told)

    def finish(self) -> None:
        """Stop everybody, and look at what they said."""
        for node in self.nodes.values():
            node.kill()
        for node_id, node in self.nodes.items():
            self.problems += [f"broker {node_id} failed inside: {error}" for error in node.failures()]

    def abandon(self) -> None:
        """Leave nothing running, whatever happened."""
        if self.probe is not None:
            self.probe.finish()
        for healer in self.healers:
            healer()
        for node in self.nodes.values():
            node.kill()


@contextmanager
def running_brokers(
    shape: BrokerShape, scratch: Path, random_source: random.Random, journal: Journal
) -> Iterator[BrokerCluster]:
    """A new cluster with its topics; nothing of it runs or is mounted afterwards."""
    with ExitStack() as stack:
        ids = range(1, shape.brokers + 1)
        network = Network([*ids, *CLIENTS])
        stack.callback(network.close)
        servers = ",".join(f"{network.address(each)}:{PORT}" for each in list(ids)[: shape.controllers])
        nodes: dict[int, BrokerNode] = {}
        for node_id in ids:
            directory = scratch / str(node_id)
            directory.mkdir(parents=True)
            disk = FileSystem(directory, "", megabytes=160) if shape.has_disks else None
            if disk is not None:
                disk.mount()
                stack.callback(disk.unmount)
            settings = {"controller.quorum.bootstrap.servers": servers} | (FLUSHED if shape.is_durable else {})
            nodes[node_id] = BrokerNode(
                node_id,
                network,
                directory,
                settings,
                kind=shape.kind,
                is_controller=node_id <= shape.controllers,
                disk=disk,
                has_metadata_on_disk=shape.has_metadata_on_disks,
            )
        _format(nodes, random_source)
        cluster = BrokerCluster(nodes, network, shape, journal)
        if shape.has_wires:
            cluster.wires = Wires(network, nodes, journal, random.Random(random_source.random()))
            stack.callback(cluster.wires.close)
            cluster.wires.start()
        stack.callback(cluster.abandon)
        cluster.begin()
        yield cluster


def _format(nodes: Mapping[int, BrokerNode], random_source: random.Random) -> None:
    voters = ",".join(
        f"{node_id}@{node.address}:{uuid_to_text(UUID(int=random_source.getrandbits(128), version=4))}"
        for node_id, node in nodes.items()
        if node.is_controller
    )
    for node in nodes.values():
        node.format(*(("--initial-controllers", voters) if node.is_controller else ()))
