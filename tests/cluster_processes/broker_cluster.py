"""Cluster of broker processes in a network with cuts, its clients, and its time limits after faults."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from tests.cluster_processes.secured import USERS, Security
from tests.cluster_processes.wire import Wires
from tests.history.clients.common import COPIES, PARTITIONS, TOPIC
from tests.history.journal import Journal
from tests.history.operations import OK
from tests.support.access_rights import GUARDED
from tests.support.requests import create_topic
from tests.support.waiting import eventually

RECOVERY_SECONDS = 30.0
"""Time limit from the end of all faults until every replica is in sync and every partition accepts records."""
PROGRESS_SECONDS = 30.0
"""Time limit until every partition accepts records during a fault that leaves a quorum and enough replicas."""
FLUSHED = {"log.flush.interval.messages": "1"}
REPORTED = 3
"""Maximum number of partitions in a description."""
CLIENTS = (11, 12)
"""Network numbers of the clients."""
VERIFIED = "verified"
"""Topic of Kafka's own verifiable clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShape:
    """Shape of a cluster."""

    kind: str = "kwire"
    brokers: int = 3
    controllers: int = 3
    """Number of brokers, the first ones, that are also controllers."""
    is_durable: bool = False
    """True for log.flush.interval.messages=1: acknowledged records survive a power cut of all nodes."""
    has_disks: bool = False
    """True if each broker has its own file system for records, which can be full, fail and lose power."""
    has_metadata_on_disks: bool = False
    """True if the metadata log is on that file system, too."""
    has_wires: bool = False
    """True if a proxy in front of each broker can hold requests."""

    is_secured: bool = False
    """True for SASL over TLS between the nodes, and an authorizer."""

    def __str__(self) -> str:
        more = {
            "secured": self.is_secured,
            "flushed": self.is_durable,
            "on disks": self.has_disks,
            "behind proxies": self.has_wires,
        }
        return " ".join([f"{self.brokers} {self.kind}", *(name for name, is_so in more.items() if is_so)])


@dataclass(slots=True, kw_only=True)
class Figures:
    """Measured times in seconds."""

    progress: list[float] = field(default_factory=list)
    """Times from each fault that left a quorum and enough replicas until every partition acknowledged newer records."""
    recovery: list[float] = field(default_factory=list)
    """Times from the end of each fault until all replicas are in sync and every partition acknowledges records."""


