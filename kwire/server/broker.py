"""A node: broker and controller in one process, put together and run. One event loop, one broker.

Start takes the ports first, so that a taken one leaves the disk untouched, then goes bottom-up: directories, logs,
metadata, partitions, coordinators, registration; last it accepts connections. Stop goes top-down, so that what is below
outlives what uses it. A second process with the same node would be kept out by the directories' locks.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from uuid import UUID

from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.topics import TopicDefaults
from kwire.cluster.features import TRANSACTION_VERSION
from kwire.cluster.group_commit import GroupCommit
from kwire.cluster.image import Endpoint
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.metadata_node import NoPeers
from kwire.cluster.partitions import Partitions
from kwire.cluster.snapshotting import Snapshotting
from kwire.coordinator.group_coordinator import GroupConfig, GroupCoordinator
from kwire.coordinator.markers import LocalMarkers, MarkerWriter
from kwire.coordinator.transaction.gate import TransactionGate
from kwire.coordinator.transaction_coordinator import TransactionConfig, TransactionCoordinator
from kwire.log.disk import Disk, RealDisk
from kwire.log.log_manager import LogManager
from kwire.log.recovery import Surroundings
from kwire.protocol.uuids import uuid_to_text
from kwire.seams import Chance, Clock, SystemChance, SystemClock, ThreadWorkers, Workers
from kwire.server.apis import SERVED
from kwire.server.apis.api_versions import unsupported_version
from kwire.server.authorization import AllowEverything
from kwire.server.background import Background
from kwire.server.client_telemetry import ClientTelemetry
from kwire.server.compaction.cleaner import CleanerParts, LogCleaner
from kwire.server.compaction.rounds import ProcessRounds, Rounds
from kwire.server.dispatch import Dispatcher
from kwire.server.fetch_sessions import FetchSessions
from kwire.server.housekeeping import Housekeeping
from kwire.server.internal_topics import TopicCreator
from kwire.server.long_answers import LongAnswers
from kwire.server.network.listeners import Listeners
from kwire.server.network.memory_return import MemoryReturn
from kwire.server.producer_ids import ProducerIds
from kwire.server.quorum_settings import (
    open_metadata,
    quorum_config,
    refuse_other_voters,
    refuse_what_is_not_served,
    snapshot_config,
)
from kwire.server.quotas.manager import ClientQuotaManager, QuotaConfig
from kwire.server.services import Services
from kwire.server.settings.config import BrokerConfig, ListenerAddress
from kwire.server.settings.config_entries import ConfigEntries
from kwire.server.settings.dynamic_configs import DynamicConfigs
from kwire.server.storage import controller_endpoint, open_storage

logger = logging.getLogger("kwire.server")


class BrokerServer:
    """Start it, wait for `failed` or whatever else should end it, stop it."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        disk: Disk | None = None,
        workers: Workers | None = None,
        rounds: Rounds | None = None,
        memory: MemoryReturn | None = None,
        keep: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep is called while much is made that stays; a process that is only a broker gives `gc.freeze`."""
        self.config = config
        self._clock = clock or SystemClock()
        self._chance = chance or SystemChance()
        self._disk = disk or RealDisk()
        self._workers = workers or ThreadWorkers()
        self._rounds = rounds or ProcessRounds()
        self._memory = memory
        self._keep = keep
        self._listeners = Listeners(config, config.listeners)
        self._background = Background("broker")
        self.failed = self._background.failed
        """Resolved when the broker cannot go on."""

    # --- start

    async def start(self) -> None:
        """Serve. Raises SettingError, DirectoryRefused or DiskFailure; everything taken is given back then."""
        try:
            refuse_what_is_not_served(self.config)
            await self._listeners.bind()
            self._storage = open_storage(self.config, disk=self._disk, clock=self._clock, chance=self._chance)
            try:
                await self._start()
            except BaseException:
                self._storage.release()
                raise
        except BaseException:
            self._listeners.stop_accepting()
            self._workers.close()
            raise

    async def _start(self) -> None:
        config = self.config
        surroundings = Surroundings(disk=self._disk, clock=self._clock, chance=self._chance)
        self._logs = LogManager(config.log_dirs, surroundings, locks=self._storage.locks)
        self._metadata_log = await self._open_metadata()
        self._dynamic_configs = self._follow_configs()
        self._controller = Controller(
            metadata_log=self._metadata_log,
            chance=self._chance,
            defaults=TopicDefaults(
                num_partitions=config["num.partitions"],
                replication_factor=config["default.replication.factor"],
                settings=config.typed,
            ),
        )
        self._group_commit = GroupCommit(self._logs, self._workers, failed=self._background.fail)
        self._partitions = Partitions(
            broker_id=config.node_id,
            logs=self._logs,
            group_commit=self._group_commit,
            settings_of=self._dynamic_configs.settings_of,
        )
        lost = self._lost_directories()
        self._partitions.start(self._metadata_log.image, is_directory_lost=bool(lost))
        self._metadata_log.watch(self._partitions.follow)
        self._groups = self._make_groups()
        self._partitions.watch_removals(self._groups.topic_deleted)
        await self._groups.start()
        self._producer_ids = ProducerIds(self._allocate_producer_ids)
        self._marker_writer = MarkerWriter(partitions=self._partitions, offsets=self._groups, clock=self._clock)
        self._transactions = self._make_transactions()
        self._partitions.watch_removals(self._transactions.topic_deleted)
        await self._transactions.start()
        self._gate = TransactionGate(
            coordinator=self._transactions,
            config=self._transaction_config(),
            clock=self._clock,
            verifies=lambda: bool(self.config.typed["transaction.partition.verification.enable"]),
        )
        self._services = self._make_services()
        # What is missed is asked for again at the next start: its partitions must not be made anew, empty, then either.
        await self._register([*self._storage.directory_ids.values(), *(lost if self._partitions.any_closed else ())])
        await self._listeners.serve(lambda name: Dispatcher(SERVED, self._services, name).handle)
        self._start_tasks()

    async def _open_metadata(self) -> MetadataLog:
        quorum = quorum_config(self.config, self._storage)
        metadata_log = open_metadata(
            self.config,
            quorum,
            surroundings=Surroundings(disk=self._disk, clock=self._clock, chance=self._chance),
            workers=self._workers,
            channel=NoPeers(),
        )
        refuse_other_voters(metadata_log, quorum)
        metadata_log.failed.add_done_callback(lambda done: self._background.fail(done.result()))
        await metadata_log.lead()
        return metadata_log

    def _follow_configs(self) -> DynamicConfigs:
        """Settings that are altered dynamically; before anything else follows the metadata."""
        dynamic = DynamicConfigs(self.config)
        dynamic.watch(lambda: self._listeners.limits.update(self.config.typed))
        dynamic.start(self._metadata_log.image)
        self._metadata_log.watch(dynamic.follow)
        return dynamic

    def _make_groups(self) -> GroupCoordinator:
        config = self.config
        return GroupCoordinator(
            config=GroupConfig(
                min_session_timeout_ms=config["group.min.session.timeout.ms"],
                max_session_timeout_ms=config["group.max.session.timeout.ms"],
                initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
                max_size=config["group.max.size"],
                offset_metadata_bytes_max=config["offset.metadata.max.bytes"],
                offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
                retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
            ),
            partitions=self._partitions,
            image=lambda: self._metadata_log.image,
            clock=self._clock,
            chance=self._chance,
            keep=self._keep,
        )

    def _transaction_config(self) -> TransactionConfig:
        config = self.config
        return TransactionConfig(
            timeout_max_ms=config["transaction.max.timeout.ms"],
            abort_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            expiration_ms=config["transactional.id.expiration.ms"],
            expiration_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
            add_backoff_ms=config["add.partitions.to.txn.retry.backoff.ms"],
            add_backoff_max_ms=config["add.partitions.to.txn.retry.backoff.max.ms"],
        )

    def _make_transactions(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            config=self._transaction_config(),
            partitions=self._partitions,
            image=lambda: self._metadata_log.image,
            clock=self._clock,
            next_producer_id=self._producer_ids.next,
            version=lambda: self._metadata_log.image.features.get(TRANSACTION_VERSION, 0),
            channel=LocalMarkers(self._marker_writer),
            keep=self._keep,
        )

    def _make_services(self) -> Services:
        config = self.config
        return Services(
            config=config,
            dynamic_configs=self._dynamic_configs,
            config_entries=ConfigEntries(config, self._dynamic_configs),
            cluster_id=self._storage.cluster_id,
            clock=self._clock,
            chance=self._chance,
            workers=self._workers,
            disk=self._disk,
            metadata_log=self._metadata_log,
            controller=self._controller,
            logs=self._logs,
            partitions=self._partitions,
            groups=self._groups,
            transactions=self._transactions,
            gate=self._gate,
            markers=self._marker_writer,
            authorizer=AllowEverything(),
            quotas=self._make_quotas(),
            client_telemetry=ClientTelemetry(
                clock=self._clock, chance=self._chance, bytes_max=config["telemetry.max.bytes"]
            ),
            fetch_sessions=FetchSessions(
                slots=config["max.incremental.fetch.session.cache.slots"], chance=self._chance, clock=self._clock
            ),
            output=self._listeners.output,
            long_answers=LongAnswers(),
            producer_ids=self._producer_ids,
            topic_creator=TopicCreator(self._controller, config),
            apis=SERVED,
            unsupported_api_versions=unsupported_version,
        )

    def _make_quotas(self) -> ClientQuotaManager:
        config = self.config
        quotas = ClientQuotaManager(
            clock=self._clock,
            config=QuotaConfig(
                samples_max=config["quota.window.num"],
                window_ms=config["quota.window.size.seconds"] * 1000,
                controller_samples_max=config["controller.quota.window.num"],
                controller_window_ms=config["controller.quota.window.size.seconds"] * 1000,
            ),
        )
        quotas.load(self._metadata_log.image)
        self._metadata_log.watch(quotas.follow)
        self._listeners.limits.refused_ms = quotas.connection_refused_ms
        return quotas

    async def _allocate_producer_ids(self) -> range:
        broker = self._metadata_log.image.brokers[self.config.node_id]
        return await self._controller.allocate_producer_ids(broker.broker_id, broker.broker_epoch)

    def _lost_directories(self) -> list[UUID]:
        """Log directories that this node had at its last start and has no more: a volume may not be mounted."""
        known = self._metadata_log.image.brokers.get(self.config.node_id)
        lost = sorted(set(known.directories).difference(self._storage.directory_ids.values())) if known else []
        for directory_id in lost:
            logger.error(
                "log.dirs: the directory with directory.id=%s is not there; partitions that are in no other one stay "
                "closed until it is back or their topics are deleted",
                uuid_to_text(directory_id),
            )
        return lost

    async def _register(self, directories: Sequence[UUID]) -> None:
        await self._controller.register_controller(
            controller_id=self.config.node_id, endpoints=[_endpoint(controller_endpoint(self.config))]
        )
        await self._controller.register_broker(
            broker_id=self.config.node_id,
            endpoints=self._advertised_endpoints(),
            rack=self.config["broker.rack"],
            directories=directories,
        )

    def _advertised_endpoints(self) -> list[Endpoint]:
        """What clients are told. A port 0 stands for the one that was picked."""
        return [
            Endpoint(name=address.name, host=_routable(address), port=self._listeners.port_of(address))
            for address in self.config.advertised_listeners
        ]

    def _start_tasks(self) -> None:
        self._housekeeping = Housekeeping(
            config=self.config,
            image=lambda: self._metadata_log.image,
            partitions=self._partitions,
            logs=self._logs,
            workers=self._workers,
            memory=self._memory,
        )
        self._background.run(self._listeners.sweep())
        self._background.run(Snapshotting(self._metadata_log, snapshot_config(self.config), clock=self._clock).run())
        for task in self._housekeeping.tasks():
            self._background.run(task)
        if self.config["log.cleaner.enable"]:
            self._start_cleaner()

    def _start_cleaner(self) -> None:
        cleaner = LogCleaner(
            CleanerParts(
                config=self.config,
                logs=self._logs,
                disk=self._disk,
                clock=self._clock,
                workers=self._workers,
                rounds=self._rounds,
                last_stable_offset_of=self._housekeeping.last_stable_offset_of,
            )
        )
        self._partitions.watch_removals(cleaner.partition_removed)
        self._dynamic_configs.watch(cleaner.settings_changed)
        self._background.run(cleaner.run())

    # --- use

    @property
    def bootstrap_server(self) -> str:
        """host:port of the first listener, as clients are told."""
        end = self._metadata_log.image.brokers[self.config.node_id].endpoints[0]
        return f"{end.host}:{end.port}"

    @property
    def cluster_id(self) -> str:
        return self._storage.cluster_id

    @property
    def services(self) -> Services:
        """The broker's parts."""
        return self._services

    # --- stop

    async def stop(self) -> None:
        """Stop serving, flush, and leave the directories so that the next start needs no recovery."""
        self._listeners.stop_accepting()
        self._gate.stop()
        self._transactions.stop()
        self._groups.stop()
        self._listeners.abort_connections("the broker stops")
        await self._background.stop()
        broker = self._metadata_log.image.brokers[self.config.node_id]
        await self._group_commit.close()
        await self._metadata_log.close()
        self._workers.close()  # what they write must not cross with what is written now
        self._logs.close(
            clean=True, broker_epoch=broker.broker_epoch, high_watermarks=self._housekeeping.high_watermarks()
        )
        self._storage.release()


def _endpoint(address: tuple[str, str, int]) -> Endpoint:
    name, host, port = address
    return Endpoint(name=name, host=host, port=port)


def _routable(address: ListenerAddress) -> str:
    """The host that clients are told for a listener; this machine's name where the setting leaves it open."""
    return address.host or socket.getfqdn()
