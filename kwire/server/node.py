"""What a process has once, whatever its roles: directories, the metadata log, ways to other nodes, tasks.

A node is opened, then started by whoever uses it, and closed last: what is above must have ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from uuid import UUID

from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.snapshotting import Snapshotting
from kwire.log.disk import Disk, RealDisk, parts_default
from kwire.log.recovery import Surroundings
from kwire.loop_monitor import LoopMonitor
from kwire.seams import Chance, Clock, SystemChance, SystemClock, ThreadWorkers, Workers
from kwire.server.background import Background, RoleTasks
from kwire.server.network.node_channel import NodeChannel
from kwire.server.network.node_connection import RESPONSE_BYTES_MAX
from kwire.server.network.turns import Turns
from kwire.server.quorum_settings import open_metadata, quorum_config, refuse_other_voters, snapshot_config
from kwire.server.settings.config import BrokerConfig, SettingError
from kwire.server.settings.dynamic_configs import DynamicConfigs
from kwire.server.storage import Storage, open_storage
from kwire.server.tracked_workers import TrackedWorkers

LEAVE_MS = 5000
"""How long the others have to elect a leader when this one goes."""


class Node:
    """Owns the directories, the replica of the metadata log and the tasks of a process."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        what: str,
        clock: Clock | None,
        chance: Chance | None,
        disk: Disk | None,
        workers: Workers | None,
    ) -> None:
        """`what` is the node's name in the log. Raises SettingError where Python leaves assertions out."""
        if not __debug__:
            raise SettingError(
                "python -O leaves out the assertions that protect what is stored; start without -O and PYTHONOPTIMIZE"
            )
        self.config = config
        self.clock = clock or SystemClock()
        self.chance = chance or SystemChance()
        self.disk = disk or RealDisk()
        self.workers = TrackedWorkers(workers or ThreadWorkers())
        self._metadata_workers = workers or ThreadWorkers(1)
        """Of their own: while a disk with partitions hangs, the quorum goes on."""
        self._shared_workers = workers
        self._recovery_workers: list[Workers] = []
        self.background = Background(what)
        self.broker_tasks = RoleTasks(self.background)
        """Tasks that may use logs of partitions; they end before those are closed."""
        self.turns = Turns(self.clock.monotonic_ms)
        """All listeners of a process share its loop."""
        self.loop_monitor = LoopMonitor() if clock is None else None
        """Virtual time has no late timers."""
        self.surroundings = Surroundings(disk=self.disk, clock=self.clock, chance=self.chance)
        client_id = f"{what}-{config.node_id}"
        self._quorum_channel = NodeChannel(
            client_id=client_id,
            software_version=version("kwire"),
            timeout_ms=config["controller.quorum.request.timeout.ms"],
        )
        self._client_id = client_id
        self._channels: list[NodeChannel] = []
        self.channel = self.open_channel(timeout_ms=config["request.timeout.ms"])
        """To brokers and controllers, for all but the quorum's own messages."""
        self.broker_incarnation_id: UUID | None = None
        """What the broker of this process registers with, as soon as there is one."""
        self.storage: Storage
        self.metadata_log: MetadataLog
        self.dynamic_configs: DynamicConfigs

    def open(self, ports: Mapping[str, int]) -> None:
        """Lock the directories and open the metadata log; `ports` are those of its listeners that were picked.

        Raises DirectoryRefused or DiskFailure; nothing is kept then.
        """
        self.storage = open_storage(self.config, disk=self.disk, clock=self.clock, chance=self.chance)
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
        self.dynamic_configs = DynamicConfigs(self.config)

    def start(self) -> None:
        """Take part in the quorum. Settings that are altered dynamically follow before all else does."""
        self.metadata_log.watch(self.dynamic_configs.follow)
        self.metadata_log.start()
        self.dynamic_configs.start(self.metadata_log.image)
        snapshotting = Snapshotting(self.metadata_log, snapshot_config(self.config), clock=self.clock)
        self.background.run(snapshotting.run())

    def watch_loop(self) -> None:
        """From now on; what a start does is not worth a word."""
        if self.loop_monitor is not None:
            self.background.run(self.loop_monitor.run())

    def open_channel(self, *, timeout_ms: int, response_bytes_max: int = RESPONSE_BYTES_MAX) -> NodeChannel:
        """A way to other nodes that nobody else uses; closed with the node."""
        channel = NodeChannel(
            client_id=self._client_id,
            software_version=version("kwire"),
            timeout_ms=timeout_ms,
            response_bytes_max=response_bytes_max,
        )
        self._channels.append(channel)
        return channel

    async def leave(self) -> None:
        """Let the others elect a leader, if this node leads others."""
        await self.metadata_log.node.shut_down(LEAVE_MS)

    async def close(self) -> None:
        """Flush, and give the metadata log's files back."""
        for channel in self._channels:
            channel.close()
        self._quorum_channel.close()
        await self.metadata_log.close()
        self.close_workers()  # what they write must not cross with what is written after this

    def close_workers(self) -> None:
        """Wait for what they do; again is no harm."""
        for workers in (self._metadata_workers, self.workers, *self._recovery_workers):
            workers.close()

    def recovery_workers(self, threads: int) -> Workers:
        """Workers that open the logs at start, or close them at stop."""
        workers = self._shared_workers or ThreadWorkers(threads)
        self._recovery_workers.append(workers)
        return workers


def recovery_threads(config: BrokerConfig, *, directories: int) -> int:
    """Return how many logs of so many directories are opened or closed at the same time.

    It is as many as the configuration says by now, but no more than there are descriptors for, and at most PARTS_MAX.
    """
    per_directory: int = config["num.recovery.threads.per.data.dir"]
    return min(per_directory * directories, parts_default())
