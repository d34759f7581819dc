"""Faults of a cluster, in addition to those of any node.

Brokers stop cleanly, or are isolated until they are fenced. Active controllers are deposed, links fail one by one,
disks are replaced by empty ones, and all nodes may lose power. If a crash would exceed the promised number
(promise.py), the node pauses instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from kwire.simulation import SimulatedCluster, Simulation
from kwire.simulation.faults import CHECK_SECONDS, CUT_SECONDS_MAX, DOWN_SECONDS_MAX, KINDS, Faults
from kwire.simulation.nodes import AnyNode
from tests.simulation.promise import Crashes

CLUSTER_KINDS: Final = (
    *KINDS, "kill", "kill", "stop", "stop", "stop", "fence", "fence", "depose", "depose", "behead", "behead",
    "swizzle", "blackout",
)  # fmt: skip
STOP_SECONDS_MAX: Final = 40.0
COUNTED_ON_SECONDS_MAX: Final = 20.0
FENCE_SECONDS: Final = 5.0
"""Time after the end of the session until the broker returns."""


class ClusterFaults(Faults):
    """Faults by seed, including those that only a cluster has."""

    def __init__(
        self,
        simulation: Simulation,
        cluster: SimulatedCluster,
        crashes: Crashes,
        *,
        kinds: Sequence[str],
        session_seconds: float,
    ) -> None:
        super().__init__(simulation, kinds=kinds, nodes=cluster.nodes)
        self._cluster = cluster
        self._crashes = crashes
        self._session_seconds = session_seconds

    # --- crashes

    async def begin_kill(self, node: AnyNode) -> None:
        await (super().begin_kill(node) if self._crashes.may(node) else self.begin_pause(node))

    async def begin_power(self, node: AnyNode) -> None:
        if not self._crashes.has_power_cuts:
            await self.begin_kill(node)
        else:
            await (super().begin_power(node) if self._crashes.may(node) else self.begin_pause(node))

    async def begin_broken_disk(self, node: AnyNode) -> None:
        if not self._crashes.may(node):
            await self.begin_pause(node)
            return
        device = node.host.device
        fault = device.fail(self._random_source.pick(("append", "fsync", "read", "create", "rename")))
        await asyncio.sleep(self._seconds(CUT_SECONDS_MAX))
        device.heal(fault)
        if self._crashes.may(node):
            node.power_off()
        await self.revive(node)

    async def begin_full_disk(self, node: AnyNode) -> None:
        if not self._crashes.may(node):
            await self.begin_slow_disk(node)
            return
        await super().begin_full_disk(node)
        process = node.host.process
        while node.host.process is process and node.failure is None and _may_give_up(node):
            await asyncio.sleep(CHECK_SECONDS)
        if node.failure is not None:
            await self.revive(node)

    async def begin_wipe(self, node: AnyNode) -> None:
        """Replace a broker's disk by an empty one, once no partition depends on the old disk."""
        broker = self._random_source.pick(self._cluster.brokers)
        if not self._crashes.may(broker):
            await self.begin_pause(broker)
            return
        broker.power_off()
        deadline = self._simulation.now + COUNTED_ON_SECONDS_MAX
        while self._crashes.is_counted_on(broker) and self._simulation.now < deadline:
            await asyncio.sleep(CHECK_SECONDS)
        if not broker.is_running and not self._crashes.is_counted_on(broker):
            broker.replace_disk()
        await self.revive(broker)

    async def begin_stop(self, node: AnyNode) -> None:
        """Stop a node cleanly and start it again; another fault may interrupt the stop."""
        process = node.host.process
        if process is None or not node.is_serving:
            return
        stopping = process.run(node.server.stop())
        deadline = self._simulation.now + STOP_SECONDS_MAX
        while not stopping.done() and node.host.process is process and self._simulation.now < deadline:
            await asyncio.sleep(CHECK_SECONDS)
        while not stopping.done() and node.host.process is process and not self._crashes.may(node):
            await asyncio.sleep(CHECK_SECONDS)
        if node.host.process is process:
            stopped = stopping.done() and not stopping.cancelled() and stopping.exception() is None
            self._simulation.trace.note(f"{node.name} stopped: {stopped}")
            node.kill()
        await asyncio.sleep(self._seconds(DOWN_SECONDS_MAX))
        await self.revive(node)

    async def begin_blackout(self, node: AnyNode) -> None:
        """Cut the power of all nodes that may lose it at once; they return one after another."""
        struck = [each for each in self._cluster.nodes if self._crashes.may(each)]
        for each in struck:
            each.power_off()
        await asyncio.gather(*(self._come_back(each) for each in struck))

    async def _come_back(self, node: AnyNode) -> None:
        await asyncio.sleep(self._seconds(DOWN_SECONDS_MAX / 2))
        await self.revive(node)

    # --- leadership

    async def begin_fence(self, node: AnyNode) -> None:
        """Isolate a broker from the controllers, or from the other brokers too, for longer than its session."""
        broker = self._random_source.pick(self._cluster.brokers)
        others = self._cluster.voters if self._random_source.happens(0.5) else self._cluster.nodes
        reason = f"fence {self.count}"
        self._network.split([broker.name], [each.name for each in others if each is not broker], reason=reason)
        await asyncio.sleep(self._session_seconds + self._seconds(FENCE_SECONDS))
        self._network.heal(reason=reason)

    async def begin_depose(self, node: AnyNode) -> None:
        """Kill, isolate or pause the active controller."""
        await self._strike(self._cluster.active_controller or node)

    async def begin_behead(self, node: AnyNode) -> None:
        """Kill, isolate or pause a broker that leads many partitions."""
        await self._strike(max(self._cluster.brokers, key=lambda broker: (_led(broker), broker.name)))

    async def _strike(self, node: AnyNode) -> None:
        begin = self._random_source.pick((self.begin_kill, self.begin_power, self.begin_isolate, self.begin_pause))
        await begin(node)

    # --- network

    async def begin_swizzle(self, node: AnyNode) -> None:
        """Cut a node's links one by one, and restore them in another order."""
        others = [name for name in self._network.hosts if name != node.name]
        reasons = {name: f"swizzle {self.count} {name}" for name in others}
        step = self._seconds(CUT_SECONDS_MAX / len(others))
        for name in self._random_source.some(others, len(others)):
            self._network.split([node.name], [name], reason=reasons[name])
            await asyncio.sleep(step)
        for name in self._random_source.some(others, len(others)):
            self._network.heal(reason=reasons[name])
            await asyncio.sleep(step)


def _may_give_up(node: AnyNode) -> bool:
    """Return True if a broker may still stop because its metadata had no space: it has not noticed the new space, or
    hands over already. It cannot cancel that, so its supervisor must start it again.
    """
    log = node.metadata_log
    if log is None:
        return False
    replicas = getattr(node.server, "_replicas", None) if node.is_serving else None
    hands_over = replicas is not None and replicas.lifecycle._wants_to_stop
    is_held_up = log.node.log.held_up_since_ms is not None and log.node.quorum.lacks_committed
    return hands_over or log.node.lacks_space or is_held_up


def _led(node: Any) -> int:
    if not node.is_serving:
        return 0
    return sum(partition.is_led for partition in node.server.services.partitions)
