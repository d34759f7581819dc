"""Named scenarios in which other systems, or Kafka itself, once lost or corrupted acknowledged records.

Each is a function that runs on a new cluster and raises AssertionError; tests/campaign/brokers.py runs them all.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.cluster_processes.broker_cluster import CLIENTS, BrokerCluster, BrokerShape, running_brokers
from tests.cluster_processes.broker_faults import BALLAST, controller_of
from tests.cluster_processes.brokers import CLIENT_PORT, BrokerNode
from tests.cluster_processes.probe import SETTINGS
from tests.cluster_processes.replicas import PartitionState
from tests.cluster_processes.same_logs import compare_replicas
from tests.cluster_processes.workload import read_topic
from tests.history.clients.raw_producer import Producer as RawProducer
from tests.history.clients.raw_producer import RejectedError
from tests.history.clients.routes import FIND_VERSION, TRANSACTIONAL
from tests.history.journal import Journal
from tests.support.waiting import eventually

SECONDS = 40.0
REJECTION_SECONDS = 6.0
"""Time for which a write is tried that must not be acknowledged."""
STILL_SECONDS = 6.0
"""Time in which an event must not happen: longer than a broker session."""
SOME = 200
Written = dict[tuple[int, int], str]
"""Acknowledged value by (partition, offset)."""


@dataclass(slots=True)
class Scene:
    """Topic of one partition, with its acknowledged records."""

    cluster: BrokerCluster
    topic: str = "scene"
    min_in_sync: int = 2
    replicas: Sequence[int] = ()
    """Replicas; the first one is the first leader."""
    written: Written = field(default_factory=dict)
    rejected: int = 0
    _number: int = 0

    def __post_init__(self) -> None:
        replicas = self.replicas or list(self.cluster.nodes)[:3]
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        configs = [CreatableTopicConfig(name="min.insync.replicas", value=str(self.min_in_sync))]
        topic = CreatableTopic(
            name=self.topic, num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=configs
        )
        [made] = self.cluster.nodes[1].ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7, SECONDS).topics
        assert made.error_code == 0, made
        self.until(lambda state: state.is_well, "it is there")

    # --- roles

    def state(self) -> PartitionState | None:
        return self.cluster.partitions().get((self.topic, 0))

    def until(self, condition: Callable[[PartitionState], bool], what: str) -> PartitionState:
        def state() -> PartitionState | None:
            found = self.state()
            return found if found is not None and condition(found) else None

        found = eventually(state, f"{self.topic}: {what}", SECONDS)
        assert found is not None
        return found

    def leader(self) -> BrokerNode:
        return self.cluster.nodes[self.until(lambda state: state.leader in self.cluster.nodes, "a leader").leader]

    def followers(self) -> list[BrokerNode]:
        leader = self.leader()
        return [node for node in self.cluster.nodes.values() if node is not leader]

    # --- writes and reads

    def write(self, count: int = SOME, *, acks: str = "all", seconds: float = SECONDS, padding_bytes: int = 0) -> int:
        """Write records and return the number of acknowledged ones; those with acks=all must survive."""
        reported: list[tuple[int, str]] = []
        idempotent = {"enable.idempotence": acks == "all", "acks": acks, "message.timeout.ms": int(seconds * 1000)}
        with self.cluster.network.inside(CLIENTS[0]):
            servers = {"bootstrap.servers": self.cluster.bootstrap_servers}
            producer = Producer({**SETTINGS, **servers, **idempotent})
            for _ in range(count):
                self._number += 1
                value = f"{self._number}{'.' * padding_bytes}".encode()
                producer.produce(self.topic, value, partition=0, on_delivery=_teller(reported))
            producer.flush(seconds + 5)
        if acks == "all":
            self.written |= {(0, offset): value for offset, value in reported}
        return len(reported)

    def check(self) -> Written:
        """Check that each acknowledged record exists once; return all records."""
        with self.cluster.network.inside(CLIENTS[0]):
            stored = read_topic(self.cluster.bootstrap_servers, self.topic, partitions=1)
        lost = {place: value for place, value in self.written.items() if stored.get(place) != value}
        assert not lost, f"{len(lost)} of {len(self.written)} acknowledged records are lost, as {min(lost.items())}"
        return stored

    def end(self) -> None:
        """Check the end: all replicas are in sync, all logs are equal, no acknowledged record is lost."""
        self.cluster.heal(self.topic)
        assert not self.cluster.problems, self.cluster.problems
        assert self.write(10) == 10
        self.check()
        self.until(lambda state: state.is_well, "all in sync")
        for node in self.cluster.nodes.values():
            node.terminate()
        data = {node_id: node.data for node_id, node in self.cluster.nodes.items()}
        assert (problems := compare_replicas(data, (self.topic,), 1)) == [], problems


def _teller(reported: list[tuple[int, str]]) -> Callable[[Any, Any], None]:
    def tell(error: Any, message: Any) -> None:
        if error is None:
            reported.append((message.offset(), message.value().decode()))

    return tell


def _lose_power(node: BrokerNode) -> None:
    """Cut the power of a node: un-synced data is lost. The disk is mounted again."""
    assert node.disk is not None
    node.disk.cut()
    node.kill()
    node.disk.unmount()
    node.disk.mount()


# --- scenarios


def last_replica_standing(cluster: BrokerCluster) -> None:
    """KIP-966: the last in-sync replica loses un-synced records; another replica has all records, did not crash
    meanwhile, and therefore may lead.
    """
    scene = Scene(cluster, replicas=(4, 5, 1))  # two of three controllers stay
    assert scene.write() == SOME
    leader, one, other = (cluster.nodes[each] for each in (4, 5, 1))
    one.kill()
    scene.until(lambda state: one.node_id not in state.in_sync, "one is out of sync")
    assert scene.write() == SOME
    other.pause()
    scene.until(lambda state: state.in_sync == (leader.node_id,), "the leader stands alone")
    assert scene.write(5, seconds=REJECTION_SECONDS) == 0, "it must not acknowledge alone"
    _lose_power(leader)
    leader.start()
    leader.wait_until_ready()
    other.resume()
    scene.until(lambda state: state.leader == other.node_id, "who has all that was acknowledged leads")
    scene.check()
    scene.end()


def jepsen_kafka_0_8(cluster: BrokerCluster) -> None:
    """Followers cannot fetch until the leader is alone in the in-sync set, and then the leader is killed.

    With min.insync.replicas=2 it must not have acknowledged records alone, and the others continue. With 1 it has, and
    no other replica may lead.
    """
    strict = Scene(cluster)
    leader = strict.leader()
    weak = Scene(cluster, "weak", 1, replicas=[leader.node_id, *(node.node_id for node in strict.followers())])
    assert strict.write() == weak.write() == SOME
    for node in strict.followers():
        cluster.network.cut_port(node.node_id, leader.node_id, CLIENT_PORT)
    assert strict.write(5, seconds=REJECTION_SECONDS) == 0, "it must not acknowledge alone"
    assert weak.write(50) == 50, "one replica is enough"
    for scene in (strict, weak):
        scene.until(lambda state: state.in_sync == (leader.node_id,), "the leader stands alone")
    leader.kill()
    cluster.network.heal()
    strict.until(lambda state: state.leader not in {leader.node_id, -1}, "another leader that was in sync")
    assert strict.write() == SOME
    state = weak.until(lambda state: state.leader != leader.node_id, "its leader is gone")
    assert state.leader == -1, "who lacks acknowledged records must not lead"
    leader.start()
    leader.wait_until_ready()
    weak.until(lambda state: state.leader == leader.node_id, "its leader is back")
    weak.check()
    strict.end()


def fast_leader_changes(cluster: BrokerCluster) -> None:
    """KIP-320: leaders return repeatedly without notice of the new leader, with records that no other replica has."""
    scene = Scene(cluster)
    for _ in range(5):
        assert scene.write(50) == 50
        leader = scene.leader()
        scene.write(20, acks="1", seconds=REJECTION_SECONDS)
        leader.pause()
        scene.until(lambda state, gone=leader.node_id: state.leader not in {gone, -1}, "another leader")  # type: ignore[misc]
        assert scene.write(50) == 50
        leader.resume()
    scene.end()


def hijacked_transactional_id(cluster: BrokerCluster) -> None:
    """A producer begins, its coordinator is killed, and another producer takes its transactional id over.

    Further writes and commits of the first producer must be rejected, and no consumer may read them.
    """
    scene = Scene(cluster)
    for protocol in ("v1", "v2"):
        with cluster.network.inside(CLIENTS[0]):
            name = f"hijacked-{protocol}"
            victim, thief = (RawProducer(name, cluster.bootstrap_servers, protocol) for _ in range(2))
            with closing(victim), closing(thief):
                victim.initialise()
                victim.send(f"{scene.topic}-0", f"{protocol}: lost")
                node = cluster.nodes[_coordinator(cluster, name)]
                node.kill()
                thief.initialise()
                place = 0, thief.send(f"{scene.topic}-0", f"{protocol}: kept")
                for attempt in (partial(victim.send, f"{scene.topic}-0", "late"), partial(victim.end, commit=True)):
                    try:
                        attempt()
                    except RejectedError:
                        continue
                    raise AssertionError(f"{protocol}: a producer whose id was taken over was not rejected")
                thief.end(commit=True)
                scene.written[place] = f"{protocol}: kept"
        cluster.heal(scene.topic)
    with cluster.network.inside(CLIENTS[0]):
        seen = read_topic(cluster.bootstrap_servers, scene.topic, partitions=1, level="committed")
    assert sorted(seen.values()) == ["v1: kept", "v2: kept"], seen
    scene.end()


def _coordinator(cluster: BrokerCluster, transactional_id: str) -> int:
    """Return the broker that coordinates the transactional id."""
    request = FindCoordinatorRequest(key_type=TRANSACTIONAL, coordinator_keys=[transactional_id])
    [found] = cluster.nodes[1].ask(request, FIND_VERSION, SECONDS).coordinators
    assert found.error_code == 0, found
    return int(found.node_id)


def one_corrupt_node(cluster: BrokerCluster) -> None:
    """Bits flip in an old segment on the node that becomes leader.

    Damaged records must not be served or replicated, and the other replicas must still have them.
    """
    scene = Scene(cluster)
    assert scene.write() == SOME
    corrupt = scene.leader()
    assert corrupt.terminate() in {0, 143}
    segment = corrupt.data / f"{scene.topic}-0" / f"{0:020}.log"
    damaged = bytearray(segment.read_bytes())
    for position in range(len(damaged) // 2, len(damaged) // 2 + 200, 40):
        damaged[position] ^= 0x10
    segment.write_bytes(damaged)
    corrupt.start()
    try:
        corrupt.wait_until_ready()
    except AssertionError:
        assert not corrupt.is_running, "it neither serves nor stops"
    scene.write(50)
    with suppress(AssertionError):  # it may stay out of the in-sync set
        scene.until(lambda state: state.is_well, "it is in sync")
        _elect_preferred(cluster)
    stored: Written = {}
    with cluster.network.inside(CLIENTS[0]), suppress(AssertionError):
        read_topic(cluster.bootstrap_servers, scene.topic, partitions=1, seconds=STILL_SECONDS, into=stored)
    wrong = {place: value for place, value in stored.items() if scene.written.get(place, value) != value}
    assert not wrong, f"what is damaged was served: {min(wrong.items())}"
    if cluster.shape.kind == "kwire":  # Apache Kafka's continues to serve its other records
        scene.until(lambda state: state.leader not in {corrupt.node_id, -1}, "it has handed over")
        scene.check()
    corrupt.kill()
    scene.until(lambda state: state.leader not in {corrupt.node_id, -1}, "one with a sound log leads")
    scene.check()
    data = {node.node_id: node.data for node in cluster.nodes.values() if node is not corrupt}
    assert (problems := compare_replicas(data, (scene.topic,), 1)) == [], f"it spread: {problems}"


def _elect_preferred(cluster: BrokerCluster) -> None:
    """Elect the preferred leaders of all partitions."""
    request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
    with suppress(OSError):
        cluster.nodes[controller_of(cluster)].ask(request, 2, SECONDS)


def full_disk_of_the_controller(cluster: BrokerCluster) -> None:
    """The metadata is on the full disk: another controller becomes active, others lead, and producers get no error."""
    full = cluster.nodes[controller_of(cluster)]
    scene = _on_a_full_disk(full, cluster)
    _make_topics_until(cluster, lambda: controller_of(cluster) != full.node_id, "another controller is active")
    _go_on_without(full, scene)


def full_disk_of_a_broker(cluster: BrokerCluster) -> None:
    """The metadata is on the full disk, so the broker cannot follow it: others lead, and the broker stops."""
    full = next(node for node_id, node in cluster.nodes.items() if node_id != controller_of(cluster))
    scene = _on_a_full_disk(full, cluster)
    _make_topics_until(cluster, lambda: full.has_ended_by_itself, f"broker {full.node_id} has ended")
    _go_on_without(full, scene)


def _make_topics_until(cluster: BrokerCluster, condition: Callable[[], bool], what: str) -> None:
    """Request new topics until the condition holds, whether they can be created or not."""
    numbers = count()

    def holds() -> bool:
        topic = CreatableTopic(name=f"more-{'x' * 200}-{next(numbers)}", num_partitions=3, replication_factor=2)
        with suppress(OSError):
            node = cluster.nodes[controller_of(cluster)]
            node.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7, SECONDS)
        return condition()

    eventually(holds, what, SECONDS)


def _go_on_without(full: BrokerNode, scene: Scene) -> None:
    """Check progress without the full broker, then free its disk; if it has ended, the cluster's heal starts it."""
    assert scene.write(50) == 50
    scene.check()
    assert full.disk is not None
    (full.disk.directory / BALLAST).unlink()
    full.kill()
    scene.end()


