"""Broker processes, each in its own network namespace: kwire's, or Apache Kafka's for comparison.

DIRECTORY/1/server.properties, said.log
DIRECTORY/1/data                          the partitions, or DIRECTORY/1/mounted/data on a file system of its own
DIRECTORY/1/metadata                      the metadata log, which survives the loss of the records
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from compat_tests.harness.process import REPLICATED, SETTINGS
from compat_tests.harness.reference import JVM, class_path
from kwire.log.log_directory import LogDirectoryError
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from tests.campaign.ext4 import FileSystem
from tests.cluster_processes.network import Network
from tests.cluster_processes.nodes import ControllerNode
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

CLIENT_PORT = 9092
START_SECONDS = 60.0
ALL_OFFLINE = f"{LogDirectoryError.__module__}.{LogDirectoryError.__name__}"
FAST = {
    **SETTINGS,
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    **REPLICATED,
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.share.min.record.lock.duration.ms": "1000",
    # A dead broker is detected soon, while a slow one on a busy machine is not fenced.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "4000",
    "controller.quorum.request.timeout.ms": "1000",
    # Open transactions of dead clients end while the run is still being observed.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class BrokerNode(ControllerNode):
    """Broker process, possibly with a controller."""

    def __init__(
        self,
        node_id: int,
        network: Network,
        scratch: Path,
        settings: Mapping[str, str],
        *,
        kind: str = "kwire",
        is_controller: bool = True,
        disk: FileSystem | None = None,
        has_metadata_on_disk: bool = False,
    ) -> None:
        self.kind = kind
        self.is_controller = is_controller
        self.metadata = (disk.directory if disk is not None and has_metadata_on_disk else scratch) / "metadata"
        self.client_address = f"{network.address(node_id)}:{CLIENT_PORT}"
        listeners = [f"PLAINTEXT://{self.client_address}"]
        if is_controller:
            listeners.append(f"CONTROLLER://{network.address(node_id)}:9093")
        own = {
            "process.roles": "broker,controller" if is_controller else "broker",
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "metadata.log.dir": str(self.metadata),
        }
        super().__init__(node_id, network, scratch, {**FAST, **own, **settings}, disk=disk)

    @property
    def directory_id(self) -> str:
        """Return the id of the metadata log's directory, which identifies a voter."""
        lines = (self.metadata / "meta.properties").read_text().splitlines()
        return next(line.removeprefix("directory.id=") for line in lines if line.startswith("directory.id="))

    def formatter(self) -> list[str]:
        return [*_java("kafka.tools.StorageTool"), "format"] if self.kind == "kafka" else super().formatter()

    def program(self) -> list[str]:
        return [*_java("kafka.Kafka"), str(self.properties)] if self.kind == "kafka" else super().program()

    def wait_until_ready(self) -> None:
        """Wait until the node serves clients."""

        def is_ready() -> bool:
            assert self.is_running, f"broker {self.node_id} did not start: {self.last_words()}"
            try:
                return bool(self.ask(ApiVersionsRequest(), 0, 2.0).error_code == 0)
            except OSError:
                return False

        eventually(is_ready, f"broker {self.node_id} serves", START_SECONDS)

    def connect(self, seconds: float) -> RawClient:
        """Return a client that no network cut and no proxy separates from this node. Raises OSError."""
        with self.inside():
            client = RawClient(self.client_address)
        client.socket.settimeout(seconds)
        return client

    def wipe(self) -> None:
        """Replace the disk with the records by an empty one."""
        assert not self.is_running
        shutil.rmtree(self.data)
        self.format("--ignore-formatted", "--no-initial-controllers")

    def failures(self) -> list[str]:
        """Return kwire's internal errors, except those of its disk; Apache Kafka logs many harmless ones."""
        found = [] if self.kind == "kafka" else super().failures()
        return [each for each in found if not each.startswith(ALL_OFFLINE)]


def _java(main: str) -> list[str]:
    return ["java", *JVM, "-cp", class_path(), main]
