"""What goes wrong in a cluster besides the faults of any node: clean stops, brokers cut off until they are fenced,
active controllers that are put out of office, and a blackout of all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kwire.simulation import SimulatedCluster, Simulation
from kwire.simulation.faults import DOWN_SECONDS_MAX, KINDS, LOOK_SECONDS, Faults
from kwire.simulation.nodes import AnyNode

CLUSTER_KINDS: Final = (*KINDS, "stop", "stop", "stop", "fence", "depose", "depose", "blackout")
STOP_SECONDS_MAX: Final = 40.0
FENCE_SECONDS: Final = 5.0
"""After a session, until the broker comes back."""


class ClusterFaults(Faults):
    """Faults drawn by the seed, with those that only a cluster has."""

    def __init__(
        self, simulation: Simulation, cluster: SimulatedCluster, *, kinds: Sequence[str], session_seconds: float
    ) -> None:
        super().__init__(simulation, kinds=kinds, nodes=cluster.nodes)
        self._cluster = cluster
        self._session_seconds = session_seconds

    async def begin_stop(self, node: AnyNode) -> None:
        """The clean end, and another start; the end may be cut short by another fault."""
        process = node.host.process
        if process is None or not node.is_serving:
            return
        stopping = process.run(node.server.stop())
        deadline = self._simulation.now + STOP_SECONDS_MAX
        while not stopping.done() and node.host.process is process and self._simulation.now < deadline:
            await asyncio.sleep(LOOK_SECONDS)
        if node.host.process is process:
            stopped = stopping.done() and not stopping.cancelled() and stopping.exception() is None
            self._simulation.trace.note(f"{node.name} stopped: {stopped}")
            node.kill()
        await asyncio.sleep(self._seconds(DOWN_SECONDS_MAX))
        await self.revive(node)

    async def begin_fence(self, node: AnyNode) -> None:
        """A broker is cut off from the controllers for longer than its session; clients still reach it."""
        broker = self._chance.pick(self._cluster.brokers)
        names = [voter.name for voter in self._cluster.voters if voter is not broker]
        reason = f"fence {self.count}"
        self._network.split([broker.name], names, reason=reason)
        await asyncio.sleep(self._session_seconds + self._seconds(FENCE_SECONDS))
        self._network.heal(reason=reason)

    async def begin_depose(self, node: AnyNode) -> None:
        """The active controller is killed, cut off, or runs nothing for a while."""
        active = self._cluster.active_controller or node
        begin = self._chance.pick((self.begin_kill, self.begin_power, self.begin_isolate, self.begin_pause))
        await begin(active)

    async def begin_blackout(self, node: AnyNode) -> None:
        """All nodes lose power at once, and come back one after the other."""
        for each in self._cluster.nodes:
            each.power_off()
        await asyncio.gather(*(self._come_back(each) for each in self._cluster.nodes))

    async def _come_back(self, node: AnyNode) -> None:
        await asyncio.sleep(self._seconds(DOWN_SECONDS_MAX / 2))
        await self.revive(node)

    async def begin_full_disk(self, node: AnyNode) -> None:
        await super().begin_full_disk(node)
        if node.failure is not None:
            await self.revive(node)
