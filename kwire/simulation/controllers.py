"""Production controllers in a simulation: kwire.server.controller_server, unchanged, each on a host of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from kwire.cluster.control_batches import kraft_version
from kwire.cluster.directory import FIRST_SNAPSHOT, META_PROPERTIES, MetaProperties
from kwire.cluster.formatting import make_durably, write_identity
from kwire.cluster.quorum.voters import Listener, ReplicaKey, Voter, VoterSet
from kwire.cluster.snapshots import encode_snapshot
from kwire.log.log_manager import METADATA_DIRECTORY
from kwire.protocol.control_records import ControlRecordType
from kwire.server.controller_server import ControllerServer
from kwire.server.settings.config import make_config
from kwire.simulation.hosts import Host, Process
from kwire.simulation.nodes import SimulatedNode

PORT = 9093
LISTENER = "CONTROLLER"
DIRECTORY = "/kafka"
CLUSTER_ID = "simulated-cluster-0000"


def voter_set(hosts: Mapping[int, str]) -> VoterSet:
    """The controllers by id, in the directories that they are formatted with."""
    return VoterSet(
        Voter(
            key=ReplicaKey(node_id, directory_id(node_id)),
            endpoints=(Listener(LISTENER, host, PORT),),
            max_kraft_version=1,
        )
        for node_id, host in hosts.items()
    )


def directory_id(node_id: int) -> UUID:
    """That of a controller's first disk."""
    return UUID(int=1000 + node_id)


class SimulatedController(SimulatedNode[ControllerServer]):
    """A controller on a host of its own. Its directory is formatted at its first start."""

    def __init__(self, host: Host, *, node_id: int, voters: VoterSet, config: Mapping[str, str]) -> None:
        super().__init__(host)
        self.node_id = node_id
        self._voters = voters
        servers = [voter.endpoints[0] for voter in voters]
        self._settings = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"{LISTENER}://{host.name}:{PORT}",
            "controller.listener.names": LISTENER,
            "controller.quorum.bootstrap.servers": ",".join(f"{each.host}:{each.port}" for each in servers),
            "log.dirs": DIRECTORY,
            "socket.send.buffer.bytes": "-1",
            "socket.receive.buffer.bytes": "-1",
            **config,
        }

    def make(self, process: Process) -> ControllerServer:
        self._format(process)
        return ControllerServer(
            make_config(self._settings),
            clock=process.clock,
            chance=process.chance,
            disk=process.disk,
            workers=process.workers,
        )

    def _format(self, process: Process) -> None:
        """What `kwire format --initial-controllers` writes."""
        disk = process.disk
        if disk.exists(f"{DIRECTORY}/{META_PROPERTIES}"):
            return
        metadata = f"{DIRECTORY}/{METADATA_DIRECTORY}"
        make_durably(disk, metadata)
        controls = [kraft_version(), (ControlRecordType.KRAFT_VOTERS, self._voters.to_record())]
        content = encode_snapshot([], controls=controls, epoch=0, now_ms=0, last_contained_timestamp_ms=0)
        disk.replace(f"{metadata}/{FIRST_SNAPSHOT}", b"".join(content), sync=True)
        identity = MetaProperties(cluster_id=CLUSTER_ID, node_id=self.node_id, directory_id=directory_id(self.node_id))
        write_identity(disk, DIRECTORY, identity)


def controllers(hosts: Sequence[Host], config: Mapping[str, str]) -> list[SimulatedController]:
    """A quorum of these hosts, with the ids 1, 2, 3 and so on."""
    voters = voter_set({number: host.name for number, host in enumerate(hosts, 1)})
    return [
        SimulatedController(host, node_id=number, voters=voters, config=config) for number, host in enumerate(hosts, 1)
    ]
