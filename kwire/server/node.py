"""Node: the parts that a process has once, in any role: directories, metadata log, connections to other nodes, tasks.

A broker or controller opens and starts its node first and closes it last, after everything that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from uuid import UUID

from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.settings import CurrentSettings, setting
from kwire.cluster.snapshotting import SnapshotConfig, Snapshotting
from kwire.log.disk import Disk, RealDisk, parts_default
from kwire.log.recovery import Surroundings
from kwire.loop_monitor import LoopMonitor
from kwire.seams import Clock, RandomSource, SystemClock, SystemRandomSource, ThreadWorkers, Workers
from kwire.server.background import Background, RoleTasks
from kwire.server.network.node_channel import NodeChannel
from kwire.server.network.node_connection import RESPONSE_BYTES_MAX
from kwire.server.network.turns import Turns
from kwire.server.quorum_settings import open_metadata, quorum_config, refuse_other_voters
from kwire.server.settings.config import BrokerConfig, SettingError
from kwire.server.settings.dynamic_configs import DynamicConfigs
from kwire.server.storage import Storage, open_storage
from kwire.server.tracked_workers import TrackedWorkers

LEAVE_MS = 5000
"""Longest wait of a stopping leader for the other voters to elect another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings that brokers and controllers have in common."""

    request_timeout_ms: int = setting("request.timeout.ms")
    quorum_request_timeout_ms: int = setting("controller.quorum.request.timeout.ms")
    recovery_threads_per_directory: int = setting("num.recovery.threads.per.data.dir")


class Node:
    """Directories, replica of the metadata log, and tasks of a process."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        what: str,
        clock: Clock | None,
        random_source: RandomSource | None,
        disk: Disk | None,
        workers: Workers | None,
    ) -> None:
        """`what` is the node's name in the log. Raises SettingError if Python runs without assertions."""
        if not __debug__:
            raise SettingError(
                "python -O leaves out the assertions that protect what is stored; start without -O and PYTHONOPTIMIZE"
            )
        self.config = config
        self.settings = CurrentSettings(config.parsed)
        self.clock = clock or SystemClock()
        self.random_source = random_source or SystemRandomSource()
        self.disk = disk or RealDisk()
        self.workers = TrackedWorkers(workers or ThreadWorkers())
        self._metadata_workers = workers or ThreadWorkers(1)
        """Separate workers for the metadata: the quorum works on while a disk with partitions hangs."""
        self._shared_workers = workers
        self._recovery_workers: list[Workers] = []
        self.background = Background(what)
        self.broker_tasks = RoleTasks(self.background)
        """Tasks that may use logs of partitions; they end before the logs are closed."""
        self.turns = Turns(self.clock.monotonic_ms)
        """Time slices of the event loop, which all listeners of a process share."""
        self.loop_monitor = LoopMonitor() if clock is None else None
        """None with a simulated clock: virtual time has no late timers."""
        self.surroundings = Surroundings(disk=self.disk, clock=self.clock, random_source=self.random_source)
        client_id = f"{what}-{config.node_id}"
        self._quorum_channel = NodeChannel(
            client_id=client_id,
            software_version=version("kwire"),
            timeout_ms=self.settings.of(NodeSettings).quorum_request_timeout_ms,
        )
        self._client_id = client_id
        self._channels: list[NodeChannel] = []
        self.channel = self.open_channel(timeout_ms=self.settings.of(NodeSettings).request_timeout_ms)
        """Connections to brokers and controllers, for all but the quorum's own messages."""
        self.broker_incarnation_id: UUID | None = None
        """Incarnation id that the broker of this process registers with; None without a broker."""
        self.storage: Storage
        self.metadata_log: MetadataLog
        self.dynamic_configs: DynamicConfigs

    def open(self, ports: Mapping[str, int]) -> None:
        """Lock the directories and open the metadata log; `ports` are the bound ports of its listeners.

        Raises DirectoryRefused or DiskFailure, after releasing everything.
        """
        self.storage = open_storage(self.config, disk=self.disk, clock=self.clock, random_source=self.random_source)
        try:
            quorum = quorum_config(self.config, self.storage, ports)
            self.metadata_log = open_metadata(
                self.config,
                quorum,
                surroundings=self.surroundings,
                workers=self._metadata_workers,
                channel=self._quorum_channel,
            )
            if self.config.is_default_quorum:
                refuse_other_voters(self.metadata_log, quorum)
        except BaseException:
            self.storage.release()
            raise
        self.metadata_log.failed.add_done_callback(lambda done: self.background.fail(done.result()))
        self.dynamic_configs = DynamicConfigs(self.config.node_id, self.settings)

    def start(self) -> None:
        """Join the quorum. The dynamic configuration is the first to follow the metadata."""
        self.metadata_log.watch(self.dynamic_configs.follow)
        self.metadata_log.start()
        self.dynamic_configs.start(self.metadata_log.image)
        snapshotting = Snapshotting(self.metadata_log, self.settings.of(SnapshotConfig), clock=self.clock)
        self.background.run(snapshotting.run())

    def watch_loop(self) -> None:
        """Log long turns of the event loop from now on; those during the start are expected."""
        if self.loop_monitor is not None:
            self.background.run(self.loop_monitor.run())

    def open_channel(self, *, timeout_ms: int, response_bytes_max: int = RESPONSE_BYTES_MAX) -> NodeChannel:
        """Return new connections to other nodes, used by the caller alone; they are closed with the node."""
        channel = NodeChannel(
            client_id=self._client_id,
            software_version=version("kwire"),
            timeout_ms=timeout_ms,
            response_bytes_max=response_bytes_max,
        )
        self._channels.append(channel)
        return channel

    async def leave(self) -> None:
        """Let the other voters elect a leader, if this node leads them."""
        await self.metadata_log.node.shut_down(LEAVE_MS)

    async def close(self) -> None:
        """Flush and close the metadata log."""
        for channel in self._channels:
            channel.close()
        self._quorum_channel.close()
        await self.metadata_log.close()
        self.close_workers()  # their writes must not overlap with later writes

    def close_workers(self) -> None:
        """Wait for the workers' calls and close them; a second call has no effect."""
        for workers in (self._metadata_workers, self.workers, *self._recovery_workers):
            workers.close()

    def recovery_workers(self, threads: int) -> Workers:
        """Return workers that open the logs at start, or close them at stop."""
        workers = self._shared_workers or ThreadWorkers(threads)
        self._recovery_workers.append(workers)
        return workers


def recovery_threads(settings: CurrentSettings, *, directories: int) -> int:
    """Return how many logs in `directories` directories are opened or closed at the same time.

    The number follows the current configuration, limited by the available file descriptors and PARTS_MAX.
    """
    per_directory = settings.of(NodeSettings).recovery_threads_per_directory
    return min(per_directory * directories, parts_default())
