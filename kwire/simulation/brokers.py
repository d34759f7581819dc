"""The production broker in a simulation: kwire.server.broker.BrokerServer, unchanged, on a simulated host."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kwire.server.broker import BrokerServer
from kwire.server.compaction.rounds import InlineRounds
from kwire.server.network.memory_return import MemoryReturn
from kwire.server.settings.config import make_config
from kwire.simulation.hosts import Host, Process

PORT = 9092
DIRECTORY = "/kafka"


class SimulatedBroker:
    """A broker on a host of its own. What it was given in `config` wins over the defaults here."""

    def __init__(self, host: Host, config: Mapping[str, str], *, node_id: int) -> None:
        self.host = host
        self._settings = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{host.name}:{PORT}",
            "log.dirs": DIRECTORY,
            # A client compiled to machine code takes the machine's own time, which is in the future here.
            "log.message.timestamp.after.max.ms": str(2**63 - 1),
            "socket.send.buffer.bytes": "-1",
            "socket.receive.buffer.bytes": "-1",
            **config,
        }
        self.server: BrokerServer
        """The one that runs, or ran last."""
        self._serving: Process | None = None
        """The process that has come to serve last."""

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def bootstrap_server(self) -> str:
        """What clients connect to."""
        return f"{self.host.name}:{PORT}"

    @property
    def is_running(self) -> bool:
        return self.host.process is not None

    @property
    def is_serving(self) -> bool:
        """Whether it runs and its start is over."""
        return self.is_running and self._serving is self.host.process

    @property
    def failure(self) -> BaseException | None:
        """Why the broker that serves cannot go on, None if it can."""
        return self.server.failed.result() if self.is_serving and self.server.failed.done() else None

    async def start(self) -> None:
        """Start, with power if need be; returns when the broker serves. Raises what its start raises."""
        await self.begin()

    def begin(self) -> asyncio.Future[None]:
        """Start without waiting; the future says when it serves. It stays open if the broker is killed before."""
        process = self.host.start()
        served: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = process.run(self._serve(process))
        task.add_done_callback(lambda done: _pass_on(done, served))
        return served

    async def _serve(self, process: Process) -> None:
        self.server = BrokerServer(
            make_config(self._settings),
            clock=process.clock,
            chance=process.chance,
            disk=process.disk,
            workers=process.workers,
            rounds=InlineRounds(process.disk),
            memory=MemoryReturn(resident=lambda: 0),
        )
        try:
            await self.server.start()
        except BaseException:
            if process.is_alive:
                self.host.kill()
            raise
        self._serving = process
        self.host.note(f"{process.name} serves")

    async def stop(self) -> None:
        """The clean end: flushed, and marked as such."""
        process = self.host.process
        assert process is not None, f"{self.name} does not run"
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        process.run(self.server.stop()).add_done_callback(lambda done: _pass_on(done, stopped))
        await stopped
        self.host.kill()

    def kill(self) -> None:
        """Kill -9: what was written is there, nothing else is done."""
        self.host.kill()

    def power_off(self) -> None:
        """A power cut: what was not fsynced may be lost or torn."""
        self.host.power_off()

    def pause(self) -> None:
        """SIGSTOP."""
        self.host.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.host.resume()


def _pass_on(task: asyncio.Task[None], future: asyncio.Future[None]) -> None:
    """A task's end, told to a future of another process."""
    if future.done() or future.get_loop().is_closed():
        return
    if task.cancelled():
        future.cancel()
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(None)
