"""A node that is only a controller: it keeps the metadata log with its peers, and serves no clients.

Start takes the ports first, then the directory, then the log; then it serves, and only then takes part: peers that it
asks for their votes may ask back.
"""

from __future__ import annotations

import logging
from importlib.metadata import version

from kwire.cluster.controller.broker_control import BrokerControl
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.snapshotting import Snapshotting
from kwire.log.disk import Disk, RealDisk
from kwire.log.recovery import Surroundings
from kwire.seams import Chance, Clock, SystemChance, SystemClock, ThreadWorkers, Workers
from kwire.server.apis import api_versions, broker_control, describe_quorum, quorum
from kwire.server.authorization import AllowEverything
from kwire.server.background import Background
from kwire.server.controller_registration import ControllerRegistration
from kwire.server.dispatch import Dispatcher
from kwire.server.network.listeners import Listeners
from kwire.server.network.node_channel import NodeChannel
from kwire.server.quorum_settings import controller_endpoints, open_metadata, quorum_config, snapshot_config
from kwire.server.quotas.manager import ClientQuotaManager, QuotaConfig
from kwire.server.services import ControllerServices
from kwire.server.settings.config import BrokerConfig
from kwire.server.storage import open_storage

logger = logging.getLogger("kwire.server.controller")

SERVED = (api_versions.API, describe_quorum.API, *quorum.APIS, *broker_control.APIS)
SHUTDOWN_MS = 5000
"""How long the others have to elect a leader when this one goes."""


class ControllerServer:
    """Start it, wait for `failed` or whatever else should end it, stop it."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        disk: Disk | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.config = config
        self._clock = clock or SystemClock()
        self._chance = chance or SystemChance()
        self._disk = disk or RealDisk()
        self._workers = workers or ThreadWorkers()
        self._listeners = Listeners(config, config.controller_listeners)
        self._channel = NodeChannel(
            client_id=f"controller-{config.node_id}",
            software_version=version("kwire"),
            timeout_ms=config["controller.quorum.request.timeout.ms"],
        )
        self._background = Background("controller")
        self.failed = self._background.failed
        """Resolved when the controller cannot go on."""

    @property
    def metadata_log(self) -> MetadataLog:
        return self._metadata_log

    @property
    def cluster_id(self) -> str:
        return self._storage.cluster_id

    @property
    def addresses(self) -> list[str]:
        """host:port of each listener."""
        addresses = self.config.controller_listeners
        return [f"{address.host}:{self._listeners.port_of(address)}" for address in addresses]

    async def start(self) -> None:
        """Serve. Raises SettingError, DirectoryRefused or DiskFailure; everything taken is given back then."""
        try:
            await self._listeners.bind()
            self._storage = open_storage(self.config, disk=self._disk, clock=self._clock, chance=self._chance)
            try:
                self._metadata_log = self._open_metadata()
                await self._serve()
            except BaseException:
                self._storage.release()
                raise
        except BaseException:
            self._listeners.stop_accepting()
            self._workers.close()
            raise
        self._metadata_log.start()
        self._background.run(self._listeners.sweep())
        self._background.run(Snapshotting(self._metadata_log, snapshot_config(self.config), clock=self._clock).run())
        self._background.run(self._brokers.run())
        self._background.run(self._registration().run())

    def _registration(self) -> ControllerRegistration:
        return ControllerRegistration(
            node_id=self.config.node_id,
            incarnation_id=self._chance.uuid(),
            endpoints=controller_endpoints(self.config, self._listeners.ports()),
            metadata_log=self._metadata_log,
            channel=self._channel,
            register_here=self._brokers.register_controller,
        )

    def _open_metadata(self) -> MetadataLog:
        metadata_log = open_metadata(
            self.config,
            quorum_config(self.config, self._storage, self._listeners.ports()),
            surroundings=Surroundings(disk=self._disk, clock=self._clock, chance=self._chance),
            workers=self._workers,
            channel=self._channel,
        )
        metadata_log.failed.add_done_callback(lambda done: self._background.fail(done.result()))
        return metadata_log

    async def _serve(self) -> None:
        self._brokers = BrokerControl(
            metadata_log=self._metadata_log,
            clock=self._clock,
            settings=lambda: self.config.typed,
            controller_id=self.config.node_id,
            cluster_id=self._storage.cluster_id,
        )
        services = ControllerServices(
            config=self.config,
            cluster_id=self._storage.cluster_id,
            clock=self._clock,
            chance=self._chance,
            metadata_log=self._metadata_log,
            authorizer=AllowEverything(),
            quotas=ClientQuotaManager(clock=self._clock, config=QuotaConfig()),
            apis=SERVED,
            unsupported_api_versions=api_versions.unsupported_version,
            brokers=self._brokers,
        )
        await self._listeners.serve(lambda name: Dispatcher(SERVED, services, name).handle)

    async def stop(self) -> None:
        """Let the others elect a leader first, then stop serving, flush, and give everything back."""
        await self._metadata_log.node.shut_down(SHUTDOWN_MS)
        self._listeners.stop_accepting()
        self._listeners.abort_connections("the controller stops")
        await self._background.stop()
        self._channel.close()
        await self._metadata_log.close()
        self._workers.close()
        self._storage.release()
