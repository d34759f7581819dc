"""Cluster in a simulation: brokers, and their controllers, which may be the brokers themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from kwire.cluster.quorum.voters import ReplicaKey, VoterSet
from kwire.server.network.outgoing.node_channel import NodeChannel
from kwire.server.settings.config import BrokerConfig
from kwire.simulation.brokers import PORT, SimulatedBroker
from kwire.simulation.controllers import (
    CLUSTER_ID,
    LISTENER,
    SimulatedController,
    directory_id,
    format_further,
    format_once,
    voter_set,
)
from kwire.simulation.controllers import PORT as CONTROLLER_PORT
from kwire.simulation.hosts import Host, Process
from kwire.simulation.nodes import AnyNode
from kwire.simulation.objects import object_channel

FIRST_CONTROLLER_ID = 101
"""First id of nodes that are only controllers; brokers count from 1."""

CLIENTS: Final = "PLAINTEXT"
"""Name of the listener for clients."""
INTER_BROKER_PORT: Final = 9094
FURTHER_DIRECTORIES: Final = 1000
"""First number of the ids of further log directories of a node."""


class ClusterBroker(SimulatedBroker):
    """Broker of a cluster, on a host of its own. Its directory is formatted at its first start."""

    def __init__(
        self,
        host: Host,
        config: Mapping[str, str],
        *,
        node_id: int,
        voters: VoterSet,
        cluster_id: str = CLUSTER_ID,
        directory: int = 0,
    ) -> None:
        """The broker is a controller too if it is one of the voters.

        `directory` distinguishes successive disks of one node.
        """
        self.key = ReplicaKey(node_id, directory_id(node_id, directory))
        self.is_controller = node_id in voters.ids
        self.peers: Sequence[AnyNode] = ()
        """Controllers, if the quorum's messages are passed as objects; empty if they are passed as bytes."""
        self._voters = voters
        self._cluster_id = cluster_id
        self._directory = directory
        own = config.get("inter.broker.listener.name", CLIENTS)
        super().__init__(host, {**self._place_in_cluster(host, own), **config}, node_id=node_id)

    @property
    def inter_broker_server(self) -> str:
        """Address of the listener for other brokers, if inter.broker.listener.name names one of their own."""
        return f"{self.host.name}:{INTER_BROKER_PORT}"

    def _place_in_cluster(self, host: Host, inter_broker: str) -> dict[str, str]:
        ends = [voter.endpoints[0] for voter in self._voters]
        listeners = [f"{CLIENTS}://{host.name}:{PORT}"]
        if inter_broker != CLIENTS:
            listeners.append(f"{inter_broker}://{host.name}:{INTER_BROKER_PORT}")
        if self.is_controller:
            listeners.append(f"{LISTENER}://{host.name}:{CONTROLLER_PORT}")
        return {
            "process.roles": "broker,controller" if self.is_controller else "broker",
            "listeners": ",".join(listeners),
            "controller.listener.names": LISTENER,
            "controller.quorum.bootstrap.servers": ",".join(f"{end.host}:{end.port}" for end in ends),
        }

    def replace_disk(self) -> None:
        """Cut the power and insert an empty disk. Not for a controller, whose disk makes it a voter."""
        assert not self.is_controller, f"{self.name} is a voter by its disk"
        self.power_off()
        self.host.device.wipe()
        self._directory += 1
        self.key = ReplicaKey(self.node_id, directory_id(self.node_id, self._directory))

    def prepare(self, process: Process) -> None:
        first_voters = self._voters if self.is_controller else None
        format_once(process.disk, self.key, first_voters, cluster_id=self._cluster_id)
        for number, path in enumerate(self._settings["log.dirs"].split(",")[1:], 1):
            further = directory_id(self.node_id, FURTHER_DIRECTORIES * number + self._directory)
            format_further(process.disk, path, ReplicaKey(self.node_id, further), cluster_id=self._cluster_id)

    def quorum_channel(self, config: BrokerConfig, process: Process) -> NodeChannel | None:
        return object_channel(config, process, self.peers) if self.peers else None


class SimulatedCluster:
    """All nodes of a cluster, not started."""

    def __init__(self, brokers: Sequence[ClusterBroker], controllers: Sequence[SimulatedController]) -> None:
        self.brokers = brokers
        self.controllers = controllers
        """Nodes that are only controllers."""
        self.nodes: list[AnyNode] = [*controllers, *brokers]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses that clients connect to."""
        return ",".join(broker.bootstrap_server for broker in self.brokers)

    @property
    def voters(self) -> Sequence[AnyNode]:
        """Nodes that are voters of the quorum."""
        return self.controllers or self.brokers

    @property
    def active_controller(self) -> AnyNode | None:
        """Controller that leads and may write; the one with the highest epoch if several believe that they lead."""
        active = [(log.epoch, node) for node in self.voters if (log := node.metadata_log) is not None and log.is_active]
        return max(active, key=lambda each: each[0], default=(0, None))[1]

    async def start(self) -> None:
        """Start all nodes that do not run; return when they serve. Raises the exception of a start."""
        await asyncio.gather(*(node.start() for node in self.nodes if not node.is_running))


def make_cluster(
    brokers: Sequence[Host], controllers: Sequence[Host], config: Mapping[str, str], *, as_objects: bool
) -> SimulatedCluster:
    """Return a cluster on these hosts; without controllers, every broker is one."""
    broker_hosts = dict(enumerate(brokers, 1))
    controller_hosts = dict(enumerate(controllers, FIRST_CONTROLLER_ID))
    voters = voter_set({node_id: host.name for node_id, host in (controller_hosts or broker_hosts).items()})
    cluster = SimulatedCluster(
        [ClusterBroker(host, config, node_id=number, voters=voters) for number, host in broker_hosts.items()],
        [
            SimulatedController(host, node_id=number, voters=voters, config=config)
            for number, host in controller_hosts.items()
        ],
    )
    if as_objects:
        for broker in cluster.brokers:
            broker.peers = cluster.voters
        for controller in cluster.controllers:
            controller.peers = cluster.voters
    return cluster
