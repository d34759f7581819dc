"""Replicas in virtual time, with disks that crash and a network that loses messages: the quorum's driver for tests.

World runs each Ready in its order, and may crash a node between two of its parts. It checks the invariants after every
event (see invariants.py).
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.machine import Quorum
from kwire.cluster.quorum.ready import Answer, LogRead, Ready, Send, SnapshotRead
from kwire.cluster.quorum.state import QuorumState
from kwire.cluster.quorum.voter_history import QuorumRecord
from kwire.cluster.quorum.voters import Listener, ReplicaKey, Voter, VoterSet
from kwire.protocol.codec import decode, encode
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from kwire.protocol.messages.control_records import KRaftVersionRecord
from kwire.protocol.schema import schema_of
from kwire.seams import SystemRandomSource
from tests.cluster.quorum.invariants import Invariants
from tests.cluster.quorum.memory_log import MemoryLog

CLUSTER = "cluster"
LISTENER = "CONTROLLER"


def directory(node_id: int, disk: int = 0) -> UUID:
    return UUID(int=(node_id << 8) + disk + 2**64)


def endpoints(node_id: int) -> tuple[Listener, ...]:
    return (Listener(LISTENER, f"node{node_id}", 9000 + node_id),)


def voter(node_id: int, disk: int = 0) -> Voter:
    key = ReplicaKey(node_id, directory(node_id, disk))
    return Voter(key=key, endpoints=endpoints(node_id), min_kraft_version=0, max_kraft_version=1)


@dataclass(slots=True)
class Node:
    """A replica: the contents of its disk, and its quorum while it runs."""

    node_id: int
    config: QuorumConfig
    log: MemoryLog
    disk: int = 0
    stored: QuorumState = field(default_factory=QuorumState)
    static_voters: VoterSet | None = None
    quorum: Quorum | None = None
    life: int = 0
    """Number that each start and stop increases: messages to an earlier life are dropped."""
    tick_at: float = math.inf
    fetched: bytes = b""
    crash_in: int = -1
    """Number of parts of a Ready until the node crashes; negative: no crash."""

    @property
    def running(self) -> Quorum:
        assert self.quorum is not None, f"node {self.node_id} does not run"
        return self.quorum


class CrashedError(Exception):
    """Simulated crash: the node's process ended within a step."""


