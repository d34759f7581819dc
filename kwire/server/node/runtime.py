"""Runtime of a node: its settings, clock, workers and tasks, which it has before its directories are open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.log.disk import Disk, RealDisk, parts_default
from kwire.log.recovery import Surroundings
from kwire.loop_monitor import LoopMonitor
from kwire.seams import Clock, RandomSource, SystemClock, SystemRandomSource, ThreadWorkers, Workers
from kwire.server.compaction.rounds import Rounds
from kwire.server.network.flow.turns import Turns
from kwire.server.network.memory.memory_return import MemoryReturn
from kwire.server.network.outgoing.node_channel import NodeChannel
from kwire.server.node.authorizers import make_authorizer
from kwire.server.node.background import Background, RoleTasks
from kwire.server.node.exposure import warn_of_exposure
from kwire.server.node.principals import make_principal_builder
from kwire.server.node.tracked_workers import TrackedWorkers
from kwire.server.requests.audit_log import AuditLog
from kwire.server.security.tls.node_tls import NodeTls
from kwire.server.settings.config import BrokerConfig, SettingError

if TYPE_CHECKING:
    from kwire.server.node.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """Replaceable parts of a node. None stands for the real part, which production uses."""

    clock: Clock | None = None
    random_source: RandomSource | None = None
    disk: Disk | None = None
    workers: Workers | None = None
    quorum_channel: NodeChannel | None = None
    """Connections for the quorum's messages."""
    rounds: Rounds | None = None
    """Rounds of the log cleaner."""
    memory: MemoryReturn | None = None
    opened: Callable[[Node], None] = lambda _: None
    """Called with the node when it is open: an observer may watch a start that waits for the quorum."""


REAL: Final = Seams()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySettings:
    """Settings of opening and closing logs."""

    threads_per_directory: int = setting("num.recovery.threads.per.data.dir")


class NodeRuntime:
    """Settings, clock, workers and tasks of a node. Needs a running event loop."""

    def __init__(self, config: BrokerConfig, seams: Seams, *, what: str) -> None:
        """`what` is the node's name in the log. Raises SettingError, also if Python runs without assertions."""
        if not __debug__:
            raise SettingError(
                "python -O leaves out the assertions that protect what is stored; start without -O and PYTHONOPTIMIZE"
            )
        self.config = config
        self.seams = seams
        self.client_id = f"{what}-{config.node_id}"
        """Client id in requests to other nodes."""
        self.settings = CurrentSettings(config.parsed)
        self.clock = seams.clock or SystemClock()
        self.authorizer = make_authorizer(config, self.settings)
        self.principal_builder = make_principal_builder(config)
        warn_of_exposure(config, self.authorizer)
        self.audit = None if self.authorizer.allows_everything else AuditLog(self.clock.monotonic_ms)
        self.random_source = seams.random_source or SystemRandomSource()
        self.disk = seams.disk or RealDisk()
        self.workers = TrackedWorkers(seams.workers or ThreadWorkers())
        self.metadata_workers = seams.workers or ThreadWorkers(1)
        """Separate workers for the metadata: the quorum continues while a disk with partitions hangs."""
        self.tls = NodeTls(config, self.workers)
        """TLS of the node's listeners and of its connections to other nodes."""
        self._recovery_workers: list[Workers] = []
        self.background = Background(what)
        self.broker_tasks = RoleTasks(self.background)
        """Tasks that may use logs of partitions; they end before the logs are closed."""
        self.turns = Turns(self.clock.monotonic_ms)
        """Time slices of the event loop, which all listeners of a process share."""
        self.loop_monitor = LoopMonitor() if seams.clock is None else None
        """None with a simulated clock: virtual time has no late timers."""
        self.surroundings = Surroundings(disk=self.disk, clock=self.clock, random_source=self.random_source)

    def recovery_workers(self, threads: int) -> Workers:
        """Return workers that open the logs at start, or close them at stop."""
        workers = self.seams.workers or ThreadWorkers(threads)
        self._recovery_workers.append(workers)
        return workers

    def watch_loop(self) -> None:
        """Log long iterations of the event loop from now on; those during the start are expected."""
        if self.loop_monitor is not None:
            self.background.run(self.loop_monitor.run())

    def close_workers(self) -> None:
        """Wait for the workers' calls and close them; a second call has no effect."""
        for workers in (self.metadata_workers, self.workers, *self._recovery_workers):
            workers.close()


def recovery_threads(settings: CurrentSettings, *, directories: int) -> int:
    """Return how many logs in `directories` directories are opened or closed at the same time.

    The number follows the current configuration, limited by the available file descriptors and PARTS_MAX.
    """
    per_directory = settings.of(RecoverySettings).threads_per_directory
    return min(per_directory * directories, parts_default())
