"""Broker server: builds, starts and stops a broker, and the controller of a node with both roles. One loop, one broker.

The start binds the ports first, so that a port in use leaves the disk untouched. Then it goes bottom-up: directories,
logs, metadata, partitions, coordinators, registration. It accepts connections last. The stop goes top-down, so that a
part outlives the parts that use it. The locks of the log directories exclude a second process of the same node.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.directory_ids import is_reserved
from kwire.cluster.group_commit import GroupCommit
from kwire.cluster.image import MetadataImage
from kwire.cluster.jobs import run_stages
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.partitions import Partitions
from kwire.cluster.registrations import Endpoint
from kwire.cluster.settings import CurrentSettings, setting
from kwire.invariants import is_broken_invariant
from kwire.log.disk import Disk
from kwire.log.log_directory import previous_broker_epoch
from kwire.log.log_manager import LogManager
from kwire.protocol.uuids import uuid_to_text
from kwire.repeated_messages import RepeatedMessages
from kwire.seams import Clock, RandomSource, Workers
from kwire.server.apis import SERVED
from kwire.server.apis.api_versions import unsupported_version
from kwire.server.authorization import AllowEverything
from kwire.server.broker_lifecycle import BrokerLifecycle
from kwire.server.client_telemetry import ClientTelemetry
from kwire.server.cold_reads import ColdReader
from kwire.server.compaction.cleaner import CleanerParts, LogCleaner
from kwire.server.compaction.rounds import ProcessRounds, Rounds
from kwire.server.controller_role import ControllerRole, way_to_controller
from kwire.server.coordinators import Coordinators
from kwire.server.cordoned_directories import CordonedDirectories
from kwire.server.directory_assignments import DirectoryAssignments
from kwire.server.dispatch import Dispatcher
from kwire.server.fetch_sessions import FetchSessions
from kwire.server.housekeeping import Housekeeping
from kwire.server.internal_topics import TopicCreator
from kwire.server.large_batches import WorkersForLargeBatches
from kwire.server.lost_replicas import LostReplicas
from kwire.server.network.addresses import shown_address
from kwire.server.network.connection_limits import ListenerSettings
from kwire.server.network.listeners import Listeners
from kwire.server.network.memory_return import MemoryReturn
from kwire.server.node import Node, recovery_threads
from kwire.server.partition_turns import PartitionTurns
from kwire.server.quotas.manager import ClientQuotaManager, QuotaConfig
from kwire.server.quotas.replication import Side
from kwire.server.replica_moves import ReplicaMoves
from kwire.server.replication import BrokerPeers, Replication, ReplicationSettings, replication_quota
from kwire.server.services import Services
from kwire.server.settings.config import BrokerConfig, ListenerAddress
from kwire.server.settings.config_entries import ConfigEntries
from kwire.server.settings.requests import RequestSettings

logger = logging.getLogger(__name__)

LOOKS_IN_LAG_TIME = 10
"""Checks of every partition of a follower's fetch session per replica.lag.time.max.ms, also of unchanged partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Settings that say which parts of a broker run."""

    cleans_logs: bool = setting("log.cleaner.enable")
    shuts_down_controlled: bool = setting("controlled.shutdown.enable")


