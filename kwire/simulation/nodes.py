"""A server of production on a simulated host: started, killed, paused, cut off from power."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

from kwire.cluster.metadata_log import MetadataLog
from kwire.simulation.hosts import Host, Process


class Server(Protocol):
    """What a broker and a controller have in common."""

    failed: asyncio.Future[BaseException]

    @property
    def metadata_log(self) -> MetadataLog: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


S = TypeVar("S", bound=Server)


class SimulatedNode(ABC, Generic[S]):
    """A server on a host of its own."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.server: S
        """The one that runs, or ran last."""
        self._made: Process | None = None
        """The process whose server that is."""
        self._serving: Process | None = None
        """The process that has come to serve last."""

    @abstractmethod
    def make(self, process: Process) -> S:
        """The server, not started, for a process of its host."""

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def is_running(self) -> bool:
        return self.host.process is not None

    @property
    def is_serving(self) -> bool:
        """Whether it runs and its start is over."""
        return self.is_running and self._serving is self.host.process

    @property
    def metadata_log(self) -> MetadataLog | None:
        """That of the process that runs, once its start has come so far as to open it."""
        if self.host.process is None or self._made is not self.host.process:
            return None
        return getattr(self.server, "metadata_log", None)

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
        process.run(self._serve(process, served))
        return served

    async def _serve(self, process: Process, served: asyncio.Future[None]) -> None:
        try:
            self.server, self._made = self.make(process), process
            await self.server.start()
        except Exception as error:  # noqa: BLE001 raised where the start is waited for
            if process.is_alive:
                _settle(served, error)  # here: no callback of this process runs after its end
                self.host.kill()
            return
        self._serving = process
        self.host.note(f"{process.name} serves")
        _settle(served, None)

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


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done() and not future.get_loop().is_closed():
        future.set_exception(error)


def _settle(future: asyncio.Future[None], error: Exception | None) -> None:
    """Tell a future of another process, if anybody still waits for it."""
    if future.done() or future.get_loop().is_closed():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(None)


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


AnyNode = SimulatedNode[Any]