def _on_a_full_disk(full: BrokerNode, cluster: BrokerCluster) -> Scene:
    """Return the scene of a topic whose leader had to hand over because of its full disk."""
    others = [node_id for node_id in cluster.nodes if node_id != full.node_id]
    scene = Scene(cluster, replicas=[full.node_id, *others[:2]])
    assert scene.write() == SOME
    assert full.disk is not None
    full.disk.fill(full.disk.directory / BALLAST)

    def has_handed_over() -> bool:
        # The file system has reserved some megabytes for existing files.
        assert scene.write(padding_bytes=4000) == SOME, "a producer hears of the full disk"
        return scene.leader() is not full

    eventually(has_handed_over, "another one leads", SECONDS)
    scene.check()
    return scene


def all_power_cut_flushed(cluster: BrokerCluster) -> None:
    """All nodes lose power at once, with log.flush.interval.messages=1: no record is lost."""
    scene = Scene(cluster)
    assert scene.write() == SOME
    _cut_everywhere(cluster)
    cluster.heal("the power cut")
    scene.check()
    scene.end()


def all_power_cut(cluster: BrokerCluster) -> None:
    """All nodes lose power at once, with Kafka's default flushes: replicas may lose the end, but agree on a prefix."""
    scene = Scene(cluster)
    assert scene.write() == SOME
    acknowledged = list(scene.written.items())
    before = _log_bytes(scene)
    _cut_everywhere(cluster)
    after = _log_bytes(scene)
    assert any(after[node] < size for node, size in before.items()), f"the cut took nothing: {before}, then {after}"
    cluster.heal("the power cut")
    with cluster.network.inside(CLIENTS[0]):
        stored = read_topic(cluster.bootstrap_servers, scene.topic, partitions=1)
    kept = [place in stored for place, _ in acknowledged]
    assert kept == sorted(kept, reverse=True), "a hole"
    assert all(stored[place] == value for place, value in acknowledged if place in stored), "another value"
    scene.written.clear()
    scene.end()


