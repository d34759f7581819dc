"""Server of a node that is only a controller: it replicates the metadata log with its peers, and serves no clients.

The start binds the ports first, then opens the directory, then the log. It serves before it joins the quorum, because
peers send requests back when it asks for their votes.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

from kwire.cluster.metadata_log import MetadataLog
from kwire.log.disk import Disk
from kwire.seams import Clock, RandomSource, Workers
from kwire.server.controller_role import ControllerRole, way_to_controller
from kwire.server.node import Node
from kwire.server.settings.config import BrokerConfig


class ControllerServer:
    """Controller process. Its owner starts it, waits for `failed` or another reason to stop, and stops it."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        random_source: RandomSource | None = None,
        disk: Disk | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.config = config
        self._node = Node(
            config, what="controller", clock=clock, random_source=random_source, disk=disk, workers=workers
        )
        self._role = ControllerRole(self._node)
        self.failed = self._node.background.failed
        """Future with the error that makes the controller stop."""

    @property
    def metadata_log(self) -> MetadataLog:
        return self._node.metadata_log

    @property
    def cluster_id(self) -> str:
        return self._node.storage.cluster_id

    @property
    def addresses(self) -> list[str]:
        """Addresses of the listeners, as host:port."""
        return self._role.addresses

    @property
    def long_request_bytes(self) -> int:
        """Memory of the long requests that are being served, in bytes."""
        return self._role.listeners.long_request_bytes

    async def start(self) -> None:
        """Start to serve. Raises SettingError, DirectoryRefused or DiskFailure, after releasing everything acquired."""
        node, role = self._node, self._role
        async with AsyncExitStack() as undo:
            undo.callback(node.close_workers)
            undo.callback(role.stop_accepting)
            await role.listeners.bind()
            node.open(role.listeners.ports())
            undo.callback(node.storage.release)
            await role.serve()
            undo.pop_all()
        node.start()
        role.start(way_to_controller(node, role))
        node.watch_loop()

    async def stop(self) -> None:
        """Let the other controllers elect a leader, then stop serving, flush, and release everything."""
        await self._node.leave()
        self._role.stop_accepting()
        await self._node.background.stop()
        await self._node.close()
        self._node.storage.release()
