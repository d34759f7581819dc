"""Metadata logs of several nodes: real files, the real codec, virtual time, and a network with cuts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from kwire.cluster.channel import Destination, Unreachable
from kwire.cluster.formatting.formatting import bootstrap_records
from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.voters import Listener, ReplicaKey, Voter, VoterSet
from kwire.cluster.raft.control_batches import kraft_version
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.raft.metadata_node import open_metadata_log
from kwire.cluster.raft.snapshots import encode_snapshot
from kwire.cluster.raft.snapshotting import SnapshotConfig, Snapshotting
from kwire.log.disk import RealDisk
from kwire.log.files import METADATA_DIRECTORY
from kwire.log.recovery import Surroundings
from kwire.protocol.codec import decode, encode
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.messages.metadata_records import TopicRecord
from kwire.protocol.schema import find_message, schema_of
from kwire.seams import SystemRandomSource
from tests.cluster.world import InlineWorkers
from tests.virtual_loop import VirtualClock, VirtualLoop

CLUSTER_ID = "quorum-of-some"
CONTROLLER = "CONTROLLER"
PORT = 9093
DELAY_SECONDS = 0.001


def voter(node_id: int) -> Voter:
    return Voter(
        key=ReplicaKey(node_id, UUID(int=node_id)),
        endpoints=(Listener(CONTROLLER, f"node-{node_id}", PORT),),
        max_kraft_version=1,
    )


class World:
    """Nodes by id: 1 to `voters` vote, others observe."""

    def __init__(self, directory: Path, loop: VirtualLoop, *, voters: int) -> None:
        self.loop = loop
        self.directory = directory
        self.voters = VoterSet(voter(number) for number in range(1, voters + 1))
        self.nodes: dict[int, MetadataLog] = {}
        self.workers: dict[int, InlineWorkers] = {}
        """Workers by node; held workers prevent flushes of a node."""
        self.disks: dict[int, RealDisk] = {}
        """Disks of the nodes that do not use a new one."""
        self.cut: set[tuple[int, int]] = set()
        """Links (from, to) that lose all messages."""

    # --- nodes

    def start(self, *node_ids: int) -> None:
        async def call() -> None:
            for node_id in node_ids:
                self.nodes[node_id] = self._open(node_id)
                self.nodes[node_id].start()

        self.run(call())

    def kill(self, node_id: int) -> None:
        """Kill a node; it sends no notice to the others."""
        self.run(self.nodes.pop(node_id).close())

    def close(self) -> None:
        for node_id in list(self.nodes):
            self.kill(node_id)

    def _open(self, node_id: int) -> MetadataLog:
        disk = self.disks.get(node_id) or RealDisk()
        home = str(self.directory / f"node-{node_id}")
        metadata = f"{home}/{METADATA_DIRECTORY}"
        if not disk.is_directory(metadata):
            disk.make_directory(metadata)
            disk.replace(f"{metadata}/{'0' * 20}-{'0' * 10}.checkpoint", self._first_snapshot(), sync=True)
        return open_metadata_log(
            QuorumConfig(
                cluster_id=CLUSTER_ID,
                node_id=node_id,
                directory_id=UUID(int=node_id),
                listener=CONTROLLER,
                endpoints=voter(node_id).endpoints,
                bootstrap_servers=tuple((f"node-{each}", PORT) for each in sorted(self.voters.ids)),
            ),
            directory=metadata,
            surroundings=Surroundings(
                disk=disk, clock=VirtualClock(self.loop), random_source=SystemRandomSource(node_id)
            ),
            workers=self.workers.setdefault(node_id, InlineWorkers()),
            channel=MemoryChannel(self, node_id),
            static_voters=None,
            bootstrap=bootstrap_records(disk, home),
            segment_bytes=10_000,
            segment_ms=10**9,
        )

    def _first_snapshot(self) -> bytes:
        controls = [kraft_version(), (ControlRecordType.KRAFT_VOTERS, self.voters.to_record())]
        return b"".join(encode_snapshot([], controls=controls, epoch=0, now_ms=0, last_contained_timestamp_ms=0))

    # --- time and network

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Let time pass until the condition holds."""

        async def wait() -> None:
            async with asyncio.timeout(seconds):
                while not condition():
                    await asyncio.sleep(0.01)

        self.run(wait())

    def isolate(self, node_id: int) -> None:
        for other in range(1, 10):
            self.cut |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        self.cut.clear()

    # --- observations

    def leaders(self) -> list[MetadataLog]:
        return [log for log in self.nodes.values() if log.is_active]

    def leader(self) -> MetadataLog:
        """Return the serving leader, once all nodes follow the same one."""
        self.until(lambda: self.leaders() and self.agree(self.nodes.values()))
        return max(self.leaders(), key=lambda log: log.epoch)

    def agree(self, logs: Iterable[MetadataLog]) -> bool:
        return len({(log.epoch, log.node.quorum.leader_id) for log in logs}) == 1

    def id_of(self, log: MetadataLog) -> int:
        return next(node_id for node_id, each in self.nodes.items() if each is log)


class MemoryChannel:
    """Channel from one node to the others; messages go through the real codec, in its newest versions."""

    def __init__(self, world: World, source: int) -> None:
        self._world = world
        self._source = source

    async def send(self, destination: Destination, request: Any) -> Any:
        target_id = int(destination.host.removeprefix("node-"))
        await self._travel(self._source, target_id)
        target = self._world.nodes.get(target_id)
        if target is None:
            raise Unreachable(destination.host)
        schema = schema_of(type(request))
        assert schema.key is not None
        version = schema.versions.high
        message = decode(type(request), version, _encoded(request, version))
        response = await target.node.request(message, version=version, listener=CONTROLLER)
        await self._travel(target_id, self._source)
        described = find_message("response", schema.key)
        assert described is not None
        return decode(described.cls, version, _encoded(response, version))

    async def _travel(self, source: int, target: int) -> None:
        await asyncio.sleep(DELAY_SECONDS)
        if (source, target) in self._world.cut:
            await asyncio.sleep(60)
            raise Unreachable(f"node-{target}")


def _encoded(message: Any, version: int) -> bytes:
    out = bytearray()
    encode(message, version, out)
    return bytes(out)


# --- helpers for tests


SNAPSHOTS = SnapshotConfig(bytes_between=2000, interval_ms=0, retention_bytes=4000, retention_ms=-1)


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=UUID(int=sum(name.encode())))


def write(world: World, log: MetadataLog, *records: Any) -> int:
    async def call() -> int:
        written = log.append(list(records))
        await log.committed(written)
        return written.offset

    return int(world.run(call()))


def all_have(world: World, *names: str) -> bool:
    return all(set(log.image.topics) == set(names) for log in world.nodes.values())


def snapshot(world: World, log: MetadataLog) -> OffsetAndEpoch:
    """Write all committed records into a snapshot and remove the log before it."""
    made = world.run(Snapshotting(log, SNAPSHOTS, clock=VirtualClock(world.loop)).make())
    assert made is not None
    log.node.log.clean_before(made)
    return OffsetAndEpoch(*made)
