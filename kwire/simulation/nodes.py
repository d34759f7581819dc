"""Production server on a simulated host: it can be started, killed, paused and cut off from power."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.server.node.node import Node
from kwire.simulation.hosts import Host, Process


class Server(Protocol):
    """Common interface of a broker and a controller."""

    failed: asyncio.Future[BaseException]

    metadata_log: MetadataLog

    async def stop(self) -> None: ...


S = TypeVar("S", bound=Server)


class SimulatedNode(ABC, Generic[S]):
    """Server on a host of its own."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.server: S
        """Server that runs, or ran last."""
        self._opened: tuple[Process, Node] | None = None
        """Process that opened its node last, and this node."""
        self._serving: Process | None = None
        """Process that completed its start last."""

    @abstractmethod
    async def start_server(self, process: Process, opened: Callable[[Node], None]) -> S:
        """Start the server in a process of its host. `opened` is called with its node when this is open."""

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def is_running(self) -> bool:
        return self.host.process is not None

    @property
    def is_serving(self) -> bool:
        """True if the node runs and its start is complete."""
        return self.is_running and self._serving is self.host.process

    @property
    def open_node(self) -> Node | None:
        """Node of the running process; None until its start has opened it."""
        if self._opened is None or self._opened[0] is not self.host.process:
            return None
        return self._opened[1]

    @property
    def metadata_log(self) -> MetadataLog | None:
        """Metadata log of the running process; None until its start has opened it."""
        node = self.open_node
        return None if node is None else node.metadata_log

    @property
    def failure(self) -> BaseException | None:
        """Error that makes the serving server stop; None without one."""
        return self.server.failed.result() if self.is_serving and self.server.failed.done() else None

    async def start(self) -> None:
        """Start the node, with power if needed; return when it serves. Raises the exception of its start."""
        await self.begin()

    def begin(self) -> asyncio.Future[None]:
        """Start the node without waiting; the future is done when it serves, and never if it is killed before."""
        process = self.host.start()
        served: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        process.run(self._serve(process, served))
        return served

    async def _serve(self, process: Process, served: asyncio.Future[None]) -> None:
        try:
            self.server = await self.start_server(process, partial(self._note_opened, process))
        except Exception as error:  # noqa: BLE001 raised at the caller
            if process.is_alive:
                _settle(served, error)  # before kill(): no callback of this process runs after it
                self.host.kill()
            return
        self._serving = process
        self.host.note(f"{process.name} serves")
        _settle(served, None)

    def _note_opened(self, process: Process, node: Node) -> None:
        self._opened = process, node

    async def stop(self) -> None:
        """Stop cleanly: flushed, and marked as such."""
        process = self.host.process
        assert process is not None, f"{self.name} does not run"
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        process.run(self.server.stop()).add_done_callback(lambda done: _pass_on(done, stopped))
        await stopped
        self.host.kill()

    def kill(self) -> None:
        """Kill the process as kill -9 does: its writes are kept."""
        self.host.kill()

    def power_off(self) -> None:
        """Cut the power: unsynced data may be lost or torn."""
        self.host.power_off()

    def pause(self) -> None:
        """Pause the process as SIGSTOP does."""
        self.host.pause()

    def resume(self) -> None:
        """Continue the process as SIGCONT does."""
        self.host.resume()


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done() and not future.get_loop().is_closed():
        future.set_exception(error)


def _settle(future: asyncio.Future[None], error: Exception | None) -> None:
    """Resolve a future of another process, if that still waits for it."""
    if future.done() or future.get_loop().is_closed():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(None)


def _pass_on(task: asyncio.Task[None], future: asyncio.Future[None]) -> None:
    """Copy the result of a task to a future of another process."""
    if future.done() or future.get_loop().is_closed():
        return
    if task.cancelled():
        future.cancel()
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(None)


AnyNode = SimulatedNode[Any]
