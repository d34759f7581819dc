"""Clusters of three brokers of one kind, each also a controller, and the CPU time and memory of all three."""

import atexit
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.brokers import PAGE_BYTES, PROGRAMS, KafkaAsShipped, cpu_seconds
from compat_tests.harness.ports import HOST, free_ports
from compat_tests.harness.process import REPLICATED, write_properties
from compat_tests.harness.waiting import eventually
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from kwire.protocol.uuids import uuid_to_text
from kwire.seams import SystemRandomSource
from tests.support.raw_client import RawClient

NODES = 3
CLUSTER_ID = "kwireBenchCluster00000"
SECONDS_MAX = 180.0
LOOK_SECONDS = 0.002
SETTINGS = {**REPLICATED, "controller.quorum.append.linger.ms": "0"}
METADATA_VERSION = 12


@dataclass
class ClusterNode:
    """Process of one cluster node."""

    node_id: int
    home: Path
    client_port: int
    controller_port: int
    directory_id: str
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def properties(self) -> Path:
        return self.home / "server.properties"

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.client_port}"

    @property
    def voter(self) -> str:
        return f"{self.node_id}@{HOST}:{self.controller_port}:{self.directory_id}"


class ClusterRun:
    """Cluster on fresh directories. Topics, loads and tools use it like a Run of one broker."""

    def __init__(self, name: str, **settings: str) -> None:
        self.name = name
        self.directory = Path(tempfile.mkdtemp(prefix=f"kwire-bench-cluster-{name}-"))
        ports = free_ports(2 * NODES)
        self.nodes = [
            ClusterNode(
                number + 1,
                self.directory / str(number + 1),
                ports[2 * number],
                ports[2 * number + 1],
                uuid_to_text(SystemRandomSource().uuid()),
            )
            for number in range(NODES)
        ]
        self._settings = SETTINGS | settings

    def __enter__(self) -> Self:
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._prepare, self.nodes))
        started = time.perf_counter()
        for node in self.nodes:
            self.start(node)
        for node in self.nodes:
            eventually(lambda node=node: self._knows_all(node), f"node {node.node_id} knows all", SECONDS_MAX)  # type: ignore[misc]
        self.start_seconds = time.perf_counter() - started
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the nodes. Their files are removed when the program exits: some file systems create files slowly for
        half a minute after many removals.
        """
        for node in self.nodes:
            self.kill(node)
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)

    # --- start, kill and restart of nodes

    def _prepare(self, node: ClusterNode) -> None:
        """Write the node's settings and format its directory; this does not count as part of a start."""
        node.home.mkdir()
        own = {
            "node.id": str(node.node_id),
            "process.roles": "broker,controller",
            "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{each.controller_port}" for each in self.nodes),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{node.bootstrap},CONTROLLER://{HOST}:{node.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(node.home / "data"),
        }
        write_properties(node.properties, own | self._settings)
        voters = ",".join(each.voter for each in self.nodes)
        program = self._program("kafka.tools.StorageTool", ())
        command = [*program, "format", "-t", CLUSTER_ID, "-c", str(node.properties), "--initial-controllers", voters]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _program(self, main: str, kwires: Iterable[str]) -> list[str]:
        if self.name == "kafka":
            return KafkaAsShipped.java(main)
        return [*PROGRAMS[self.name], *kwires]

    def start(self, node: ClusterNode) -> None:
        """Start the node's process and return at once."""
        with (node.home / "output").open("ab") as output:
            node.process = subprocess.Popen(
                [*self._program("kafka.Kafka", ["server"]), str(node.properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=node.home,
            )

    def kill(self, node: ClusterNode) -> None:
        """Kill the node with kill -9."""
        if node.process is not None:
            node.process.send_signal(signal.SIGKILL)
            node.process.wait()
            node.process = None

    def _knows_all(self, node: ClusterNode) -> bool:
        assert node.process is not None
        assert node.process.poll() is None, (node.home / "output").read_text(errors="replace")[-4000:]
        with RawClient(node.bootstrap) as client:
            return len(client.ask(MetadataRequest(topics=[]), METADATA_VERSION).brokers) == NODES

    # --- the same interface as Run, which has one broker

    @property
    def broker(self) -> "ClusterRun":
        return self

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def port(self) -> int:
        """Return node 1's client port."""
        return self.nodes[0].client_port

    def _pids(self) -> list[int]:
        return [node.process.pid for node in self.nodes if node.process is not None]

    def resident_megabytes(self) -> float:
        """Return the resident memory of all nodes together."""
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self._pids()]
        return sum(pages) * PAGE_BYTES / 1e6

    def cpu_seconds(self) -> float:
        """Return the user and system time that all nodes have used so far."""
        return sum(cpu_seconds(pid) for pid in self._pids())

    # --- topics

    def make_topic(
        self, topic: str, partitions: int = 1, *, replicas: int = 3, led_by: int = 0, **configs: str
    ) -> None:
        """Create a topic with a replica on each node, optionally with a chosen leader; do not wait for its replicas."""
        others = [node.node_id for node in self.nodes if node.node_id != led_by]
        wanted = CreatableTopic(
            name=topic,
            num_partitions=-1 if led_by else partitions,
            replication_factor=-1 if led_by else replicas,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=[led_by, *others][:replicas])
                for index in range(partitions if led_by else 0)
            ],
            configs=[CreatableTopicConfig(name=name.replace("_", "."), value=text) for name, text in configs.items()],
        )
        with RawClient(self.nodes[0].bootstrap) as client:
            client.socket.settimeout(SECONDS_MAX)
            (made,) = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), 7).topics
        assert made.error_code == ErrorCode.NONE, made

    def described(self, topic: str, at: ClusterNode) -> MetadataResponseTopic:
        """Return a topic from a node's Metadata response."""
        with RawClient(at.bootstrap) as client:
            client.socket.settimeout(SECONDS_MAX)
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            (found,) = client.ask(request, METADATA_VERSION).topics
        assert isinstance(found, MetadataResponseTopic)
        return found

    def await_in_sync(self, topic: str, partitions: int = 1, replicas: int = 3) -> None:
        """Wait until every running node's metadata shows a leader and a full in-sync set for each partition."""
        for node in [each for each in self.nodes if each.process is not None]:
            eventually(
                lambda node=node: self._is_in_sync(topic, node, partitions, replicas),  # type: ignore[misc]
                f"{topic} is in sync, as node {node.node_id} tells",
                SECONDS_MAX,
            )

    def _is_in_sync(self, topic: str, node: ClusterNode, partitions: int, replicas: int) -> bool:
        found = self.described(topic, node).partitions
        return len(found) == partitions and all(
            each.leader_id >= 0 and len(each.isr_nodes) == replicas for each in found
        )

    def leader(self, topic: str) -> ClusterNode:
        """Return the node that leads the topic's first partition."""
        (found,) = [each for each in self.described(topic, self.nodes[0]).partitions if each.partition_index == 0]
        return self.nodes[found.leader_id - 1]