class BrokerCluster:
    """Cluster of brokers, created by `running_brokers`."""

    def __init__(
        self,
        nodes: Mapping[int, BrokerNode],
        network: Network,
        shape: BrokerShape,
        journal: Journal,
        security: Security | None,
    ) -> None:
        self.nodes = dict(nodes)
        self.network = network
        self.shape = shape
        self.journal = journal
        self.security = security
        self.figures = Figures()
        self.problems: list[str] = []
        self.healers: list[Callable[[], None]] = []
        """Functions that end the current fault, in addition to the actions of `heal`."""
        self.probe: Probe | None = None
        self.wires: Wires | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.client_address for node in self.nodes.values())

    # --- metadata

    def partitions(self) -> dict[Place, PartitionState]:
        """Return the partitions according to the brokers that respond."""
        reported = []
        for node in self.nodes.values():
            if node.is_answering:
                try:
                    reported.append(partitions_told_by(node))
                except OSError:
                    continue
        return newest(list(reported))

    def leader_of(self, topic: str = TOPIC, partition: int = 0) -> int:
        """Wait until a partition has a leader and return its id."""
        place = (topic, partition)

        def leader() -> int:
            state = self.partitions().get(place)
            return state.leader if state is not None and state.leader in self.nodes else 0

        return eventually(leader, f"{place} has a leader", RECOVERY_SECONDS)

    def _lagging(self) -> dict[Place, PartitionState]:
        """Return the partitions that some broker does not report as fully in sync with a leader."""
        reported = [partitions_told_by(node) for node in self.nodes.values()]
        return {place: state for each in reported for place, state in each.items() if not state.is_well}

    # --- faults

    def suffer(self, what: str, harm: Callable[[], None], *, owes_progress: bool = True) -> None:
        """Cause a fault; every partition must accept records in time if enough nodes remain."""
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
        """End all faults; all replicas must be in sync in time, and every partition must accept records."""
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
        """Return a description of the problems for people."""
        ill = {f"{topic}-{index}": state for (topic, index), state in self.partitions().items() if not state.is_well}
        reported = [f"{name}: leader {state.leader} in sync {state.in_sync}" for name, state in ill.items()]
        running = [node_id for node_id, node in self.nodes.items() if node.is_running]
        return f"running {running}; {len(reported)} partitions are not well: {', '.join(reported[:REPORTED])}"

    # --- start and stop

    def begin(self) -> None:
        """Start all nodes and create the topics."""
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_until_ready()
        eventually(self._knows_all, "all brokers are known", 2 * RECOVERY_SECONDS)
        for topic in (TOPIC, COPIES, VERIFIED, *((GUARDED,) if self.shape.is_secured else ())):
            with self.nodes[1].connect(10.0) as client:
                create_topic(client, PARTITIONS, name=topic, replicas=3, min_insync_replicas=2)
        self._await_all_in_sync("the new topics' replicas are in sync")
        assert not self.problems, self.problems

    def _knows_all(self) -> bool:
        try:
            reported = [node.ask(MetadataRequest(topics=[]), 12, 2.0).brokers for node in self.nodes.values()]
        except OSError:
            return False
        return all({each.node_id for each in brokers} == set(self.nodes) for brokers in reported)

    def finish(self) -> None:
        """Stop all nodes and check their logs."""
        for node in self.nodes.values():
            node.kill()
        for node_id, node in self.nodes.items():
            self.problems += [f"broker {node_id} failed inside: {error}" for error in node.failures()]

    def abandon(self) -> None:
        """Kill all processes in any case."""
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
    """Start a new cluster with its topics; at the end, no process is running and no disk is mounted."""
    with ExitStack() as stack:
        ids = range(1, shape.brokers + 1)
        network = Network([*ids, *CLIENTS])
        stack.callback(network.close)
        servers = ",".join(f"{network.address(each)}:{PORT}" for each in list(ids)[: shape.controllers])
        nodes: dict[int, BrokerNode] = {}
        security = Security(scratch) if shape.is_secured else None
        for node_id in ids:
            directory = scratch / str(node_id)
            directory.mkdir(parents=True)
            disk = FileSystem(directory, "", megabytes=160) if shape.has_disks else None
            if disk is not None:
                disk.mount()
                stack.callback(disk.unmount)
            settings = {"controller.quorum.bootstrap.servers": servers} | (FLUSHED if shape.is_durable else {})
            is_controller = node_id <= shape.controllers
            if security is not None:
                settings |= security.settings(node_id, network.address(node_id), is_controller=is_controller)
            nodes[node_id] = BrokerNode(
                node_id,
                network,
                directory,
                settings,
                kind=shape.kind,
                is_controller=is_controller,
                disk=disk,
                has_metadata_on_disk=shape.has_metadata_on_disks,
            )
        _format(nodes, random_source, USERS if shape.is_secured else ())
        cluster = BrokerCluster(nodes, network, shape, journal, security)
        if shape.has_wires:
            cluster.wires = Wires(network, nodes, journal, random.Random(random_source.random()))
            stack.callback(cluster.wires.close)
            cluster.wires.start()
        stack.callback(cluster.abandon)
        cluster.begin()
        yield cluster


def _format(nodes: Mapping[int, BrokerNode], random_source: random.Random, users: Sequence[str]) -> None:
    voters = ",".join(
        f"{node_id}@{node.address}:{uuid_to_text(UUID(int=random_source.getrandbits(128), version=4))}"
        for node_id, node in nodes.items()
        if node.is_controller
    )
    for node in nodes.values():
        node.format(*(("--initial-controllers", voters) if node.is_controller else ()), *users)
