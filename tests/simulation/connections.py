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
"""Rate of all clients' operations: a seed has more than 1,000 of them."""
PACE: Final = 4.0
GROUP: Final = 0
TRANSACTION: Final = 1


class Leader(NamedTuple):
    """Leader of a partition in a broker's metadata response."""

    broker_id: int
    epoch: int
    """Leader epoch. Without it, a broker that became a follower would respond too, perhaps with fewer records."""


class Connections:
    """Connections to the brokers, one to each; one request at a time."""

    def __init__(self, simulation: Simulation, brokers: Sequence[ClusterBroker], name: str) -> None:
        self._simulation = simulation
        self._brokers = {broker.node_id: broker for broker in brokers}
        self.name = name
        self._random_source = simulation.random_source.child(f"client {name}")
        self._wires: dict[int, WireClient] = {}

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    async def ask(self, node_id: int, request: Any, version: int, *, seconds: float = GIVE_UP_SECONDS) -> Any:
        """Send a request to a broker and return the response. Raises OSError."""
        wire = await self.connected(node_id)
        try:
            answer = await wire.ask(request, version, seconds=seconds)
        except OSError:
            wire.close()
            raise
        self.keep(node_id, wire)
        return answer

    async def connected(self, node_id: int) -> WireClient:
        """Return the connection to a broker, or a new one; the caller keeps or closes it. Raises OSError."""
        wire = self._wires.pop(node_id, None)
        if wire is None:
            wire = await WireClient.connect(self._brokers[node_id].bootstrap_server, seconds=GIVE_UP_SECONDS)
        return wire

    def keep(self, node_id: int, wire: WireClient) -> None:
        """Keep a connection for the next request."""
        self._wires[node_id] = wire

    async def pause(self, mean: float, ledger: Ledger) -> None:
        """Pause between two operations; longer if there were more operations than needed."""
        is_ahead = ledger.operations > OPERATIONS_PER_SECOND * self._simulation.now
        await asyncio.sleep(self._random_source.exponential(PACE * mean if is_ahead else mean))

    def _anyone(self) -> int:
        return self._random_source.pick(sorted(self._brokers))

    async def find_coordinator(self, name: str, kind: int) -> int:
        """Return the coordinator of a group or a transactional id. Raises OSError."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
        found = (await self.ask(self._anyone(), request, 6)).coordinators[0]
        if found.error_code != ErrorCode.NONE:
            raise ConnectionError(ErrorCode(found.error_code).name)
        node_id: int = found.node_id
        return node_id
