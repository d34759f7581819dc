"""Checks of a quorum after all faults have ended, and with a single fault (Q9, Q13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kwire.cluster.quorum.config import CHECK_QUORUM_FACTOR
from kwire.simulation import Simulation
from kwire.simulation.controllers import SimulatedController
from tests.simulation.quorum_faults import Operator, leader_of

SETTLE_SECONDS = 1.0
NEW_LEADER_SECONDS = 12.0
"""Time limit until the others have a new leader after theirs was isolated."""
BEYOND_SECONDS = 15.0


class Calm:
    """End of a scenario: all nodes run, and the network is whole."""

    def __init__(
        self,
        simulation: Simulation,
        nodes: Sequence[SimulatedController],
        operator: Operator,
        acknowledged: set[str],
    ) -> None:
        self._simulation = simulation
        self._network = simulation.network
        self._nodes = nodes
        self._operator = operator
        self._acknowledged = acknowledged

    async def until(self, seconds: float, what: str, condition: Callable[[], bool]) -> None:
        deadline = self._simulation.now + seconds
        while not condition():
            assert self._simulation.now < deadline, f"Q13: not within {seconds} s: {what}"
            await asyncio.sleep(0.1)

    def has_leader(self) -> bool:
        return leader_of(self._nodes) is not None

    def agree(self) -> bool:
        """Return True if all nodes follow the same leader, with equal images that contain all acknowledged records."""
        logs = [node.server.metadata_log for node in self._nodes if node.is_serving]
        images = [log.image for log in logs]
        return (
            len(images) == len(self._nodes)
            and len({log.epoch for log in logs}) == 1
            and len({image.offset for image in images}) == 1
            and all(self._acknowledged <= set(image.topics) for image in images)
        )

    async def all_vote(self, seconds: float) -> None:
        """Check that each removed node, and each node with a new disk, becomes a voter."""
        for node in self._nodes:
            try:
                await asyncio.wait_for(self._operator.make_voter(node), seconds)
            except TimeoutError:
                raise AssertionError(f"Q13: not within {seconds} s: {node.name} votes") from None
        assert self._operator.are_all_voters(), "Q13: who was made a voter is none"

    def _timeouts(self, leader: SimulatedController) -> tuple[float, float]:
        config = leader.server.config
        fetch, election = (
            config.parsed[f"controller.quorum.{name}.timeout.ms"] / 1000 for name in ("fetch", "election")
        )
        return fetch, election

    async def keeps_its_leader(self) -> None:
        """Cut the link between the leader and one follower: no other leader may be elected, because the rest follow it
        (Q7).
        """
        leader = leader_of(self._nodes)
        assert leader is not None
        epoch = leader.server.metadata_log.epoch
        follower = next(node for node in self._nodes if node is not leader)
        fetch, election = self._timeouts(leader)
        self._network.split([leader.name], [follower.name], reason="calm")
        await asyncio.sleep(2 * fetch + 2 * election)
        self._network.heal(reason="calm")
        await asyncio.sleep(SETTLE_SECONDS)
        now = leader_of(self._nodes)
        assert now is leader, f"Q7: {leader.name} lost a majority that hears it to {now.name if now else 'nobody'}"
        assert leader.server.metadata_log.epoch == epoch, (
            f"Q7: epoch {epoch} ended although a majority hears its leader"
        )
        await self.until(NEW_LEADER_SECONDS, "who was cut off knows everything", self.agree)

    async def replaces_its_leader(self) -> None:
        """Isolate the leader: it resigns (Q9), and the others elect another one."""
        leader = leader_of(self._nodes)
        assert leader is not None
        epoch = leader.server.metadata_log.epoch
        fetch, _ = self._timeouts(leader)
        self._network.isolate(leader.name, reason="calm")
        await asyncio.sleep(CHECK_QUORUM_FACTOR * fetch + SETTLE_SECONDS)
        quorum = leader.server.metadata_log.node.quorum
        is_leading = quorum.is_leader and quorum.epoch == epoch
        assert not is_leading, f"Q9: {leader.name} leads on, though no majority has asked it for long"
        await self.until(NEW_LEADER_SECONDS, "the others elect a leader", self.has_leader)
        self._network.heal(reason="calm")

    async def rests_without_most_disks(self) -> None:
        """Replace the disks of a majority by empty ones: no node may serve, because acknowledged records may be lost
        (Q8).
        """
        lost = self._nodes[: len(self._nodes) // 2 + 1]
        for node in lost:
            node.replace_disk()
        await asyncio.gather(*(node.start() for node in lost))
        await asyncio.sleep(BEYOND_SECONDS)
        leader = leader_of(self._nodes)
        assert leader is None, f"Q8: {leader} serves, after most disks are gone"