def _log_bytes(scene: Scene) -> dict[int, int]:
    """Return the length of each node's log on its mounted disk."""
    logs = {each: node.data / f"{scene.topic}-0" / f"{0:020}.log" for each, node in scene.cluster.nodes.items()}
    return {each: log.stat().st_size if log.exists() else 0 for each, log in logs.items()}


def _cut_everywhere(cluster: BrokerCluster) -> None:
    nodes = list(cluster.nodes.values())
    for node in nodes:
        assert node.disk is not None
        node.disk.cut()
    for node in nodes:
        node.kill()
    for node in nodes:
        assert node.disk is not None
        node.disk.unmount()
        node.disk.mount()


SCENARIOS: Mapping[str, tuple[Callable[[BrokerCluster], None], BrokerShape]] = {
    play.__name__: (play, shape)
    for play, shape in (
        (last_replica_standing, BrokerShape(brokers=5, has_disks=True)),
        (jepsen_kafka_0_8, BrokerShape()),
        (fast_leader_changes, BrokerShape()),
        (hijacked_transactional_id, BrokerShape()),
        (one_corrupt_node, BrokerShape()),
        (full_disk_of_the_controller, BrokerShape(has_disks=True, has_metadata_on_disks=True)),
        (full_disk_of_a_broker, BrokerShape(has_disks=True, has_metadata_on_disks=True)),
        (all_power_cut_flushed, BrokerShape(has_disks=True, is_durable=True)),
        (all_power_cut, BrokerShape(has_disks=True)),
    )
}


