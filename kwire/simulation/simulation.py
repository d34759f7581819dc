"""Simulation in one thread: hosts, brokers, network, disks and time, all from one seed.

    with Simulation(seed=7) as simulation:
        broker = simulation.broker("broker-1")

        async def scenario() -> None:
            await broker.start()
            client = await simulation.connect(broker)
            ...

        simulation.run(scenario())
        simulation.advance(60)

Events happen only in run() and advance(). The same seed gives the same events in the same order: see Trace.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Self, TypeVar

from kwire.simulation.brokers import SimulatedBroker
from kwire.simulation.client import WireClient
from kwire.simulation.clusters import SimulatedCluster, make_cluster
from kwire.simulation.controllers import SimulatedController, controllers
from kwire.simulation.costs import Costs
from kwire.simulation.hosts import Host, Process
from kwire.simulation.loop import ProcessLoop
from kwire.simulation.machine import Machine
from kwire.simulation.network import Network
from kwire.simulation.random_source import SeededRandomSource
from kwire.simulation.timeline import DeadlockError, Timeline
from kwire.simulation.trace import Trace

T = TypeVar("T")
Check = Callable[[], None]
CLIENT = "client"
STEP_SECONDS = 1e-6
"""Time of one step of a process."""


class UnhandledError(AssertionError):
    """Error of a callback of a process that was not caught."""


class Simulation:
    """Simulation with its hosts, network and timeline, see the module."""

    def __init__(self, seed: int = 1, *, own_machine: bool = False) -> None:
        """With own_machine, Python's time and random modules use the simulation's values while it runs: see Machine."""
        self.seed = seed
        self.timeline = Timeline(step_seconds=STEP_SECONDS)
        self.trace = Trace(self.timeline)
        self.random_source = SeededRandomSource(seed)
        """Random number generator for tests."""
        kernel = ProcessLoop(self.timeline, name="kernel")
        self._kernel = kernel
        self.network = Network(self.timeline, self.random_source.child("network"), self.trace.note, kernel)
        self.brokers: dict[str, SimulatedBroker] = {}
        self._costs: Costs | None = None
        self.is_strict = True
        """True if an exception that was not caught ends the run."""
        self._checks: list[Check] = []
        self._every: list[tuple[int, Check]] = []
        self._unhandled: BaseException | None = None
        self._loops: list[ProcessLoop] = [kernel]
        self.timeline.after_event = self._after_event
        self._kernel.failed = self._failed
        self._machine = Machine(self.random_source.child("machine")) if own_machine else None
        self.client = self.start(self.host(CLIENT))
        """Process in which run() runs its coroutine."""

    # --- what there is

    def host(self, name: str) -> Host:
        """Return the host of this name; it is created if there is none."""
        hosts = self.network.hosts
        if name not in hosts:
            address = f"10.0.{(len(hosts) + 1) // 256}.{(len(hosts) + 1) % 256}"
            random_source = self.random_source.child(f"host {name}")
            hosts[name] = Host(name, address, network=self.network, random_source=random_source, note=self.trace.note)
            hosts[name].started = self._started
        return hosts[name]

    def start(self, host: Host) -> Process:
        """Start a process on a host, for any coroutine."""
        return host.start()

    def broker(
        self, name: str = "broker-1", config: Mapping[str, object] | None = None, *, node_id: int | None = None
    ) -> SimulatedBroker:
        """Return a broker on a host of this name, not started. Settings have Kafka's dotted names."""
        assert name not in self.brokers, f"there is a broker {name}"
        settings = {key: str(value) for key, value in (config or {}).items()}
        broker = SimulatedBroker(self.host(name), settings, node_id=node_id or len(self.brokers) + 1)
        self.brokers[name] = broker
        return broker

    def quorum(
        self, count: int, config: Mapping[str, object] | None = None, *, as_objects: bool = False
    ) -> list[SimulatedController]:
        """Return controllers on hosts controller-1, controller-2 and so on, not started.

        With as_objects, their messages are passed without connections and unencoded, which is faster.
        """
        settings = {key: str(value) for key, value in (config or {}).items()}
        hosts = [self.host(f"controller-{number}") for number in range(1, count + 1)]
        return controllers(hosts, settings, as_objects=as_objects)

    def cluster(
        self,
        *,
        brokers: int = 3,
        controllers: int = 3,
        config: Mapping[str, object] | None = None,
        as_objects: bool = False,
    ) -> SimulatedCluster:
        """Return a cluster on hosts broker-1, controller-1 and so on, not started.

        Without controllers each broker is one.

        The settings are those of all nodes. With as_objects, quorum messages are passed as objects; see `quorum`.
        """
        settings = {key: str(value) for key, value in (config or {}).items()}
        broker_hosts = [self.host(f"broker-{number}") for number in range(1, brokers + 1)]
        controller_hosts = [self.host(f"controller-{number}") for number in range(1, controllers + 1)]
        cluster = make_cluster(broker_hosts, controller_hosts, settings, as_objects=as_objects)
        self.brokers.update({broker.name: broker for broker in cluster.brokers})
        return cluster

    async def connect(self, broker: SimulatedBroker, *, client_id: str = "wire") -> WireClient:
        """Return a client of request frames, on the host of the calling process."""
        return await WireClient.connect(broker.bootstrap_server, client_id=client_id)

    # --- time

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.timeline.now

    def run(self, work: Coroutine[Any, Any, T], *, seconds: float | None = None) -> T:
        """Return the coroutine's result; it runs in the client's process. Raises TimeoutError after so many seconds."""
        task = self.client.run(work)
        until = float("inf") if seconds is None else self.now + seconds
        self._run(task.done, until)
        if not task.done():
            task.cancel()
            raise TimeoutError(f"not done within {seconds} seconds of the simulation's time")
        return task.result()

    def advance(self, seconds: float) -> None:
        """Let time pass, with all events in it."""
        self._run(lambda: False, self.now + seconds)

    def _run(self, is_over: Callable[[], bool], until: float) -> None:
        with self._machine.lent() if self._machine is not None else nullcontext():
            self.timeline.run(is_over, until=until)

    def charge(self, costs: Costs) -> None:
        """Let the steps of all processes but the client's cost time from now on."""
        self._costs = costs
        for loop in self._loops:
            if loop not in (self._kernel, self.client.loop):
                loop.costs = costs

    # --- checks

    def check_after_each_event(self, check: Check) -> None:
        """Call a check after each event of any process. Its exception ends the run; it must be cheap."""
        self._checks.append(check)

    def check_every(self, events: int, check: Check) -> None:
        """Call a check after every so many events."""
        self._every.append((events, check))

    def _after_event(self) -> None:
        if self._unhandled is not None:
            error, self._unhandled = self._unhandled, None
            raise UnhandledError(f"unhandled in the simulation, seed {self.seed}: {error!r}") from error
        for check in self._checks:
            check()
        for events, check in self._every:
            if self.timeline.events % events == 0:
                check()

    def _started(self, process: Process) -> None:
        """Add a process to the observed ones, until the end of the simulation."""
        process.loop.failed = self._failed
        process.loop.costs = self._costs
        self._loops.append(process.loop)

    def _failed(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.is_strict and "handle" in context and isinstance(error, BaseException):
            self._unhandled = error

    # --- the end

    def close(self) -> None:
        """End all processes silently. A second call has no effect."""
        for host in self.network.hosts.values():
            process, host.process = host.process, None
            if process is not None:
                process.end(silently=True)
        for loop in self._loops:
            loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and isinstance(error, Exception):
            error.add_note(f"simulation of seed {self.seed}, {self.now:.3f} s, {self.timeline.events} events")
        self.close()


__all__ = ["Check", "DeadlockError", "Simulation", "UnhandledError"]
