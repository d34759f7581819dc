"""Production broker in a simulation: kwire.server.assembly.broker, unchanged, on a simulated host."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire.server.assembly.broker import BrokerServer, start_broker
from kwire.server.compaction.rounds import InlineRounds
from kwire.server.network.memory.memory_return import MemoryReturn
from kwire.server.network.outgoing.node_channel import NodeChannel
from kwire.server.node.node import Node
from kwire.server.node.runtime import Seams
from kwire.server.settings.config import BrokerConfig, make_config
from kwire.simulation.hosts import Host, Process
from kwire.simulation.nodes import SimulatedNode

PORT = 9092
DIRECTORY = "/kafka"


class SimulatedBroker(SimulatedNode[BrokerServer]):
    """Broker on a host of its own. Settings in `config` override the defaults of the simulation."""

    def __init__(self, host: Host, config: Mapping[str, str], *, node_id: int) -> None:
        super().__init__(host)
        self.node_id = node_id
        self._settings = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{host.name}:{PORT}",
            "log.dirs": DIRECTORY,
            # A client compiled to machine code uses the machine's own time, which is in the future of the simulation.
            "log.message.timestamp.after.max.ms": str(2**63 - 1),
            "socket.send.buffer.bytes": "-1",
            "socket.receive.buffer.bytes": "-1",
            **config,
        }

    @property
    def bootstrap_server(self) -> str:
        """Address that clients connect to."""
        return f"{self.host.name}:{PORT}"

    async def start_server(self, process: Process, opened: Callable[[Node], None]) -> BrokerServer:
        self.prepare(process)
        config = make_config(self._settings)
        seams = Seams(
            clock=process.clock,
            random_source=process.random_source,
            disk=process.disk,
            workers=process.workers,
            rounds=InlineRounds(process.disk),
            memory=MemoryReturn(resident=lambda: 0),
            quorum_channel=self.quorum_channel(config, process),
            opened=opened,
        )
        return await start_broker(config, seams)

    def prepare(self, process: Process) -> None:
        """Prepare the host for a start; a broker with its own controller needs nothing."""

    def quorum_channel(self, config: BrokerConfig, process: Process) -> NodeChannel | None:
        """Return the connections for the quorum's messages; None for real ones."""
        return None