def play(name: str, kind: str, directory: Path) -> str | None:
    """Run a scenario and return the problem; None if it succeeds."""
    directory.mkdir(parents=True)
    scenario, shape = SCENARIOS[name]
    journal = Journal(directory / "run.jsonl")
    try:
        with running_brokers(replace(shape, kind=kind), directory, random.Random(name), journal) as cluster:
            scenario(cluster)
            failures = [
                f"broker {each} failed inside: {said}"
                for each, node in cluster.nodes.items()
                for said in node.failures()
            ]
            return "; ".join(failures) or None
    except AssertionError as error:
        return str(error) or repr(error)
    finally:
        journal.close()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME", help=f"by default all of {', '.join(SCENARIOS)}")
    arguments.add_argument("--kind", choices=("kwire", "kafka"), default="kwire")
    arguments.add_argument("--directory", type=Path, help="where everything is kept; it must not be there yet")
    given = arguments.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="kwire-scenarios-")) / "run"
    found = {}
    for name in given.names or SCENARIOS:
        began = time.monotonic()
        found[name] = play(name, given.kind, directory / name)
        print(f"{name} on {given.kind}: {found[name] or 'well'} ({time.monotonic() - began:.0f} s)", flush=True)
    if not given.directory:
        shutil.rmtree(directory.parent)
    raise SystemExit(any(found.values()))


if __name__ == "__main__":
    main()
