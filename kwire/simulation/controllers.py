"""Production controllers in a simulation: the server of kwire.server.assembly, unchanged, each on a host of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from kwire.cluster.directory import FIRST_SNAPSHOT, META_PROPERTIES, MetaProperties
from kwire.cluster.formatting.formatting import make_durably, write_identity
from kwire.cluster.quorum.voters import Listener, ReplicaKey, Voter, VoterSet
from kwire.cluster.raft.control_batches import kraft_version
from kwire.cluster.raft.snapshots import encode_snapshot
from kwire.log.disk import Disk
from kwire.log.files import METADATA_DIRECTORY
from kwire.protocol.control_records import ControlRecordType
from kwire.server.assembly.controller_server import ControllerServer, start_controller
from kwire.server.node.node import Node
from kwire.server.node.runtime import Seams
from kwire.server.settings.config import make_config
from kwire.simulation.hosts import Host, Process
from kwire.simulation.nodes import AnyNode, SimulatedNode
from kwire.simulation.objects import object_channel

PORT = 9093
LISTENER = "CONTROLLER"
DIRECTORY = "/kafka"
CLUSTER_ID = "simulated-cluster-0000"


def voter_set(hosts: Mapping[int, str]) -> VoterSet:
    """Return the controllers by id, with the ids of their first directories."""
    return VoterSet(
        Voter(
            key=ReplicaKey(node_id, directory_id(node_id)),
            endpoints=(Listener(LISTENER, host, PORT),),
            max_kraft_version=1,
        )
        for node_id, host in hosts.items()
    )


def directory_id(node_id: int, disk: int = 0) -> UUID:
    """Return the directory id of a controller's first disk, or of a later one."""
    return UUID(int=1000 * (disk + 1) + node_id)


class SimulatedController(SimulatedNode[ControllerServer]):
    """Controller on a host of its own. Its directory is formatted at its first start."""

    def __init__(
        self,
        host: Host,
        *,
        node_id: int,
        voters: VoterSet,
        config: Mapping[str, str],
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        super().__init__(host)
        self.node_id = node_id
        self.peers: Sequence[AnyNode] = ()
        """All controllers of the quorum, if their messages are passed as objects; empty if they are passed as bytes."""
        self._voters = voters
        self._cluster_id = cluster_id
        self._disks_replaced = 0
        self.key = ReplicaKey(node_id, directory_id(node_id))
        """Key of the replica in the quorum."""
        servers = [voter.endpoints[0] for voter in voters]
        self._settings = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"{LISTENER}://{host.name}:{PORT}",
            "controller.listener.names": LISTENER,
            "controller.quorum.bootstrap.servers": ",".join(f"{each.host}:{each.port}" for each in servers),
            "socket.send.buffer.bytes": "-1",
            "socket.receive.buffer.bytes": "-1",
            **config,
            "log.dirs": DIRECTORY,  # only brokers have several
        }

    @property
    def listener(self) -> Listener:
        """Endpoint of the controller."""
        return Listener(LISTENER, self.host.name, PORT)

    def replace_disk(self) -> None:
        """Cut the power and insert an empty disk: after its next start it is no voter until it is added."""
        self.power_off()
        self.host.device.wipe()
        self._disks_replaced += 1
        self.key = ReplicaKey(self.node_id, directory_id(self.node_id, self._disks_replaced))

    async def start_server(self, process: Process, opened: Callable[[Node], None]) -> ControllerServer:
        voters = None if self._disks_replaced else self._voters
        format_once(process.disk, self.key, voters, cluster_id=self._cluster_id)
        config = make_config(self._settings)
        seams = Seams(
            clock=process.clock,
            random_source=process.random_source,
            disk=process.disk,
            workers=process.workers,
            quorum_channel=object_channel(config, process, self.peers) if self.peers else None,
            opened=opened,
        )
        return await start_controller(config, seams)


def format_once(disk: Disk, key: ReplicaKey, voters: VoterSet | None, *, cluster_id: str = CLUSTER_ID) -> None:
    """Format a blank directory like `kwire format`: with the first voters, or with --no-initial-controllers."""
    if disk.exists(f"{DIRECTORY}/{META_PROPERTIES}"):
        return
    metadata = f"{DIRECTORY}/{METADATA_DIRECTORY}"
    make_durably(disk, DIRECTORY if voters is None else metadata)
    if voters is not None:
        controls = [kraft_version(), (ControlRecordType.KRAFT_VOTERS, voters.to_record())]
        content = encode_snapshot([], controls=controls, epoch=0, now_ms=0, last_contained_timestamp_ms=0)
        disk.replace(f"{metadata}/{FIRST_SNAPSHOT}", b"".join(content), sync=True)
    node_id, directory = key
    write_identity(disk, DIRECTORY, MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory))


def format_further(disk: Disk, path: str, key: ReplicaKey, *, cluster_id: str = CLUSTER_ID) -> None:
    """Format another blank log directory of a node."""
    if not disk.exists(f"{path}/{META_PROPERTIES}"):
        make_durably(disk, path)
        node_id, directory = key
        write_identity(disk, path, MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory))


def controllers(hosts: Sequence[Host], config: Mapping[str, str], *, as_objects: bool) -> list[SimulatedController]:
    """Return the controllers of a quorum on these hosts, with the ids 1, 2, 3 and so on."""
    voters = voter_set({number: host.name for number, host in enumerate(hosts, 1)})
    nodes = [
        SimulatedController(host, node_id=number, voters=voters, config=config) for number, host in enumerate(hosts, 1)
    ]
    for node in nodes:
        node.peers = nodes if as_objects else ()
    return nodes
