"""Random worlds by seed with failures of all kinds: Q1 to Q10 after every event; then all failures end (Q13)."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from kwire.protocol.messages.add_raft_voter import AddRaftVoterListener, AddRaftVoterRequest
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.cluster.quorum.world import World, endpoints

SEEDS = int(os.environ.get("KWIRE_QUORUM_SEEDS", "60"))
ACTIONS = 30


class Trouble:
    """Random failures and requests in a world."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        self.random = world.random
        world.add_voters(*range(1, self.random.choice([1, 3, 3, 5]) + 1))
        for node_id in range(8, 8 + self.random.choice([0, 1, 2])):
            world.add_observer(node_id, *world.nodes, auto_join=self.random.random() < 0.5)
        world.loss = self.random.choice([0.0, 0.02, 0.1])
        world.duplication = self.random.choice([0.0, 0.1])
        self.actions: list[Callable[[], object]] = [
            *[self.append] * 8,
            *[self.crash] * 2,
            *[self.crash_within_a_step] * 2,
            *[self.restart] * 4,
            *[self.cut_one_way] * 2,
            self.isolate,
            *[self.heal] * 2,
            *[self.snapshot] * 2,
            *[self.change_voters] * 2,
            self.resign,
        ]

    def run(self) -> None:
        for _ in range(ACTIONS):
            self.random.choice(self.actions)()
            self.world.run(self.random.choice([5, 50, 300, 1500]))

    def _running(self) -> list[int]:
        return [node.node_id for node in self.world.nodes.values() if node.quorum is not None]

    def append(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            self.world.append(f"value {self.random.random()}")

    def crash(self) -> None:
        if running := self._running():
            self.world.crash(self.random.choice(running))

    def crash_within_a_step(self) -> None:
        if running := self._running():
            self.world.nodes[self.random.choice(running)].crash_in = self.random.randint(0, 5)

    def restart(self) -> None:
        for node in self.world.nodes.values():
            if node.quorum is None:
                self.world.start(node.node_id)
                return

    def cut_one_way(self) -> None:
        one, other = self.random.choice(list(self.world.nodes)), self.random.choice(list(self.world.nodes))
        if one != other:
            self.world.cut.add((one, other))

    def isolate(self) -> None:
        some = self.random.sample(list(self.world.nodes), self.random.randint(1, len(self.world.nodes)))
        self.world.isolate(*some)

    def heal(self) -> None:
        self.world.heal()

    def snapshot(self) -> None:
        if running := self._running():
            self.world.snapshot(self.random.choice(running))

    def resign(self) -> None:
        leader = self.world.leader()
        if leader is not None:
            leader.running.resign(leader.running.epoch, self.world.now_ms)
            self.world.pump(leader)

    def change_voters(self) -> None:
        leader = self.world.leader()
        if leader is None:
            return
        node = self.world.nodes[self.random.choice(list(self.world.nodes))]
        key = node.config.key
        if leader.running.history.voters.is_voter(key):
            request: object = RemoveRaftVoterRequest(
                cluster_id=None, voter_id=key.node_id, voter_directory_id=key.directory_id
            )
        else:
            listeners = [
                AddRaftVoterListener(name=it.name, host=it.host, port=it.port) for it in endpoints(key.node_id)
            ]
            request = AddRaftVoterRequest(
                cluster_id=None,
                timeout_ms=1000,
                voter_id=key.node_id,
                voter_directory_id=key.directory_id,
                listeners=listeners,
            )
        self.world.ask(leader.node_id, f"change at {self.world.now_ms}", request)

    def end_well(self) -> None:
        """End all failures: soon a leader must exist, and all nodes must have all records."""
        world = self.world
        world.heal()
        world.loss = world.duplication = 0.0
        for node in world.nodes.values():
            node.crash_in = -1
            if node.quorum is None:
                world.start(node.node_id)
        world.elect(60_000)
        world.append("last")
        world.run_until(self._is_one, 60_000)

    def _is_one(self) -> bool:
        leader = self.world.leader()
        if leader is None:
            return False
        end = leader.log.end_offset
        return all(
            node.quorum is not None and node.quorum.high_watermark == end and node.quorum.leader_id == leader.node_id
            for node in self.world.nodes.values()
        )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_quorum_stays_consistent_under_random_faults(seed: int) -> None:
    trouble = Trouble(seed)
    trouble.run()
    trouble.end_well()
    world = trouble.world
    leader = world.leader()
    assert leader is not None
    whole = [batch.data for batch in leader.log.all_batches()]
    for node in world.nodes.values():
        assert [batch.data for batch in node.log.all_batches()] == whole
    assert world.invariants.checked > 0
