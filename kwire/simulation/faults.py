"""Random faults by the seed: kind, time and duration of each fault, and how it is healed.

    faults = Faults(simulation, kinds=("kill", "power", "isolate"))
    simulation.client.run(faults.run(seconds=60, per_minute=5))

Faults may overlap. When run() ends, everything is healed and every node serves. The kinds are the methods of
Faults that begin with `begin_`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from kwire.log.disk import DiskFailure
from kwire.log.log_directory import LogDirectoryError
from kwire.server.assembly.broker_lifecycle import MetadataDiskFullError
from kwire.server.node.storage import UnreadableDirectory
from kwire.simulation.links import bad_weather
from kwire.simulation.nodes import AnyNode
from kwire.simulation.simulation import Simulation

KINDS: Final = (
    "kill", "power", "pause", "cut", "isolate", "clog", "reset", "slow_network", "slow_disk", "full_disk",
    "broken_disk", "jump",
)  # fmt: skip
MORE_FAULTS: Final = 4
CHECK_SECONDS: Final = 0.1
DOWN_SECONDS_MAX: Final = 5.0
CUT_SECONDS_MAX: Final = 10.0
PAUSE_SECONDS_MAX: Final = 10.0
JUMP_SECONDS_MAX: Final = 3600.0


class Faults:
    """Random faults of some nodes of a simulation; by default of its brokers."""

    def __init__(
        self, simulation: Simulation, *, kinds: Sequence[str] = KINDS, nodes: Sequence[AnyNode] | None = None
    ) -> None:
        self.count = 0
        """Number of faults so far."""
        self._simulation = simulation
        self._network = simulation.network
        self._random_source = simulation.random_source.child("faults")
        self._kinds = kinds
        self._nodes = list(simulation.brokers.values() if nodes is None else nodes)

    async def run(self, *, seconds: float, per_minute: float) -> None:
        """Inject at least `per_minute` faults for so many seconds, then wait until all are healed."""
        start = self._simulation.now
        count = math.ceil(per_minute * seconds / 60.0) + self._random_source.below(MORE_FAULTS)
        moments = sorted(start + self._random_source.uniform(0.0, seconds) for _ in range(count))
        running = []
        for moment in moments:
            await asyncio.sleep(moment - self._simulation.now)
            running.append(asyncio.create_task(self.begin(self._random_source.pick(self._kinds))))
        await asyncio.sleep(start + seconds - self._simulation.now)
        await asyncio.gather(*running)
        for node in self._nodes:
            while not node.is_serving or node.failure is not None:
                await self.revive(node)
                await asyncio.sleep(CHECK_SECONDS)

    def begin(self, kind: str) -> Coroutine[Any, Any, None]:
        """Start a fault of this kind; it is healed when the coroutine ends."""
        self.count += 1
        node = self._random_source.pick(self._nodes)
        self._simulation.trace.note(f"fault {kind} {node.name}")
        fault: Coroutine[Any, Any, None] = getattr(self, f"begin_{kind}")(node)
        return fault

    async def revive(self, node: AnyNode) -> None:
        """Make a node run: start it if it is down, kill and start it if it has failed."""
        if node.is_running and node.failure is not None:
            node.kill()
        while not node.is_running:
            try:
                async with asyncio.timeout(DOWN_SECONDS_MAX):
                    await node.begin()
            except TimeoutError:  # it was killed during its start, or is paused
                return
            except (DiskFailure, LogDirectoryError, UnreadableDirectory, MetadataDiskFullError):
                await asyncio.sleep(self._seconds(DOWN_SECONDS_MAX))

    def _seconds(self, most: float) -> float:
        """Return a random duration, mostly short."""
        return min(most, self._random_source.exponential(most / 4))

    # --- processes

    async def begin_kill(self, node: AnyNode) -> None:
        node.kill()
        await asyncio.sleep(self._seconds(DOWN_SECONDS_MAX))
        await self.revive(node)

    async def begin_power(self, node: AnyNode) -> None:
        node.power_off()
        await asyncio.sleep(self._seconds(DOWN_SECONDS_MAX))
        await self.revive(node)

    async def begin_pause(self, node: AnyNode) -> None:
        if node.is_running:
            node.pause()
            await asyncio.sleep(self._seconds(PAUSE_SECONDS_MAX))
            node.resume()

    async def begin_jump(self, node: AnyNode) -> None:
        node.host.jump(self._random_source.uniform(-JUMP_SECONDS_MAX, JUMP_SECONDS_MAX))

    # --- network

    def _other(self, node: AnyNode) -> str:
        return self._random_source.pick([name for name in self._network.hosts if name != node.name])

    async def begin_cut(self, node: AnyNode) -> None:
        ends = [node.name, self._other(node)]
        source, target = ends if self._random_source.happens(0.5) else reversed(ends)
        reason = f"cut {self.count}"
        self._network.cut(source, target, reason=reason)
        await asyncio.sleep(self._seconds(CUT_SECONDS_MAX))
        self._network.heal(reason=reason)

    async def begin_isolate(self, node: AnyNode) -> None:
        reason = f"isolate {self.count}"
        self._network.isolate(node.name, reason=reason)
        await asyncio.sleep(self._seconds(CUT_SECONDS_MAX))
        self._network.heal(reason=reason)

    async def begin_clog(self, node: AnyNode) -> None:
        longest = 0.0
        for name in [name for name in self._network.hosts if name != node.name]:
            for source, target in ((node.name, name), (name, node.name)):
                if self._random_source.happens(0.5):
                    seconds = self._seconds(CUT_SECONDS_MAX)
                    self._network.clog(source, target, seconds)
                    longest = max(longest, seconds)
        await asyncio.sleep(longest)

    async def begin_reset(self, node: AnyNode) -> None:
        self._network.reset(node.name, self._other(node))

    async def begin_slow_network(self, node: AnyNode) -> None:
        other, speed = self._other(node), bad_weather(self._random_source)
        self._network.slow_down(node.name, other, speed)
        await asyncio.sleep(self._seconds(CUT_SECONDS_MAX))
        self._network.slow_down(node.name, other, None)

    # --- disks

    async def begin_slow_disk(self, node: AnyNode) -> None:
        node.host.device.slowness = self._random_source.pick((10.0, 100.0, 1000.0))
        await asyncio.sleep(self._seconds(CUT_SECONDS_MAX))
        node.host.device.slowness = 1.0

    async def begin_full_disk(self, node: AnyNode) -> None:
        node.host.device.fill(free_bytes=self._random_source.below(10_000))
        await asyncio.sleep(self._seconds(CUT_SECONDS_MAX))
        node.host.device.empty()

    async def begin_broken_disk(self, node: AnyNode) -> None:
        """Let an operation fail for a while; then replace the device by one with the same durable content."""
        device = node.host.device
        fault = device.fail(self._random_source.pick(("append", "fsync", "read", "create", "rename")))
        await asyncio.sleep(self._seconds(CUT_SECONDS_MAX))
        device.heal(fault)
        node.power_off()
        await self.revive(node)
