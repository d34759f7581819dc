"""Faults of a cluster of brokers, by name; the seed selects them.

A fault calls BrokerCluster.suffer, which requires progress if the fault leaves a quorum and min.insync.replicas.
BrokerCluster.heal ends the fault.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from tests.cluster_processes.broker_cluster import BrokerCluster, BrokerShape
from tests.cluster_processes.brokers import BrokerNode
from tests.cluster_processes.watch import QUESTION, VERSION
from tests.cluster_processes.wire import Rule
from tests.support.waiting import eventually

Fault = Callable[[BrokerCluster, random.Random], None]
BOUNCES = 3
BALLAST = "ballast"
NO_SPACE = "No space left on device"
FULL_SECONDS = 30.0
"""Time limit until the last blocks of the file system are written."""
RESETS = 5


def controller_of(cluster: BrokerCluster) -> int:
    """Return the node that leads the metadata quorum."""

    def leader() -> int:
        for node in cluster.nodes.values():
            if node.is_answering:
                try:
                    partition = node.ask(QUESTION, VERSION, 2.0).topics[0].partitions[0]
                except OSError:
                    continue
                if partition.leader_id in cluster.nodes:
                    return int(partition.leader_id)
        return 0

    return eventually(leader, "a controller leads", 30.0)


def _leader(cluster: BrokerCluster, random_source: random.Random) -> BrokerNode:
    """Return the leader of a random partition that clients write to."""
    return cluster.nodes[cluster.leader_of(partition=random_source.randrange(3))]


def _others(cluster: BrokerCluster, node: BrokerNode) -> list[int]:
    return [other for other in cluster.nodes if other != node.node_id]


# --- processes


def kill_a_leader(cluster: BrokerCluster, random_source: random.Random) -> None:
    node = _leader(cluster, random_source)
    cluster.suffer(f"kill -9 of {node.node_id}", node.kill)


def kill_the_controller(cluster: BrokerCluster, random_source: random.Random) -> None:
    node = cluster.nodes[controller_of(cluster)]
    cluster.suffer(f"kill -9 of the controller {node.node_id}", node.kill)


def stop_a_leader(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Stop a leader cleanly by SIGTERM."""
    node = _leader(cluster, random_source)
    cluster.suffer(f"a clean stop of {node.node_id}", lambda: _note_status(cluster, node))


def _note_status(cluster: BrokerCluster, node: BrokerNode) -> None:
    status = node.terminate()
    if status not in {0, 143}:  # exit status of Java after a signal
        cluster.problems.append(f"the clean stop of {node.node_id} ended with status {status}")


