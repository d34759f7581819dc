"""Hosts and their processes, which can be started, killed and paused, and lose power.

A process has its own event loop, view of its host's disk, workers, clock and random number generator. Killing it drops
its loop and disables all of these. Its coroutines run code while they are closed, but without any effect outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kwire.simulation.device import Device
from kwire.simulation.disk import ProcessKilled, SimulatedDisk
from kwire.simulation.loop import WALL_START_MS, ProcessLoop
from kwire.simulation.network import LOCAL_HOSTS, Network, address_info
from kwire.simulation.random_source import SeededRandomSource
from kwire.simulation.servers import Server
from kwire.simulation.streams import StreamTransport
from kwire.simulation.timeline import Timeline

T = TypeVar("T")
WORKER_MS = 0.3
"""Mean time of a worker's call, about that of an fsync on a good device."""


class HostLoop(ProcessLoop):
    """Event loop of a process, with the host's network."""

    def __init__(self, host: Host, name: str) -> None:
        super().__init__(host.timeline, name=name, rate=host.clock_rate)
        self.host = host
        self.transports: dict[StreamTransport, None] = {}
        self.servers: dict[Server, None] = {}

    async def create_connection(  # type: ignore[override] # unused parameters are ignored
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        **_ignored: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if ssl:
            raise NotImplementedError("there is no TLS in a simulation")
        transport = await self.host.network.connect(self, host or "localhost", int(port or 0))
        protocol = protocol_factory()
        transport.start(protocol)
        return transport, protocol

    async def create_server(  # type: ignore[override] # see create_connection
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        start_serving: bool = True,
        **_ignored: Any,
    ) -> Server:
        if ssl:
            raise NotImplementedError("there is no TLS in a simulation")
        if host and host not in (*LOCAL_HOSTS, "0.0.0.0", "::", self.host.name, self.host.address):  # noqa: S104 compared
            raise OSError(99, f"Cannot assign requested address: {host}")
        server = Server(self, protocol_factory, port or self.host.network.free_port(self.host.name))
        self.host.network.bind(server)
        self.servers[server] = None
        if start_serving:
            await server.start_serving()
        return server

    async def getaddrinfo(  # type: ignore[override] # see create_connection
        self, host: str | None, port: Any, **_ignored: Any
    ) -> list[tuple[Any, ...]]:
        found = self.host.network.find(host or "localhost", seen_from=self.host.name)
        return address_info(found.address if found is not None else str(host), port)


class HostClock:
    """Clock of a process, see kwire.seams.Clock."""

    def __init__(self, loop: HostLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return self._loop.host.wall_ms()

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000.0


class HostWorkers:
    """Workers of a process, see kwire.seams.Workers. A call takes a random time, and runs at a random moment of it."""

    def __init__(self, loop: HostLoop, random_source: SeededRandomSource) -> None:
        self._loop = loop
        self._random_source = random_source
        self._jobs: dict[_Job, None] = {}

    async def run(self, call: Callable[[], T]) -> T:
        job = _Job(self._loop, call)
        self._jobs[job] = None
        seconds = (0.02 + self._random_source.exponential(WORKER_MS)) / 1000.0 * self._loop.host.device.slowness
        part = self._random_source.uniform(0.0, 1.0)
        self._loop.call_later(seconds * part, self._do, job, seconds * (1.0 - part))
        result: T = await job.answer
        return result

    def _do(self, job: _Job, rest: float) -> None:
        if job in self._jobs:
            del self._jobs[job]
            job.do()
            self._loop.call_later(rest, job.tell)

    def close(self) -> None:
        """Run all pending calls now: a real process would wait for them."""
        jobs, self._jobs = self._jobs, {}
        for job in jobs:
            job.do()
            job.tell()


class _Job:
    """Call of a worker."""

    __slots__ = ("_call", "_error", "_value", "answer")

    def __init__(self, loop: HostLoop, call: Callable[[], Any]) -> None:
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None
        self.answer: asyncio.Future[Any] = loop.create_future()

    def do(self) -> None:
        try:
            self._value = self._call()
        except Exception as error:  # noqa: BLE001 raised at the caller
            self._error = error

    def tell(self) -> None:
        if self.answer.done():
            return
        if self._error is not None:
            self.answer.set_exception(self._error)
        else:
            self.answer.set_result(self._value)


class Process:
    """Program that runs on a host."""

    def __init__(self, host: Host, number: int) -> None:
        self.host = host
        self.name = f"{host.name}#{number}"
        self.random_source = host.random_source.child(str(number))
        self.loop = HostLoop(host, self.name)
        self.disk = SimulatedDisk(host.device, lambda what: host.note(f"{self.name} {what}"))
        self.clock = HostClock(self.loop)
        self.workers = HostWorkers(self.loop, self.random_source.child("workers"))

    @property
    def is_alive(self) -> bool:
        return not self.loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task in this process."""
        return self.loop.create_task(work)

    def end(self, *, silently: bool) -> None:
        """Stop everything in the process. `silently` means that the kernel does not close its connections."""
        self.disk.is_dead = True
        for server in list(self.loop.servers):
            server.close()
        for transport in list(self.loop.transports):
            if silently:
                transport.power_off()
            else:
                transport.lose()
        self.loop.die()


class Host:
    """Machine with a name, an address, a device, and at most one current process."""

    def __init__(
        self,
        name: str,
        address: str,
        *,
        network: Network,
        random_source: SeededRandomSource,
        note: Callable[[str], None],
    ) -> None:
        self.name = name
        self.address = address
        self.network = network
        self.timeline: Timeline = network.timeline
        self.random_source = random_source
        self.note = note
        self.device = Device(self.wall_ms)
        self.clock_rate = 1.0
        """Seconds of a process's clock per second of the simulation; for processes that are started from now on."""
        self.wall_offset_ms = 0
        self.is_on = True
        self.process: Process | None = None
        self.started: Callable[[Process], None] = lambda process: None  # noqa: ARG005 default
        """Called with each started process."""
        self._started = 0

    def wall_ms(self) -> int:
        """Return the wall-clock time of this host in ms."""
        return self.wall_ns() // 1_000_000

    def wall_ns(self) -> int:
        """Return the wall-clock time of this host in ns."""
        passed_ns = round(self.timeline.now * self.clock_rate * 1e9)
        return (WALL_START_MS + self.wall_offset_ms) * 1_000_000 + passed_ns

    def jump(self, seconds: float) -> None:
        """Move the wall clock, as an administrator or NTP may."""
        self.note(f"{self.name} jump {seconds:.3f}")
        self.wall_offset_ms += round(seconds * 1000)

    def start(self) -> Process:
        """Start a new process; a host without power gets power."""
        assert self.process is None, f"a process runs on {self.name}"
        if not self.is_on:
            self.power_on()
        self._started += 1
        self.process = Process(self, self._started)
        self.started(self.process)
        self.note(f"{self.process.name} start")
        return self.process

    def kill(self) -> None:
        """Kill the process as kill -9 does: its writes are kept, and the kernel closes its connections."""
        process, self.process = self.process, None
        if process is not None:
            self.note(f"{process.name} kill")
            process.end(silently=False)

    def power_off(self) -> None:
        """Cut the power: a random part of unsynced data is lost, and connections are not closed."""
        process, self.process = self.process, None
        self.note(f"{self.name} power off")
        self.is_on = False
        if process is not None:
            process.end(silently=True)
        for name in self.network.hosts:
            if name != self.name:
                self.network.link(name, self.name).block(f"{self.name} is off")
        self.device.lose_power(self.random_source.child(f"power {self._started}"))

    def power_on(self) -> None:
        """Restore the power, without starting a process."""
        self.is_on = True
        for name in self.network.hosts:
            if name != self.name:
                self.network.link(name, self.name).unblock(f"{self.name} is off")

    def pause(self) -> None:
        """Stop the process as SIGSTOP does; its kernel still answers."""
        assert self.process is not None, f"nothing runs on {self.name}"
        self.note(f"{self.name} pause")
        self.process.loop.pause()

    def resume(self) -> None:
        """Continue a paused process."""
        if self.process is not None:
            self.note(f"{self.name} resume")
            self.process.loop.resume()


__all__ = ["Host", "HostClock", "HostLoop", "HostWorkers", "Process", "ProcessKilled"]
