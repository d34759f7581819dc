"""Faults of a quorum besides those of any node: crashes during elections, blackouts, voter changes, new disks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_raft_voter import AddRaftVoterListener, AddRaftVoterRequest
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.simulation import Simulation
from kwire.simulation.controllers import LISTENER, SimulatedController
from kwire.simulation.faults import CHECK_SECONDS, CUT_SECONDS_MAX, DOWN_SECONDS_MAX, KINDS, Faults
from tests.simulation.quorum_rules import Rules

QUORUM_KINDS: Final = (*KINDS, "coup", "coup", "depose", "swap", "swap", "blackout", "voters", "voters", "replace")
ANSWER_SECONDS: Final = 3.0
RETRY_SECONDS: Final = 0.2
VOTERS_LEAST: Final = 3
"""Minimum number of voters after a removal: a smaller quorum would stop after one more loss."""


def leader_of(nodes: Sequence[SimulatedController]) -> SimulatedController | None:
    """Return the leader that has committed a record in its epoch; the newest one if there are several."""
    active = [node for node in nodes if node.is_serving and node.server.metadata_log.is_active]
    return max(active, key=lambda node: node.server.metadata_log.epoch, default=None)


class Operator:
    """Client that requests voter changes from the leader, as admin tools do, until they succeed."""

    def __init__(self, simulation: Simulation, nodes: Sequence[SimulatedController]) -> None:
        self._simulation = simulation
        self._nodes = nodes

    async def ask(self, request: Any, version: int) -> int | None:
        """Return the leader's error code; None if there is no leader or no response."""
        leader = leader_of(self._nodes)
        if leader is None or leader.host.process is None:
            return None
        asked = leader.host.process.run(_ask(leader, request, version))
        deadline = self._simulation.now + ANSWER_SECONDS
        while not asked.done() and self._simulation.now < deadline:
            await asyncio.sleep(RETRY_SECONDS / 4)
        return asked.result() if asked.done() and not asked.cancelled() else None

    async def remove(self, node_id: int, directory_id: Any) -> int | None:
        return await self.ask(
            RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id), 0
        )

    async def add(self, node: SimulatedController) -> int | None:
        name, host, port = node.listener
        request = AddRaftVoterRequest(
            cluster_id=None,
            voter_id=node.node_id,
            voter_directory_id=node.key.directory_id,
            listeners=[AddRaftVoterListener(name=name, host=host, port=port)],
            timeout_ms=1000,
        )
        return await self.ask(request, 1)

    def is_voter(self, node: SimulatedController) -> bool:
        """Return True if the node is in the leader's committed voter set."""
        leader = leader_of(self._nodes)
        if leader is None:
            return False
        history = leader.server.metadata_log.node.quorum.history
        is_committed = history.voters_offset < leader.server.metadata_log.high_watermark
        return is_committed and history.voters.has_same(node.key) and node.key in history.voters.keys

    def are_all_voters(self) -> bool:
        return all(self.is_voter(node) for node in self._nodes)

    async def make_voter(self, node: SimulatedController) -> None:
        """Remove the node's earlier disk from the voters, add the current one, and wait until that is committed."""
        while not self.is_voter(node):
            leader = leader_of(self._nodes)
            if leader is not None:
                voter = leader.server.metadata_log.node.quorum.history.voters.get(node.node_id)
                if voter is not None and voter.key != node.key:
                    await self.remove(node.node_id, voter.key.directory_id)
                else:
                    await self.add(node)
            await asyncio.sleep(RETRY_SECONDS)


async def _ask(leader: SimulatedController, request: Any, version: int) -> int:
    """Send the request in the leader's own process, which may end meanwhile."""
    response = await leader.server.metadata_log.node.request(request, version=version, listener=LISTENER)
    return int(response.error_code)


