"""A cluster in a simulation: brokers, and the controllers that they follow, be it the brokers themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from kwire.cluster.quorum.voters import ReplicaKey, VoterSet
from kwire.server.broker import BrokerServer
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
from kwire.simulation.objects import pass_objects

FIRST_CONTROLLER_ID = 101
"""Of controllers that are nothing else; brokers count from 1."""

FURTHER_DIRECTORIES: Final = 1000
"""Ids of log directories after the first one begin here."""


class ClusterBroker(SimulatedBroker):
    """A broker that belongs to a cluster, on a host of its own. Its directory is formatted at its first start."""

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
        """It is a controller as well if it is one of the voters. `directory` tells disks of one node apart."""
        self.key = ReplicaKey(node_id, directory_id(node_id, directory))
        self.is_controller = node_id in voters.ids
        self.peers: Sequence[AnyNode] = ()
        """The controllers, when the quorum's messages go as objects; none when they go as bytes."""
        self._voters = voters
        self._cluster_id = cluster_id
        self._directory = directory
        super().__init__(host, {**self._place_in_cluster(host), **config}, node_id=node_id)

    def _place_in_cluster(self, host: Host) -> dict[str, str]:
        ends = [voter.endpoints[0] for voter in self._voters]
        listeners = [f"PLAINTEXT://{host.name}:{PORT}"]
        if self.is_controller:
            listeners.append(f"{LISTENER}://{host.name}:{CONTROLLER_PORT}")
        return {
            "process.roles": "broker,controller" if self.is_controller else "broker",
            "listeners": ",".join(listeners),
            "controller.listener.names": LISTENER,
            "controller.quorum.bootstrap.servers": ",".join(f"{end.host}:{end.port}" for end in ends),
        }

    def replace_disk(self) -> None:
        """Take the power away and give it an empty disk. Not for one that is a controller, too: no voter is that."""
        assert not self.is_controller, f"{self.name} is a voter by its disk"
        self.power_off()
        self.host.device.wipe()
        self._directory += 1
        self.key = ReplicaKey(self.node_id, directory_id(self.node_id, self._directory))

    def make(self, process: Process) -> BrokerServer:
        first_voters = self._voters if self.is_controller else None
        format_once(process.disk, self.key, first_voters, cluster_id=self._cluster_id)
        for number, path in enumerate(self._settings["log.dirs"].split(",")[1:], 1):
            further = directory_id(self.node_id, FURTHER_DIRECTORIES * number + self._directory)
            format_further(process.disk, path, ReplicaKey(self.node_id, further), cluster_id=self._cluster_id)
        server = super().make(process)
        if self.peers:
            pass_objects(server, process, self.peers)
        return server


class SimulatedCluster:
    """All nodes of a cluster, not started."""

    def __init__(self, brokers: Sequence[ClusterBroker], controllers: Sequence[SimulatedController]) -> None:
        self.brokers = brokers
        self.controllers = controllers
        """Nodes that are controllers and nothing else."""
        self.nodes: list[AnyNode] = [*controllers, *brokers]

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to."""
        return ",".join(broker.bootstrap_server for broker in self.brokers)

    @property
    def voters(self) -> Sequence[AnyNode]:
        """The nodes that have the quorum among themselves."""
        return self.controllers or self.brokers

    @property
    def active_controller(self) -> AnyNode | None:
        """The controller that leads and may write; the newest one if several believe it."""
        active = [(log.epoch, node) for node in self.voters if (log := node.metadata_log) is not None and log.is_active]
        return max(active, key=lambda each: each[0], default=(0, None))[1]

    async def start(self) -> None:
        """Start all nodes that do not run; returns when they serve. Raises what a start raises."""
        await asyncio.gather(*(node.start() for node in self.nodes if not node.is_running))


def make_cluster(
    brokers: Sequence[Host], controllers: Sequence[Host], config: Mapping[str, str], *, as_objects: bool
) -> SimulatedCluster:
    """A cluster of these hosts; without controllers every broker is one."""
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
