"""Nodes of one metadata quorum, each Apache Kafka's or kwire's, as processes with their own files."""

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.harness.ports import HOST, free_ports
from compat_tests.harness.process import write_properties
from compat_tests.harness.reference import JVM, class_path
from kwire.protocol.uuids import uuid_to_text
from kwire.seams import SystemRandomSource

CLUSTER_ID = "kwireCompatQuorum00000"
SECONDS_MAX = 60.0


def program(kind, main):
    """Return the command of a kind of node: `main` is kafka.Kafka, kafka.tools.StorageTool, or kwire's counterpart."""
    if kind == "kafka":
        return ["java", *JVM, "-cp", class_path(), main]
    return [sys.executable, "-m", "kwire", *(["server"] if main == "kafka.Kafka" else [])]


@dataclass
class Node:
    """Node with its settings, directory and process."""

    kind: str
    node_id: int
    roles: str
    home: Path
    port: int = 0
    client_port: int = 0
    process: subprocess.Popen | None = None
    settings: dict = field(default_factory=dict)
    directory_id: str = field(default_factory=lambda: uuid_to_text(SystemRandomSource().uuid()))
    """Directory id of its metadata log, used if it is formatted as one of the initial controllers."""
    sources: Path | None = None
    """Folder with the sources of another kwire, which runs instead of the current one."""

    @property
    def address(self):
        return f"{HOST}:{self.port}"

    @property
    def bootstrap(self):
        return f"{HOST}:{self.client_port}"

    @property
    def metadata(self):
        return self.home / "data" / "__cluster_metadata-0"

    @property
    def properties(self):
        return self.home / "server.properties"

    def write(self, bootstrap_servers):
        self.home.mkdir(parents=True)
        listeners = {"broker": f"PLAINTEXT://{self.bootstrap}", "controller": f"CONTROLLER://{self.address}"}
        write_properties(
            self.properties,
            {
                "node.id": str(self.node_id),
                "process.roles": self.roles,
                "controller.quorum.bootstrap.servers": bootstrap_servers,
                "controller.listener.names": "CONTROLLER",
                "listeners": ",".join(listeners[role] for role in self.roles.split(",")),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": str(self.home / "data"),
                "offsets.topic.replication.factor": "1",
                **self.settings,
            },
        )

    def format(self, *options, cluster_id=CLUSTER_ID):
        command = [*program(self.kind, "kafka.tools.StorageTool"), "format", "-t", cluster_id]
        command += ["-c", str(self.properties), *options]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, cwd=self.sources
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def start(self):
        with (self.home / "output").open("ab") as output:
            command = [*program(self.kind, "kafka.Kafka"), str(self.properties)]
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=self.sources)

    def end(self, number=signal.SIGKILL):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(SECONDS_MAX)
            self.process = None

    def output(self):
        return (self.home / "output").read_text(errors="replace")


def initial_controllers(voters):
    """Return the list of the first voters for the format command."""
    return ",".join(f"{node.node_id}@{node.address}:{node.directory_id}" for node in voters)


class Nodes:
    """Nodes of a test; all stop at its end."""

    def __init__(self, directory):
        self.directory = directory
        self.all = []

    def add(self, kind, roles="controller", **settings):
        port, client_port = free_ports(2)
        node_id = len(self.all) + 1
        home = self.directory / f"{node_id}-{kind}"
        node = Node(kind, node_id, roles, home, port, client_port, settings=settings)
        self.all.append(node)
        return node

    def write(self):
        """Write the settings of each node, which need the addresses of all nodes."""
        servers = ",".join(node.address for node in self.all if "controller" in node.roles)
        for node in self.all:
            node.write(servers)

    def end(self):
        for node in self.all:
            node.end()
