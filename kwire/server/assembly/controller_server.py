"""Server of a node that is only a controller: it replicates the metadata log with its peers, and serves no clients."""

from __future__ import annotations

from contextlib import AsyncExitStack

from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.server.assembly.controller_role import ControllerRole
from kwire.server.assembly.quorum_member import bind_listeners, join_quorum
from kwire.server.node.node import Node, open_node
from kwire.server.node.runtime import REAL, NodeRuntime, Seams
from kwire.server.settings.config import BrokerConfig


class ControllerServer:
    """Running controller. Its owner waits for `failed` or another reason to stop, and stops it."""

    def __init__(self, node: Node, role: ControllerRole) -> None:
        self.config = node.config
        self.failed = node.background.failed
        """Future with the error that makes the controller stop."""
        self.metadata_log: MetadataLog = node.metadata_log
        self.cluster_id = node.storage.cluster_id
        self._node = node
        self._role = role

    @property
    def addresses(self) -> list[str]:
        """Addresses of the listeners, as host:port."""
        return self._role.addresses

    @property
    def long_request_bytes(self) -> int:
        """Memory of the long requests that are being served, in bytes."""
        return self._role.listeners.long_request_bytes

    async def stop(self) -> None:
        """Let the other controllers elect a leader, then stop serving, flush, and release everything."""
        await self._node.leave()
        self._role.stop_accepting()
        await self._node.background.stop()
        await self._node.close()
        self._node.storage.release()


async def start_controller(config: BrokerConfig, seams: Seams = REAL) -> ControllerServer:
    """Start a controller, and return it when it serves.

    Raises SettingError, DirectoryRejected or DiskFailure, after releasing everything acquired.
    """
    runtime = NodeRuntime(config, seams, what="controller")
    async with AsyncExitStack() as undo:
        undo.callback(runtime.close_workers)
        listeners = await bind_listeners(runtime, undo)
        node = open_node(runtime, listeners.controller_ports)
        undo.callback(node.storage.release)
        undo.push_async_callback(node.close)
        undo.push_async_callback(node.background.stop)
        member = await join_quorum(node, listeners)
        undo.pop_all()
    assert member.controller is not None, "process.roles has controller"
    runtime.watch_loop()
    return ControllerServer(node, member.controller)
