"""Quorum of controller processes with observation and load: there must be a leader whenever a majority is connected."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_raft_voter import AddRaftVoterListener, AddRaftVoterRequest
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.protocol.uuids import uuid_from_text, uuid_to_text
from tests.campaign.ext4 import FileSystem
from tests.cluster_processes.network import Network
from tests.cluster_processes.nodes import CLUSTER_ID, PORT, ControllerNode, revive
from tests.cluster_processes.stored import compare, read_stored
from tests.cluster_processes.watch import QUESTION, VERSION, Sighting, Watch
from tests.cluster_processes.writers import Ledger, Writer
from tests.support.waiting import eventually

NEW_LEADER_SECONDS = 5.0
"""Maximum time without a leader while a majority is connected."""
GIVE_UP_SECONDS = 30.0
WRITERS = 2
SMALL_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "20000", "metadata.max.retention.bytes": "30000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Shape of a quorum."""

    voters: int = 3
    is_static: bool = False
    """True for controller.quorum.voters; otherwise the quorum is formed by `kwire format --initial-controllers`."""
    has_snapshots: bool = False
    """True for frequent snapshots, after which the log before them is removed."""
    has_disks: bool = False
    """True if each node has its own file system, whose power can be cut."""

    def __str__(self) -> str:
        formed = "static" if self.is_static else "dynamic"
        return f"{self.voters} {formed}{' with snapshots' if self.has_snapshots else ''}"


@dataclass(slots=True, kw_only=True)
class Figures:
    """Times in seconds from each fault that removed the leader and left a majority."""

    new_leader: list[float] = field(default_factory=list)
    next_write: list[float] = field(default_factory=list)
    """Times until the first acknowledged write after the same faults."""


class Quorum:
    """Quorum of controllers, created by `running_quorum`."""

    def __init__(self, nodes: Mapping[int, ControllerNode], network: Network, random_source: random.Random) -> None:
        self.nodes = dict(nodes)
        self.network = network
        self.watch = Watch(list(nodes.values()))
        self.ledger = Ledger()
        self.figures = Figures()
        self.problems: list[str] = []
        order = list(nodes.values())
        self._writers = [Writer(it, order, self.ledger, random.Random(random_source.random())) for it in range(WRITERS)]

    # --- possible leaders

    @property
    def majority(self) -> int:
        return len(self.nodes) // 2 + 1

    def can_lead(self, node_id: int) -> bool:
        """Return True if the node runs, and a majority of running nodes is connected to it in both directions."""
        joined = [it for it in self.nodes.values() if it.is_answering and self.network.are_joined(node_id, it.node_id)]
        return self.nodes[node_id].is_answering and len(joined) >= self.majority

    @property
    def leader(self) -> int:
        """Return the last leader that was observed."""
        return self.watch.leaders[self.watch.newest_epoch]

    @property
    def followers(self) -> list[int]:
        return [node_id for node_id in self.nodes if node_id != self.leader]

    # --- faults

    def suffer(self, what: str, harm: Callable[[], None]) -> None:
        """Cause a fault; if it removes the leader and leaves a majority, there must be another leader in time."""
        epoch, began = self.watch.newest_epoch, time.monotonic()
        leader = self.leader
        harm()
        if not self.can_lead(leader) and any(map(self.can_lead, self.nodes)):
            self._measure(what, began, lambda: self.watch.first_after(epoch, began))

    def heal(self, what: str) -> None:
        """End all faults; there must be a leader in time."""
        self.network.heal()
        revive(self.nodes.values())
        began = time.monotonic()
        self._measure(f"the end of {what}", began, lambda: self.watch.newest_since(began), counts=False)

    def _measure(self, what: str, began: float, look: Callable[[], Sighting | None], *, counts: bool = True) -> None:
        try:
            sighting = eventually(look, f"a leader after {what}", GIVE_UP_SECONDS)
            assert sighting is not None
            led = sighting.seconds
            write = eventually(lambda: self.ledger.first_after(led), f"a write after {what}", GIVE_UP_SECONDS)
            assert write is not None
        except AssertionError as error:
            self.problems.append(str(error))
            return
        if counts:
            self.figures.new_leader.append(led - began)
            self.figures.next_write.append(write - began)
        if led - began > NEW_LEADER_SECONDS:
            self.problems.append(f"no leader for {led - began:.1f} s after {what}")

    # --- voter changes (KIP-853)

    def replace_disk(self, node_id: int) -> None:
        """Replace a controller's disk: its old directory id leaves the voters, and the new one joins once it has caught
        up.
        """
        node = self.nodes[node_id]
        old = uuid_from_text(node.directory_id)
        self.suffer(f"the death of {node_id}", node.kill)
        node.wipe()
        self._change_voters(_removal(node, old), 0, {ErrorCode.NONE, ErrorCode.VOTER_NOT_FOUND})
        node.start()
        node.wait_until_ready()
        new = uuid_from_text(node.directory_id)
        assert new != old
        self._change_voters(_addition(node, new), 1, {ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER})

    def _change_voters(self, request: Any, version: int, done: set[ErrorCode]) -> None:
        """Repeat a request at the current leader until it succeeds: obstacles to a voter change are temporary."""
        answers: Counter[str] = Counter()

        def is_done() -> bool:
            try:
                answer = self.nodes[self.leader].ask(request, version, GIVE_UP_SECONDS)
            except OSError as error:
                answers[repr(error)] += 1
                return False
            answers[f"{answer.error_code} {answer.error_message}"] += 1
            return answer.error_code in done

        what = f"{type(request).__name__} for {request.voter_id}"
        try:
            eventually(is_done, what, GIVE_UP_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}; the answers were {dict(answers)}") from None

    # --- the end

    def finish(self) -> None:
        """Stop the writers, let all nodes catch up, stop them, and check their data."""
        for writer in self._writers:
            writer.finish()
        end = eventually(self._common_end, "all controllers have caught up", GIVE_UP_SECONDS) or 0
        self.watch.close()
        for node in self.nodes.values():
            node.kill()
        stored = {node_id: read_stored(node.data, end) for node_id, node in self.nodes.items()}
        self.problems += self.watch.problems + self.ledger.problems
        self.problems += compare(stored, self.watch.leaders, self.ledger, end)
        for node_id, node in self.nodes.items():
            self.problems += [f"controller {node_id} failed inside: {error}" for error in node.failures()]

    def _common_end(self) -> int | None:
        """Return the high watermark, once all voters have all records and all controllers are voters."""
        try:
            partition = self.nodes[self.leader].ask(QUESTION, VERSION, GIVE_UP_SECONDS).topics[0].partitions[0]
        except OSError:
            return None
        voters = {voter.replica_id: voter.log_end_offset for voter in partition.current_voters}
        end: int = partition.high_watermark
        return end if voters == dict.fromkeys(self.nodes, end) else None

    def abandon(self) -> None:
        """Kill all processes in any case."""
        for writer in self._writers:
            writer.finish()
        self.watch.close()
        for node in self.nodes.values():
            node.kill()