def bounce_a_leader(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Kill a leader with kill -9 and start it again, several times, each time as soon as it serves."""
    node = _leader(cluster, random_source)

    def bounce() -> None:
        for _ in range(BOUNCES):
            node.kill()
            node.start()
            node.wait_until_ready()

    cluster.suffer(f"{BOUNCES} kills of {node.node_id}", bounce)


def kill_two(cluster: BrokerCluster, random_source: random.Random) -> None:
    victims = random_source.sample(sorted(cluster.nodes), 2)
    harm = _each(cluster.nodes[it].kill for it in victims)
    cluster.suffer(f"kill -9 of {victims}", harm, owes_progress=False)


def kill_everybody(cluster: BrokerCluster, random_source: random.Random) -> None:
    cluster.suffer("kill -9 of all", _each(node.kill for node in cluster.nodes.values()), owes_progress=False)


def pause_a_leader(cluster: BrokerCluster, random_source: random.Random) -> None:
    node = _leader(cluster, random_source)
    cluster.suffer(f"a pause of {node.node_id}", node.pause)


def pause_the_controller(cluster: BrokerCluster, random_source: random.Random) -> None:
    node = cluster.nodes[controller_of(cluster)]
    cluster.suffer(f"a pause of the controller {node.node_id}", node.pause)


def pause_everybody(cluster: BrokerCluster, random_source: random.Random) -> None:
    cluster.suffer("a pause of all", _each(node.pause for node in cluster.nodes.values()), owes_progress=False)


# --- the network


def isolate_a_leader(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Isolate a leader from brokers and clients."""
    node = _leader(cluster, random_source)
    cluster.suffer(f"the isolation of {node.node_id}", lambda: cluster.network.isolate(node.node_id))


def cut_a_leader_from_brokers(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Isolate a leader from the other brokers; clients still reach it."""
    node = _leader(cluster, random_source)
    ways = [way for it in _others(cluster, node) for way in ((it, node.node_id), (node.node_id, it))]
    cluster.suffer(f"a cut between {node.node_id} and the others", _cuts(cluster, ways))


def deafen_a_leader(cluster: BrokerCluster, random_source: random.Random) -> None:
    node = _leader(cluster, random_source)
    ways = [(it, node.node_id) for it in _others(cluster, node)]
    cluster.suffer(f"{node.node_id} hears no broker", _cuts(cluster, ways))


def mute_a_leader(cluster: BrokerCluster, random_source: random.Random) -> None:
    node = _leader(cluster, random_source)
    ways = [(node.node_id, it) for it in _others(cluster, node)]
    cluster.suffer(f"no broker hears {node.node_id}", _cuts(cluster, ways))


def cut_two(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Cut the link between a leader and another broker; both still reach the third."""
    node = _leader(cluster, random_source)
    other = random_source.choice(_others(cluster, node))
    ways = [(node.node_id, other), (other, node.node_id)]
    cluster.suffer(f"a cut between {node.node_id} and {other}", _cuts(cluster, ways))


def reset_connections(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Reset all connections of a leader, several times."""
    node = _leader(cluster, random_source)
    cluster.suffer(f"resets of all connections of {node.node_id}", lambda: cluster.network.reset(node.node_id, RESETS))


# --- certificates


def replace_certificates(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Give each node another certificate, and reset the connections between them."""
    security = cluster.security
    assert security is not None

    def replace() -> None:
        security.replace_certificates(cluster.nodes.values())
        for node_id in cluster.nodes:
            cluster.network.reset(node_id, 1)

    cluster.suffer("other certificates of all", replace)


# --- delayed requests


def delay_requests(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Delay all requests, so that requests of different connections overtake each other; one in a hundred for a long
    time.
    """
    rules = (Rule(share=0.01, seconds=(1.0, 4.0)), Rule(seconds=(0.0, 0.15)))
    cluster.suffer("delays of all requests", partial(_set_rules, cluster, rules))


def hold_transactions(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Hold transaction requests until clients have timed out, and markers as well."""
    _hold(cluster, {"EndTxn": 26, "WriteTxnMarkers": 27, "AddPartitionsToTxn": 24, "TxnOffsetCommit": 28}, 0.2)


def hold_records(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Hold produce requests, so that a batch arrives after its retry."""
    _hold(cluster, {"Produce": 0, "InitProducerId": 22}, 0.03)


def hold_replication(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Hold fetches of followers, consumers and controllers, and AlterPartition requests."""
    _hold(cluster, {"Fetch": 1, "AlterPartition": 56, "BrokerHeartbeat": 63}, 0.02)


def hold_changes_of_replicas(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Isolate a follower and hold its leader's AlterPartition requests until they are outdated."""
    node = _leader(cluster, random_source)
    victim = cluster.nodes[random_source.choice(_others(cluster, node))]

    def harm() -> None:
        _set_rules(cluster, [Rule(api_keys=frozenset({56}), seconds=(2.0, 6.0), is_hold=True)])
        victim.kill()

    cluster.suffer(f"held AlterPartition requests, and a kill -9 of {victim.node_id}", harm)


def _hold(cluster: BrokerCluster, api_keys: Mapping[str, int], share: float) -> None:
    rules = [Rule(api_keys=frozenset(api_keys.values()), share=share, seconds=(0.5, 6.0), is_hold=True)]
    cluster.suffer(f"held requests: {', '.join(api_keys)}", partial(_set_rules, cluster, rules))


def _set_rules(cluster: BrokerCluster, rules: Iterable[Rule]) -> None:
    assert cluster.wires is not None
    cluster.wires.rules = tuple(rules)


# --- disks


def wipe_a_disk(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Replace a disk by an empty one, on which the heal starts the broker."""
    node = _leader(cluster, random_source)

    def replace() -> None:
        node.kill()
        node.wipe()

    cluster.suffer(f"a new disk for {node.node_id}", replace)


def fill_a_disk(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Fill a disk to the last block; its broker may continue, reject requests, or stop, and the others continue."""
    node = _leader(cluster, random_source)
    disk = node.disk
    assert disk is not None
    ballast = disk.directory / BALLAST

    def is_felt() -> bool:
        return node.has_ended_by_itself or NO_SPACE in node.said_since_start()

    def fill() -> None:
        disk.fill(ballast)
        eventually(is_felt, f"the disk of {node.node_id} is full", FULL_SECONDS)

    cluster.suffer(f"the full disk of {node.node_id}", fill)
    cluster.healers.append(ballast.unlink)
    cluster.healers.append(node.kill)


def fail_a_disk(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Make every write to a disk fail from now on; un-synced data is lost."""
    node = _leader(cluster, random_source)
    assert node.disk is not None
    cluster.suffer(f"the failing disk of {node.node_id}", node.disk.cut)
    cluster.healers += [node.kill, node.disk.unmount, node.disk.mount]


def cut_all_power(cluster: BrokerCluster, random_source: random.Random) -> None:
    """Cut the power of all nodes at once: all processes end, and the disks are mounted again."""
    nodes = list(cluster.nodes.values())
    disks = [node.disk for node in nodes if node.disk is not None]

    def cut() -> None:
        _each(disk.cut for disk in disks)()
        _each(node.kill for node in nodes)()
        for disk in disks:
            disk.unmount()
            disk.mount()

    cluster.suffer("a power cut of all", cut, owes_progress=False)


def _each(actions: Iterable[Callable[[], object]]) -> Callable[[], None]:
    chosen = list(actions)

    def act() -> None:
        for action in chosen:
            action()

    return act


def _cuts(cluster: BrokerCluster, ways: Sequence[tuple[int, int]]) -> Callable[[], None]:
    def cut() -> None:
        for source, target in ways:
            cluster.network.cut_one_way(source, target)

    return cut


ANYWHERE: Sequence[Fault] = (
    kill_a_leader,
    kill_the_controller,
    stop_a_leader,
    bounce_a_leader,
    kill_two,
    kill_everybody,
    pause_a_leader,
    pause_the_controller,
    pause_everybody,
    isolate_a_leader,
    cut_a_leader_from_brokers,
    deafen_a_leader,
    mute_a_leader,
    cut_two,
    reset_connections,
    wipe_a_disk,
)
BEHIND_PROXIES: Sequence[Fault] = (
    delay_requests,
    hold_transactions,
    hold_records,
    hold_replication,
    hold_changes_of_replicas,
)
ON_DISKS: Sequence[Fault] = (fill_a_disk, fail_a_disk)
FAULTS: Mapping[str, Fault] = {
    fault.__name__: fault for fault in (*ANYWHERE, *BEHIND_PROXIES, *ON_DISKS, cut_all_power, replace_certificates)
}


def possible(shape: BrokerShape) -> list[Fault]:
    """Return the faults that such a cluster must survive."""
    faults = [*ANYWHERE]
    if shape.has_wires:
        faults += [*BEHIND_PROXIES, *BEHIND_PROXIES]  # as likely as all other faults together
    if shape.is_secured:
        faults += [replace_certificates] * 3
    if shape.has_disks:
        faults += ON_DISKS
        if shape.is_durable:
            faults.append(cut_all_power)
    return faults