class World:
    def __init__(self, seed: int = 0, *, through_codec: bool = False) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0.0
        self.nodes: dict[int, Node] = {}
        self.cut: set[tuple[int, int]] = set()
        """Links (from, to) that drop all messages."""
        self.loss = 0.0
        self.duplication = 0.0
        self.latency_ms = (1.0, 5.0)
        self.flush_ms = (0.5, 3.0)
        self.invariants = Invariants(self)
        self.client_answers: list[tuple[str, Any]] = []
        self.trace: Callable[[str], None] = lambda text: None
        self._through_codec = through_codec
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0

    # --- nodes

    def add_node(self, node_id: int, **settings: Any) -> Node:
        bootstrap = tuple((f"node{it}", 9000 + it) for it in settings.pop("bootstrap", ()))
        disk = settings.pop("disk", 0)
        config = QuorumConfig(
            cluster_id=CLUSTER,
            node_id=node_id,
            directory_id=directory(node_id, disk),
            listener=LISTENER,
            endpoints=endpoints(node_id),
            bootstrap_servers=bootstrap,
            **settings,
        )
        node = self.nodes[node_id] = Node(node_id=node_id, config=config, log=MemoryLog(), disk=disk)
        return node

    def add_voters(self, *ids: int, **settings: Any) -> None:
        """Format nodes as the voters of a new cluster."""
        voters = VoterSet(voter(node_id) for node_id in ids)
        for node_id in ids:
            node = self.add_node(node_id, bootstrap=ids, **settings)
            node.log.bootstrap((KRaftVersionRecord(kraft_version=1), voters.to_record()))
        for node_id in ids:
            self.start(node_id)

    def add_static_voters(self, *ids: int) -> None:
        """Create nodes that get each other's addresses from controller.quorum.voters."""
        voters = VoterSet.static([(it, f"node{it}", 9000 + it) for it in ids], LISTENER)
        for node_id in ids:
            self.add_node(node_id).static_voters = voters
        for node_id in ids:
            self.start(node_id)

    def add_observer(self, node_id: int, *bootstrap: int, **settings: Any) -> None:
        self.add_node(node_id, bootstrap=bootstrap, **settings)
        self.start(node_id)

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        node.life += 1
        node.fetched = b""
        node.crash_in = -1
        node.tick_at = math.inf
        node.quorum = Quorum(
            config=node.config,
            state=node.stored,
            log=node.log,
            random_source=SystemRandomSource(self.random.randrange(2**32)),
            static_voters=node.static_voters,
            records=node.log.records(),
        )
        node.quorum.start(self.now_ms)
        self.pump(node)

    def crash(self, node_id: int) -> None:
        """End the process; unflushed data is lost."""
        node = self.nodes[node_id]
        node.life += 1
        node.quorum = None
        node.log.crash()

    def wipe(self, node_id: int) -> None:
        """Give the node an empty disk with another directory id."""
        self.crash(node_id)
        old = self.nodes[node_id]
        bootstrap = [it for it in self.nodes if it != node_id]
        node = self.add_node(node_id, bootstrap=bootstrap, disk=old.disk + 1, auto_join=old.config.auto_join)
        node.life = old.life

    # --- time

    def at(self, delay_ms: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._sequence, action))

    def step(self) -> bool:
        """Run the next event; return False if no event is left."""
        if not self._events:
            return False
        when, _, action = heapq.heappop(self._events)
        self.now_ms = max(self.now_ms, when)
        action()
        self.invariants.check()
        return True

    def run(self, duration_ms: float) -> None:
        end = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= end:
            self.step()
        self.now_ms = end

    def run_until(self, condition: Callable[[], bool], limit_ms: float = 60_000) -> None:
        end = self.now_ms + limit_ms
        while not condition():
            assert self.now_ms <= end, f"not within {limit_ms} ms"
            assert self.step(), "nothing happens any more"

    # --- actions of the driver

    def pump(self, node: Node) -> None:
        """Run all actions that the node's quorum requests."""
        try:
            while node.quorum is not None and (ready := node.quorum.take()) is not None:
                offsets = self._carry_out(node, ready)
                records = self._snapshot_chunk(node, ready)
                self._tell(node, ready)
                node.running.done(self.now_ms, control_offsets=offsets, snapshot_records=records)
        except CrashedError:
            self.crash(node.node_id)
        self._schedule_tick(node)

    def _carry_out(self, node: Node, ready: Ready) -> list[int]:
        life = node.life
        if ready.store is not None:
            self.invariants.storing(node, ready.store)
            node.stored = ready.store
            self._maybe_crash(node)
        if ready.truncate_to is not None:
            self.trace(f"{node.node_id} truncates to {ready.truncate_to}")
            self.invariants.truncated(node, node.log.truncate(ready.truncate_to))
            self._maybe_crash(node)
        offsets = [node.log.append_control(batch.epoch, batch.records) for batch in ready.append_control]
        if ready.append_records is not None:
            node.log.append_records(bytes(ready.append_records), node.running.epoch)
        if offsets or ready.append_records is not None:
            self._maybe_crash(node)
            self.at(self.random.uniform(*self.flush_ms), lambda: self._flush(node, life))
        return offsets

    def _tell(self, node: Node, ready: Ready) -> None:
        if ready.high_watermark is not None:
            self.invariants.committed(node, ready.high_watermark)
        if ready.leadership is not None:
            said = ready.leadership
            if said.leader_id == node.node_id and node.running.is_leader:
                self.invariants.elected(node)
            self.trace(
                f"{node.node_id}: leader {said.leader_id} epoch {said.epoch}" + " established" * said.is_established
            )
        for answer in ready.answers:
            self._maybe_crash(node)
            self.invariants.answering(node, answer)
            self._deliver_answer(node, answer)
        for send in ready.sends:
            self._maybe_crash(node)
            self.invariants.sending(node, send)
            self._transmit(node, send)

    def _maybe_crash(self, node: Node) -> None:
        if node.crash_in > 0:
            node.crash_in -= 1
        elif node.crash_in == 0:
            raise CrashedError

    def _snapshot_chunk(self, node: Node, ready: Ready) -> tuple[QuorumRecord, ...] | None:
        chunk = ready.snapshot_chunk
        if chunk is None:
            return None
        node.fetched = (b"" if chunk.position == 0 else node.fetched) + bytes(chunk.data)
        assert len(node.fetched) == chunk.position + len(chunk.data), "pieces come in order"
        if not chunk.is_last:
            return None
        snapshot = node.log.install_snapshot(chunk.snapshot_id, node.fetched)
        self.trace(f"{node.node_id} has snapshot {chunk.snapshot_id.offset}-{chunk.snapshot_id.epoch}")
        self.invariants.installed(node)
        return snapshot.records

    def flush_now(self, node_id: int) -> None:
        self._flush(self.nodes[node_id], self.nodes[node_id].life)

    def _flush(self, node: Node, life: int) -> None:
        if node.life == life:
            node.log.flush()
            self._into(node, life, lambda quorum: quorum.flushed(self.now_ms))

    def _into(self, node: Node, life: int, call: Callable[[Quorum], None]) -> None:
        if node.life == life and node.quorum is not None:
            call(node.quorum)
            self.pump(node)

    def _schedule_tick(self, node: Node) -> None:
        if node.quorum is None or math.isinf(node.quorum.next_deadline_ms):
            return
        deadline = node.quorum.next_deadline_ms
        assert deadline > self.now_ms, f"node {node.node_id} would be called without end"
        if self.now_ms < node.tick_at <= deadline:
            return
        node.tick_at = deadline
        life = node.life

        def tick() -> None:
            if node.tick_at == deadline and node.life == life:
                node.tick_at = math.inf
            self._into(node, life, lambda quorum: quorum.tick(self.now_ms))

        self.at(deadline - self.now_ms, tick)

    # --- the network

    def _can_pass(self, source: int, target: int) -> bool:
        return (source, target) not in self.cut and self.random.random() >= self.loss

    def _latency(self) -> float:
        return self.random.uniform(*self.latency_ms)

    def _transmit(self, node: Node, send: Send) -> None:
        target_id = int(send.destination.host.removeprefix("node"))
        source, life = node.node_id, node.life
        request = self._coded(send.request)
        target = self.nodes.get(target_id)
        if target is None or target.quorum is None or not self._can_pass(source, target_id):
            if self.random.random() < 0.7:
                self.at(self._latency(), lambda: self._reject(node, life, send))
            return
        token = (source, life, send.correlation_id)
        times = 2 if self.random.random() < self.duplication else 1
        for _ in range(times):
            self.at(self._latency(), lambda: self._arrive(target_id, token, request))

    def _reject(self, node: Node, life: int, send: Send) -> None:
        self._into(node, life, lambda quorum: quorum.unreachable(send.correlation_id, self.now_ms))

    def _arrive(self, target_id: int, token: Any, request: Any) -> None:
        target = self.nodes[target_id]
        if isinstance(request, ApiVersionsRequest):
            features = [SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)]
            if target.quorum is not None:
                self._deliver_answer(
                    target, Answer(token=token, response=ApiVersionsResponse(supported_features=features))
                )
            return
        version = schema_of(type(request)).versions.high
        self._into(
            target,
            target.life,
            lambda quorum: quorum.request(token, request, version=version, listener=LISTENER, now_ms=self.now_ms),
        )

    def _deliver_answer(self, node: Node, answer: Answer) -> None:
        response = answer.response
        if isinstance(answer.read, LogRead):
            response.responses[0].partitions[0].records = node.log.read(answer.read.offset)
        elif isinstance(answer.read, SnapshotRead):
            read = answer.read
            data = node.log.snapshots[read.snapshot_id][read.position : read.position + min(read.max_bytes, 700)]
            response.topics[0].partitions[0].unaligned_records = data
        if isinstance(answer.token, str):
            self.client_answers.append((answer.token, response))
            return
        source, life, correlation_id = answer.token
        if not self._can_pass(node.node_id, source):
            return
        response = self._coded(response)
        target = self.nodes[source]
        self.at(
            self._latency(),
            lambda: self._into(target, life, lambda quorum: quorum.response(correlation_id, response, self.now_ms)),
        )

    def _coded(self, message: Any) -> Any:
        """Return the message after it was encoded and decoded, in its newest version."""
        if not self._through_codec:
            return message
        out = bytearray()
        version = schema_of(type(message)).versions.high
        encode(message, version, out)
        return decode(type(message), version, bytes(out))

    # --- actions of tests

    def ask(
        self, node_id: int, token: str, message: Any, *, version: int | None = None, listener: str = LISTENER
    ) -> None:
        """Send a client's request to a node; the response is stored in client_answers."""
        node = self.nodes[node_id]
        version = schema_of(type(message)).versions.high if version is None else version
        self._into(
            node,
            node.life,
            lambda quorum: quorum.request(token, message, version=version, listener=listener, now_ms=self.now_ms),
        )

    def answer_to(self, token: str) -> Any:
        return next((response for name, response in self.client_answers if name == token), None)

    def has_answered(self, token: str) -> bool:
        return self.answer_to(token) is not None

    def leader(self) -> Node | None:
        """Return the established leader of the newest epoch."""
        leaders = [node for node in self.nodes.values() if node.quorum is not None and node.quorum.is_leader]
        return max(leaders, key=lambda node: node.running.epoch, default=None)

    def elect(self, limit_ms: float = 30_000) -> Node:
        """Run until a leader has committed a record of its epoch."""
        self.run_until(lambda: self._established() is not None, limit_ms)
        found = self._established()
        assert found is not None
        return found

    def _established(self) -> Node | None:
        node = self.leader()
        if node is None:
            return None
        role = node.running.role
        return node if getattr(role, "has_high_watermark", False) else None

    def append(self, value: str) -> int | None:
        """Append a record at the leader, as its controller does, and return its offset."""
        node = self.leader()
        if node is None:
            return None
        offset = node.log.end_offset
        node.log.append(node.running.epoch, value)
        life = node.life
        self.at(self.random.uniform(*self.flush_ms), lambda: self._flush(node, life))
        self._into(node, life, lambda quorum: quorum.appended(self.now_ms))
        return offset

    def isolate(self, *ids: int) -> None:
        """Isolate these nodes: they receive messages only from each other."""
        for one in self.nodes:
            for other in self.nodes:
                if (one in ids) != (other in ids):
                    self.cut.add((one, other))

    def heal(self) -> None:
        self.cut.clear()

    def snapshot(self, node_id: int) -> bool:
        """Create a snapshot on a node of all records that it has as committed."""
        node = self.nodes[node_id]
        quorum = node.running
        ends = [batch.end for batch in node.log.now.batches if batch.end <= quorum.high_watermark]
        if not ends:
            return False
        history = quorum.history
        version = KRaftVersionRecord(kraft_version=history.kraft_version_at(ends[-1]))
        records = (version, history.voters_at(ends[-1]).to_record())
        if node.log.take_snapshot(ends[-1], records) is None:
            return False
        history.remove_before(ends[-1] - 1)
        return True