@contextmanager
def running_quorum(shape: Shape, scratch: Path, random_source: random.Random) -> Iterator[Quorum]:
    """Start a new quorum with a leader; at the end, no process is running and no disk is mounted."""
    with ExitStack() as stack:
        network = Network(range(1, shape.voters + 1))
        stack.callback(network.close)
        nodes: dict[int, ControllerNode] = {}
        for node_id in network.nodes:
            directory = scratch / str(node_id)
            directory.mkdir(parents=True)
            disk = FileSystem(directory, "", megabytes=64) if shape.has_disks else None
            if disk is not None:
                disk.mount()
                stack.callback(disk.unmount)
            nodes[node_id] = ControllerNode(node_id, network, directory, _settings(shape, network), disk=disk)
        _format(shape, nodes, random_source)
        quorum = Quorum(nodes, network, random_source)
        stack.callback(quorum.abandon)
        for node in nodes.values():
            node.start()
        for node in nodes.values():
            node.wait_until_ready()
        eventually(lambda: quorum.watch.leaders, "a first leader", GIVE_UP_SECONDS)
        eventually(lambda: quorum.ledger.acknowledged, "a first write", GIVE_UP_SECONDS)
        yield quorum


def _settings(shape: Shape, network: Network) -> dict[str, str]:
    addresses = {node: f"{network.address(node)}:{PORT}" for node in network.nodes}
    settings = dict(SMALL_SNAPSHOTS) if shape.has_snapshots else {}
    if shape.is_static:
        settings["controller.quorum.voters"] = ",".join(f"{node}@{address}" for node, address in addresses.items())
    else:
        settings["controller.quorum.bootstrap.servers"] = ",".join(addresses.values())
    return settings


def _format(shape: Shape, nodes: Mapping[int, ControllerNode], random_source: random.Random) -> None:
    voters = [
        f"{node_id}@{node.address}:{uuid_to_text(UUID(int=random_source.getrandbits(128), version=4))}"
        for node_id, node in nodes.items()
    ]
    for node in nodes.values():
        node.format(*(() if shape.is_static else ("--initial-controllers", ",".join(voters))))


def cut_power(quorum: Quorum) -> None:
    """Cut the power of all nodes at once: un-synced data is lost. The disks are mounted again; all processes have
    ended.
    """
    disks = [node.disk for node in quorum.nodes.values() if node.disk is not None]
    for disk in disks:
        disk.cut()
    for node in quorum.nodes.values():
        node.kill()
    for disk in disks:
        disk.unmount()
        disk.mount()


def _removal(node: ControllerNode, directory_id: UUID) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=node.node_id, voter_directory_id=directory_id)


def _addition(node: ControllerNode, directory_id: UUID) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=1000 * int(GIVE_UP_SECONDS),
        voter_id=node.node_id,
        voter_directory_id=directory_id,
        listeners=[AddRaftVoterListener(name="CONTROLLER", host=node.host, port=PORT)],
    )