class BrokerServer:
    """Broker process. Its owner starts it, waits for `failed` or another reason to stop, and stops it."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        random_source: RandomSource | None = None,
        disk: Disk | None = None,
        workers: Workers | None = None,
        rounds: Rounds | None = None,
        memory: MemoryReturn | None = None,
        loaded: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`loaded` is called with the number of long-lived records that coordinators load.

        A process that is only a broker passes `KeptObjects.loaded`.
        """
        self.config = config
        self._node = Node(config, what="broker", clock=clock, random_source=random_source, disk=disk, workers=workers)
        self._controller = ControllerRole(self._node) if config.is_controller else None
        self._rounds = rounds or ProcessRounds()
        self._memory = memory
        self._loaded = loaded
        self._listeners = Listeners(
            config,
            self._node.settings,
            config.listeners,
            turns=self._node.turns,
            on_request_error=self._node.background.fail_if_data_threatened,
        )
        self.failed = self._node.background.failed
        """Future with the error that makes the broker stop."""

    # --- start

    async def start(self) -> None:
        """Start to serve. Raises SettingError, DirectoryRefused or DiskFailure, after releasing everything acquired."""
        node = self._node
        async with AsyncExitStack() as undo:  # also if it is cancelled while it waits for the quorum
            undo.callback(node.close_workers)
            undo.callback(self._listeners.stop_accepting)
            await self._listeners.bind()
            ports: Mapping[str, int] = {}
            if self._controller is not None:
                undo.callback(self._controller.stop_accepting)
                await self._controller.listeners.bind()
                ports = self._controller.listeners.ports()
            node.open(ports)
            undo.callback(node.storage.release)
            logs = undo.enter_context(ExitStack())  # open until no callback follows the metadata
            undo.push_async_callback(node.close)
            undo.push_async_callback(node.background.stop)
            await self._start(logs)
            undo.pop_all()

    async def _start(self, undo: ExitStack) -> None:
        node = self._node
        node.dynamic_configs.watch(lambda: self._listeners.limits.update(node.settings.of(ListenerSettings)))
        self._active_controller = way_to_controller(node, self._controller)
        if self._controller is not None:
            await self._controller.serve()
        node.start()
        if self._controller is not None:
            self._controller.start(self._active_controller)
        lost = await self._register()
        await self._open_partitions(lost, undo)
        self._coordinators = Coordinators(
            node,
            self._partitions,
            self._active_controller,
            broker_epoch=lambda: self._lifecycle.broker_epoch,
            loaded=self._loaded,
        )
        self._services = self._make_services()
        # The broker becomes a leader only after it is unfenced. From then on, watchers receive every change of
        # leadership.
        await self._lifecycle.unfence()
        await self._coordinators.start()
        await self._listeners.serve(lambda name: Dispatcher(SERVED, self._services, name).handle)
        self._start_tasks()

    async def _register(self) -> list[UUID]:
        """Register this broker, and return when the metadata contain the registration:
        older metadata do not fit the logs.

        The ids of missing log directories are registered too, and returned.
        """
        node = self._node
        node.broker_incarnation_id = node.random_source.uuid()
        self._lifecycle = BrokerLifecycle(
            config=self.config,
            settings=node.settings,
            cluster_id=node.storage.cluster_id,
            incarnation_id=node.broker_incarnation_id,
            previous_broker_epoch=previous_broker_epoch(node.disk, self.config.log_dirs),
            active_controller=self._active_controller,
            metadata_log=node.metadata_log,
            clock=node.clock,
            endpoints=self._advertised_endpoints,
        )
        await self._lifecycle.await_metadata()
        registered = self._image().brokers.get(self.config.node_id)
        lost = self._absent(registered.directories if registered else ())
        await self._lifecycle.register([*node.storage.directory_ids.values(), *lost])
        return lost

    async def _open_partitions(self, lost: Sequence[UUID], undo: ExitStack) -> None:
        """Open the logs and follow the metadata.

        A missing directory that no partition needs is removed from the registration.
        """
        node = self._node
        self._logs = LogManager(self.config.log_dirs, node.surroundings, locks=node.storage.locks)
        undo.callback(self._logs.close, clean=False)
        self._lifecycle.offline_directories = self._offline_directories
        for directory in self._logs.directories:
            directory.failed = self._lifecycle.heartbeat_soon
        cordoned = CordonedDirectories(
            config=self.config,
            settings=node.settings,
            logs=self._logs,
            directory_ids=node.storage.directory_ids,
            changed=self._lifecycle.heartbeat_soon,
        )
        self._lifecycle.cordoned_directories = cordoned.told
        node.dynamic_configs.watch(cordoned.settings_changed)
        self._group_commit = GroupCommit(self._logs, node.workers, failed=node.background.fail)
        peers = BrokerPeers(node, self._active_controller, broker_epoch=lambda: self._lifecycle.broker_epoch)
        self._partitions = Partitions(
            broker_id=self.config.node_id,
            logs=self._logs,
            group_commit=self._group_commit,
            peers=peers,
            settings_of=node.dynamic_configs.settings_of,
        )
        at_once = recovery_threads(node.settings, directories=1)  # directories are loaded one after another
        loading = self._partitions.loading(self._image(), at_once=at_once)
        await run_stages(loading, node.recovery_workers(at_once), at_once=at_once)
        absent = self._absent({*lost, *self._named_directories()})
        self._log_missing_directories(absent)
        self._partitions.start(node.metadata_log.image, is_directory_lost=bool(absent))
        for directory in self._logs.directories:
            directory.failed = self._directory_failed
        self._partition_turns = PartitionTurns(self._partitions, node.workers)
        node.broker_tasks.run(self._partition_turns.run())
        node.metadata_log.watch(self._partitions.follow)
        self._replication = Replication(node, self._partitions, peers)
        self._replication.start()
        assignments = DirectoryAssignments(
            broker_id=self.config.node_id,
            broker_epoch=lambda: self._lifecycle.broker_epoch,
            directory_ids=node.storage.directory_ids,
            active_controller=self._active_controller,
        )
        lost_replicas = LostReplicas(
            broker_id=self.config.node_id,
            partitions=self._partitions,
            replication=self._replication,
            assignments=assignments,
            disk=node.disk,
        )
        node.broker_tasks.run(assignments.run())
        node.broker_tasks.run(lost_replicas.run())
        self._moves = ReplicaMoves(
            logs=self._logs,
            partitions=self._partitions,
            workers=node.workers,
            dynamic_configs=node.dynamic_configs,
            assignments=assignments,
            moved=lost_replicas.opened,
        )
        node.broker_tasks.run(self._moves.run())
        if lost and not self._partitions.any_closed:
            # Otherwise it stays registered, so that the next start expects it: the next start, too, must not create its
            # partitions anew and empty.
            await self._lifecycle.register(list(node.storage.directory_ids.values()))

    def _image(self) -> MetadataImage:
        return self._node.metadata_log.image

    def _make_services(self) -> Services:
        config, settings = self.config, self._node.settings
        requests = settings.of(RequestSettings)
        self._topic_creator = TopicCreator(self._active_controller, self._node.metadata_log, config, settings)
        return Services(
            config=config,
            settings=settings,
            dynamic_configs=self._node.dynamic_configs,
            config_entries=ConfigEntries(config, settings, self._node.dynamic_configs),
            cluster_id=self._node.storage.cluster_id,
            clock=self._node.clock,
            random_source=self._node.random_source,
            workers=self._node.workers,
            disk=self._node.disk,
            metadata_log=self._node.metadata_log,
            active_controller=self._active_controller,
            logs=self._logs,
            partitions=self._partitions,
            moves=self._moves,
            leader_quota=replication_quota(self._node, Side.LEADER),
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            gate=self._coordinators.gate,
            markers=self._coordinators.markers,
            authorizer=AllowEverything(),
            quotas=self._make_quotas(),
            client_telemetry=ClientTelemetry(
                clock=self._node.clock, random_source=self._node.random_source, bytes_max=requests.telemetry_bytes_max
            ),
            fetch_sessions=FetchSessions(
                slots=requests.fetch_session_slots,
                random_source=self._node.random_source,
                clock=self._node.clock,
                look_at_all_ms=lambda: settings.of(ReplicationSettings).lag_time_max_ms / LOOKS_IN_LAG_TIME,
            ),
            output=self._listeners.output,
            large_batches=WorkersForLargeBatches(self._node.workers),
            cold_reads=ColdReader(self._node.workers),
            messages=RepeatedMessages(logger, self._node.clock.monotonic_ms),
            producer_ids=self._coordinators.producer_ids,
            topic_creator=self._topic_creator,
            apis=SERVED,
            unsupported_api_versions=unsupported_version,
        )

    def _make_quotas(self) -> ClientQuotaManager:
        quotas = ClientQuotaManager(clock=self._node.clock, config=self._node.settings.of(QuotaConfig))
        quotas.load(self._node.metadata_log.image)
        self._node.metadata_log.watch(quotas.follow)
        self._listeners.limits.refused_ms = quotas.connection_refused_ms
        return quotas

    def _named_directories(self) -> set[UUID]:
        """Return the log directories that hold this node's replicas by the metadata, also
        one that failed before the stop.
        """
        node_id = self.config.node_id
        partitions = (partition for topic in self._image().topics.values() for partition in topic.partitions)
        named = {
            partition.directories[partition.replicas.index(node_id)]
            for partition in partitions
            if node_id in partition.replicas and partition.directories
        }
        return {directory_id for directory_id in named if not is_reserved(directory_id)}

    def _absent(self, directories: Iterable[UUID]) -> list[UUID]:
        """Return the ids of directories that this node does not have: a volume may not be mounted."""
        return sorted(set(directories).difference(self._node.storage.directory_ids.values()))

    @staticmethod
    def _log_missing_directories(directories: Iterable[UUID]) -> None:
        for directory_id in directories:
            logger.error(
                "log.dirs: the directory with directory.id=%s is missing; a replica that is in no other one is copied "
                "again from its leader, but stays closed while the cluster may need its data: until the directory is "
                "back, enough other replicas are in sync, or the replica is assigned to other brokers",
                uuid_to_text(directory_id),
            )

    def _offline_directories(self) -> list[UUID]:
        """Return the failed log directories; none if all have failed."""
        directories = self._logs.directories
        failed = [each.path for each in directories if each.is_offline]
        if len(failed) == len(directories):
            return []
        known = self._node.storage.directory_ids
        return [known[path] for path in failed if path in known]

    def _advertised_endpoints(self) -> list[Endpoint]:
        """Return the listeners that clients connect to. A configured port 0 is replaced by the port that was bound."""
        return [
            Endpoint(name=address.name, host=_routable(address), port=self._listeners.port_of(address))
            for address in self.config.advertised_listeners
        ]

    def _start_tasks(self) -> None:
        self._housekeeping = Housekeeping(
            settings=self._node.settings,
            image=self._image,
            partitions=self._partitions,
            logs=self._logs,
            workers=self._node.workers,
            memory=self._memory,
        )
        self._node.broker_tasks.run(self._listeners.sweep())
        self._node.background.run(self._lifecycle.run())
        self._node.broker_tasks.run(self._topic_creator.run())
        for task in self._housekeeping.tasks():
            self._node.broker_tasks.run(task)
        if self._node.settings.of(BrokerSettings).cleans_logs:
            self._start_cleaner()
        self._node.watch_loop()

    def _start_cleaner(self) -> None:
        cleaner = LogCleaner(
            CleanerParts(
                settings=self._node.settings,
                logs=self._logs,
                disk=self._node.disk,
                clock=self._node.clock,
                workers=self._node.workers,
                rounds=self._rounds,
                last_stable_offset_of=self._housekeeping.last_stable_offset_of,
            )
        )
        self._partitions.watch_removals(cleaner.partition_removed)
        self._node.dynamic_configs.watch(cleaner.settings_changed)
        self._node.broker_tasks.run(cleaner.run())

    # --- use

    @property
    def settings(self) -> CurrentSettings:
        """Settings as they are now."""
        return self._node.settings

    @property
    def bootstrap_server(self) -> str:
        """Address of the first listener as host:port, as clients receive it."""
        end = self._image().brokers[self.config.node_id].endpoints[0]
        return shown_address(end.host, end.port)

    @property
    def long_request_bytes(self) -> int:
        """Memory of the long requests that are being served, in bytes."""
        controllers = 0 if self._controller is None else self._controller.listeners.long_request_bytes
        return self._listeners.long_request_bytes + controllers

    @property
    def cluster_id(self) -> str:
        return self._node.storage.cluster_id

    @property
    def metadata_log(self) -> MetadataLog:
        return self._node.metadata_log

    @property
    def services(self) -> Services:
        """Parts of the broker that handlers use."""
        return self._services

    # --- stop

    def _directory_failed(self) -> None:
        self._lifecycle.heartbeat_soon()
        asyncio.get_running_loop().call_soon(self._partitions.wake_failed)  # after the call that met the failure

    async def stop(self, *, before_leaving: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Hand leaderships over to other brokers, stop serving, flush, and leave directories that need no recovery.

        On a node that is also a controller, `before_leaving` is awaited before the node leaves the quorum. Its result
        is True if the other controllers are to elect a leader first, in case this node leads.
        """
        node = self._node
        if node.settings.of(BrokerSettings).shuts_down_controlled and not self.failed.done():
            await self._lifecycle.shut_down()
        self._listeners.stop_accepting()
        self._coordinators.stop()
        self._listeners.abort_connections("the broker stops")
        await self._close_logs()
        if self._controller is not None:
            if before_leaving is None or await before_leaving():
                await node.leave()
            self._controller.stop_accepting()
        await node.background.stop()
        await node.close()
        node.storage.release()

    async def _close_logs(self) -> None:
        """Close the logs, as clean if memory is not corrupt. Heartbeats and the quorum continue meanwhile."""
        node = self._node
        node.metadata_log.unwatch(self._partitions.follow)
        await node.broker_tasks.stop()
        await self._group_commit.close()
        await node.workers.drain()  # a checkpoint may still be written, although its task was cancelled
        is_clean = not (self.failed.done() and is_broken_invariant(self.failed.result()))
        if is_clean:
            await self._partition_turns.finish_removals()
        stages = self._logs.closing(
            clean=is_clean,
            broker_epoch=self._lifecycle.broker_epoch,
            high_watermarks=self._housekeeping.high_watermarks(),
        )
        at_once = recovery_threads(node.settings, directories=len(self.config.log_dirs))
        await run_stages(stages, node.recovery_workers(at_once), at_once=at_once)


def _routable(address: ListenerAddress) -> str:
    """Return the host of a listener for clients: the configured one, or else this machine's host name."""
    return address.host or socket.getfqdn()
