"""Plan of a cluster on one machine: its nodes with their roles, ports and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.properties_files import escape_value

HOST = "127.0.0.1"
COMBINED_CONTROLLERS_MAX = 3
"""Nodes with both roles. More voters make a quorum slower, and hardly safer on one machine."""
REPLICAS_MAX = 3
"""Default replication factor: one replica may be lost while another one is restarted."""
OWN_SETTINGS = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
    }
)
"""Settings that must differ between the nodes of a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Process of the cluster."""

    node_id: int
    client_port: int | None = None
    """Port for clients; None on a node that is only a controller."""
    controller_port: int | None = None
    """Port of the controller; None on a node that is only a broker."""

    @property
    def name(self) -> str:
        """Name in front of the node's output, and of its files."""
        return f"controller-{self.node_id}" if self.client_port is None else f"broker-{self.node_id}"

    @property
    def roles(self) -> str:
        ports = {"broker": self.client_port, "controller": self.controller_port}
        return ",".join(role for role, port in ports.items() if port is not None)

    @property
    def listeners(self) -> str:
        ports = {"PLAINTEXT": self.client_port, "CONTROLLER": self.controller_port}
        return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items() if port is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Number of nodes with each role."""

    brokers: int
    controllers: int
    """Nodes that are only controllers; without any, the first brokers are controllers too."""

    @property
    def combined(self) -> int:
        """Number of brokers that are controllers: odd, because an even number tolerates no more failures."""
        if self.controllers:
            return 0
        most = min(self.brokers, COMBINED_CONTROLLERS_MAX)
        return max(0, most - (most + 1) % 2)

    @property
    def port_count(self) -> int:
        return self.brokers + (self.controllers or self.combined)

    def nodes(self, ports: Sequence[int]) -> tuple[Node, ...]:
        """Return the nodes. Brokers get the first ports, in the order of their ids, and controllers the others."""
        assert len(ports) == self.port_count
        of_controllers = ports[self.brokers :]
        brokers = [
            Node(
                node_id=index + 1,
                client_port=port,
                controller_port=of_controllers[index] if index < self.combined else None,
            )
            for index, port in enumerate(ports[: self.brokers])
        ]
        controllers = [
            Node(node_id=self.brokers + index + 1, controller_port=port)
            for index, port in enumerate(of_controllers[: self.controllers])
        ]
        return (*brokers, *controllers)

    def __str__(self) -> str:
        return f"--brokers {self.brokers} --controllers {self.controllers}"


def properties_of(node: Node, nodes: Sequence[Node], log_dir: str) -> str:
    """Return the text of the node's server.properties."""
    controllers = ",".join(f"{HOST}:{each.controller_port}" for each in nodes if each.controller_port is not None)
    settings = {
        "process.roles": node.roles,
        "node.id": node.node_id,
        "listeners": node.listeners,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controllers,
        "log.dirs": escape_value(log_dir),
    } | _replication(sum(each.client_port is not None for each in nodes))
    lines = [f"{name}={value}" for name, value in settings.items()]
    return "\n".join([f"# {node.name} of a cluster created by kwire cluster start; it may be edited", *lines]) + "\n"


def _replication(brokers: int) -> dict[str, int]:
    """Return the replication factors, and the minimum of in-sync replicas for acks=all."""
    replicas = max(1, min(REPLICAS_MAX, brokers))
    in_sync_min = max(1, replicas - 1)
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync_min,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync_min,
    }