class QuorumFaults(Faults):
    """Faults by seed, including those that only a quorum has."""

    def __init__(
        self,
        simulation: Simulation,
        *,
        kinds: Sequence[str],
        nodes: Sequence[SimulatedController],
        rules: Rules,
    ) -> None:
        super().__init__(simulation, kinds=kinds, nodes=nodes)
        self.operator = Operator(simulation, nodes)
        self._controllers = nodes
        self._is_changing = False
        """True if a node is currently not a voter: one at a time, so that the other nodes have all records."""
        self._armed = 0
        """Number of next nodes that lose power when they store a vote or an epoch."""
        rules.stored = self._stored

    def _stored(self, node: SimulatedController) -> None:
        if self._armed and self._random_source.happens(0.5):
            self._armed -= 1
            self._simulation.client.loop.call_later(self._random_source.exponential(0.002), self._strike, node)

    def _strike(self, node: SimulatedController) -> None:
        if node.is_running:
            self._simulation.client.run(self.begin_power(node))

    async def begin_coup(self, node: SimulatedController) -> None:
        """Kill the leader, and cut the power of nodes during the election that follows."""
        self._armed += 1 + self._random_source.below(2)
        leader = leader_of(self._controllers) or node
        await (self.begin_kill(leader) if self._random_source.happens(0.5) else self.begin_power(leader))
        await asyncio.sleep(DOWN_SECONDS_MAX)
        self._armed = 0

    async def begin_depose(self, node: SimulatedController) -> None:
        """Isolate the leader, drop messages to it, or pause it."""
        leader = leader_of(self._controllers) or node
        draw = self._random_source.below(3)
        if draw == 0:
            await self.begin_isolate(leader)
        elif draw == 1:
            await self.begin_pause(leader)
        else:
            reason = f"deaf {self.count}"
            for other in self._controllers:
                if other is not leader:
                    self._network.cut(other.name, leader.name, reason=reason)
            await asyncio.sleep(self._seconds(CUT_SECONDS_MAX))
            self._network.heal(reason=reason)

    async def begin_swap(self, node: SimulatedController) -> None:
        """Isolate a leader until there is another one, which is killed when the first one returns."""
        leader = leader_of(self._controllers) or node
        reason = f"swap {self.count}"
        self._network.isolate(leader.name, reason=reason)
        for _ in range(int(CUT_SECONDS_MAX / CHECK_SECONDS)):
            await asyncio.sleep(CHECK_SECONDS)
            if leader_of(self._controllers) not in (leader, None):
                break
        await asyncio.sleep(self._seconds(2.0))
        newer = leader_of(self._controllers)
        self._network.heal(reason=reason)
        if newer is not None and newer is not leader:
            await (self.begin_kill(newer) if self._random_source.happens(0.5) else self.begin_power(newer))

    async def begin_blackout(self, node: SimulatedController) -> None:
        """Cut the power of all nodes at once; they return one after another."""
        for each in self._controllers:
            each.power_off()
        await asyncio.gather(*(self._come_back(each) for each in self._controllers))

    async def _come_back(self, node: SimulatedController) -> None:
        await asyncio.sleep(self._seconds(DOWN_SECONDS_MAX / 2))
        await self.revive(node)

    async def begin_voters(self, node: SimulatedController) -> None:
        """Remove a voter and add it again later."""
        await self._changing(lambda: self._remove_and_add(node))

    async def begin_replace(self, node: SimulatedController) -> None:
        """Replace a node's disk by an empty one: it is a new replica, which becomes a voter later."""
        await self._changing(lambda: self._replace(node))

    async def _changing(self, change: Callable[[], Any]) -> None:
        if self._is_changing or not self.operator.are_all_voters():
            return
        self._is_changing = True
        try:
            await change()
        finally:
            self._is_changing = False

    async def _remove_and_add(self, node: SimulatedController) -> None:
        """Remove one or two voters in parallel: one of the requests must wait."""
        if len(self._controllers) < VOTERS_LEAST:
            return
        going = self._random_source.some(self._controllers, 1 + self._random_source.below(2))
        removed = await asyncio.gather(*(self.operator.remove(each.node_id, each.key.directory_id) for each in going))
        self._simulation.trace.note(f"removed {', '.join(each.name for each in going)}: {removed}")
        if any(code in (None, ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT) for code in removed):
            await asyncio.sleep(self._seconds(CUT_SECONDS_MAX))
        for each in going:
            await self._while_it_lasts(each)

    async def _replace(self, node: SimulatedController) -> None:
        node.replace_disk()
        await asyncio.sleep(self._seconds(DOWN_SECONDS_MAX))
        await self.revive(node)
        await self._while_it_lasts(node)

    async def _while_it_lasts(self, node: SimulatedController) -> None:
        """Make the node a voter, unless the faults end before; then the end of the scenario does it."""
        task = asyncio.ensure_future(self.operator.make_voter(node))
        await asyncio.wait([task], timeout=CUT_SECONDS_MAX)
        while not task.done() and not self._is_over():
            await asyncio.wait([task], timeout=1.0)
        task.cancel()

    def _is_over(self) -> bool:
        return self._end is not None and self._simulation.now >= self._end

    _end: float | None = None

    async def run(self, *, seconds: float, per_minute: float) -> None:
        self._end = self._simulation.now + seconds
        await super().run(seconds=seconds, per_minute=per_minute)
