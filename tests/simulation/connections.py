"""Connections of a client to the brokers of a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.simulation import ClusterBroker, Simulation, WireClient
from tests.simulation.cluster_ledger import Ledger

GIVE_UP_SECONDS: Final = 3.0
OPERATIONS_PER_SECOND: Final = 21
"""Of all clients: a seed has more than 1,000 of them."""
PACE: Final = 4.0
GROUP: Final = 0
TRANSACTION: Final = 1


class Leader(NamedTuple):
    """As some broker had it."""

    broker_id: int
    epoch: int
    """Without it, a broker that only follows by now would answer as well, and may have little."""


class Connections:
    """One connection to each broker; one request after the other."""

    def __init__(self, simulation: Simulation, brokers: Sequence[ClusterBroker], name: str) -> None:
        self._simulation = simulation
        self._brokers = {broker.node_id: broker for broker in brokers}
        self.name = name
        self._random_source = simulation.random_source.child(f"client {name}")
        self._wires: dict[int, WireClient] = {}

    def close(self) -> None:
        """Hang up everywhere."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    async def ask(self, node_id: int, request: Any, version: int, *, seconds: float = GIVE_UP_SECONDS) -> Any:
        """A broker's answer. Raises OSError."""
        wire = await self.connected(node_id)
        try:
            answer = await wire.ask(request, version, seconds=seconds)
        except OSError:
            wire.close()
            raise
        self.keep(node_id, wire)
        return answer

    async def connected(self, node_id: int) -> WireClient:
        """The connection to a broker, or a new one; whoever takes it keeps or closes it. Raises OSError."""
        wire = self._wires.pop(node_id, None)
        if wire is None:
            wire = await WireClient.connect(self._brokers[node_id].bootstrap_server, seconds=GIVE_UP_SECONDS)
        return wire

    def keep(self, node_id: int, wire: WireClient) -> None:
        """For the next request."""
        self._wires[node_id] = wire

    async def pause(self, mean: float, ledger: Ledger) -> None:
        """Between two operations; longer where there have been more of them than are needed."""
        is_ahead = ledger.operations > OPERATIONS_PER_SECOND * self._simulation.now
        await asyncio.sleep(self._random_source.exponential(PACE * mean if is_ahead else mean))

    def _anyone(self) -> int:
        return self._random_source.pick(sorted(self._brokers))

    async def find_coordinator(self, name: str, kind: int) -> int:
        """Who coordinates a group or a transactional id. Raises OSError."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
        found = (await self.ask(self._anyone(), request, 6)).coordinators[0]
        if found.error_code != ErrorCode.NONE:
            raise ConnectionError(ErrorCode(found.error_code).name)
        node_id: int = found.node_id
        return node_id
