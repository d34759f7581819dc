"""Faults of a quorum, by name; the seed selects them.

A fault begins in a healthy quorum. It calls Quorum.suffer, which requires a new leader in time if the fault removed the
leader and left a majority.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from tests.cluster_processes.quorum import Quorum, Shape, cut_power

Fault = Callable[[Quorum, random.Random], None]


def kill_the_leader(quorum: Quorum, random_source: random.Random) -> None:
    leader = quorum.nodes[quorum.leader]
    quorum.suffer(f"kill -9 of the leader {leader.node_id}", leader.kill)


def kill_a_minority(quorum: Quorum, random_source: random.Random) -> None:
    """Kill a minority, including the leader."""
    others = random_source.sample(quorum.followers, len(quorum.nodes) - quorum.majority - 1)
    victims = [quorum.leader, *others]
    quorum.suffer(f"kill -9 of {victims}", partial(_each, [quorum.nodes[it].kill for it in victims]))


def kill_a_follower(quorum: Quorum, random_source: random.Random) -> None:
    victim = quorum.nodes[random_source.choice(quorum.followers)]
    quorum.suffer(f"kill -9 of the follower {victim.node_id}", victim.kill)


def kill_everybody(quorum: Quorum, random_source: random.Random) -> None:
    quorum.suffer("kill -9 of all", partial(_each, [node.kill for node in quorum.nodes.values()]))


def pause_the_leader(quorum: Quorum, random_source: random.Random) -> None:
    leader = quorum.nodes[quorum.leader]
    quorum.suffer(f"a pause of the leader {leader.node_id}", leader.pause)


def pause_a_follower(quorum: Quorum, random_source: random.Random) -> None:
    victim = quorum.nodes[random_source.choice(quorum.followers)]
    quorum.suffer(f"a pause of the follower {victim.node_id}", victim.pause)


def pause_a_majority(quorum: Quorum, random_source: random.Random) -> None:
    """Pause a majority, so that no node can lead until they continue."""
    victims = random_source.sample(sorted(quorum.nodes), quorum.majority)
    quorum.suffer(f"a pause of {victims}", partial(_each, [quorum.nodes[it].pause for it in victims]))


def isolate_the_leader(quorum: Quorum, random_source: random.Random) -> None:
    leader = quorum.leader
    quorum.suffer(f"the isolation of the leader {leader}", lambda: quorum.network.isolate(leader))


def split(quorum: Quorum, random_source: random.Random) -> None:
    """Split the network into two parts, with the leader in the smaller one."""
    others = random_source.sample(quorum.followers, len(quorum.nodes) - quorum.majority - 1)
    part = [quorum.leader, *others]
    quorum.suffer(f"a cut around {part}", lambda: quorum.network.isolate(*part))


def split_anyhow(quorum: Quorum, random_source: random.Random) -> None:
    part = random_source.sample(sorted(quorum.nodes), random_source.randint(1, len(quorum.nodes) - 1))
    quorum.suffer(f"a cut around {part}", lambda: quorum.network.isolate(*part))


def deafen_the_leader(quorum: Quorum, random_source: random.Random) -> None:
    leader = quorum.leader
    ways = [(other, leader) for other in quorum.followers]
    quorum.suffer(f"the leader {leader} receives nothing", partial(_cut_ways, quorum, ways))


def mute_the_leader(quorum: Quorum, random_source: random.Random) -> None:
    leader = quorum.leader
    ways = [(leader, other) for other in quorum.followers]
    quorum.suffer(f"no node receives requests of the leader {leader}", partial(_cut_ways, quorum, ways))


def cut_some_ways(quorum: Quorum, random_source: random.Random) -> None:
    """Cut one to three links, each in one direction."""
    ways = [(source, target) for source in quorum.nodes for target in quorum.nodes if source != target]
    chosen = random_source.sample(ways, random_source.randint(1, 3))
    quorum.suffer(f"cuts of the ways {chosen}", partial(_cut_ways, quorum, chosen))


def wipe_a_disk(quorum: Quorum, random_source: random.Random) -> None:
    quorum.replace_disk(random_source.choice(sorted(quorum.nodes)))


def cut_all_power(quorum: Quorum, random_source: random.Random) -> None:
    quorum.suffer("a power cut of all", lambda: cut_power(quorum))


def _each(actions: Iterable[Callable[[], object]]) -> None:
    for action in actions:
        action()


def _cut_ways(quorum: Quorum, ways: Iterable[tuple[int, int]]) -> None:
    for source, target in ways:
        quorum.network.cut_one_way(source, target)


ANYWHERE: Sequence[Fault] = (
    kill_the_leader,
    kill_a_minority,
    kill_a_follower,
    kill_everybody,
    pause_the_leader,
    pause_a_follower,
    pause_a_majority,
    isolate_the_leader,
    split,
    split_anyhow,
    deafen_the_leader,
    mute_the_leader,
    cut_some_ways,
)
FAULTS: Mapping[str, Fault] = {fault.__name__: fault for fault in (*ANYWHERE, wipe_a_disk, cut_all_power)}


def possible(shape: Shape) -> list[Fault]:
    """Return the possible faults. Without directory ids, a wiped disk would vote a second time in its epoch."""
    faults = [*ANYWHERE]
    if not shape.is_static:
        faults.append(wipe_a_disk)
    if shape.has_disks:
        faults.append(cut_all_power)
    return faults
