"""Node: the parts that a process has once, in any role: directories, metadata log, connections to other nodes.

A broker or controller opens its node first and closes it last, after everything that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version

from kwire.cluster.configs.settings import setting
from kwire.cluster.metadata.delegation_tokens import TokenSettings
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.raft.snapshotting import SnapshotConfig, Snapshotting
from kwire.server.network.outgoing.node_channel import NodeChannel
from kwire.server.network.outgoing.node_connection import RESPONSE_BYTES_MAX
from kwire.server.network.outgoing.security import OutgoingSecurity
from kwire.server.node.node_publisher import NodePublisher
from kwire.server.node.quorum_settings import open_metadata, quorum_config, reject_other_voters
from kwire.server.node.runtime import NodeRuntime
from kwire.server.node.storage import Storage, open_storage
from kwire.server.security.sasl.node_logins import login_at_brokers, login_at_controllers
from kwire.server.security.sasl.token_logins import TokenLogins
from kwire.server.settings.dynamic_configs import DynamicConfigs

LEAVE_MS = 5000
"""Longest wait of a stopping leader for the other voters to elect another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings that brokers and controllers have in common."""

    request_timeout_ms: int = setting("request.timeout.ms")
    quorum_request_timeout_ms: int = setting("controller.quorum.request.timeout.ms")


class Node:
    """Directories and replica of the metadata log of a process, both open."""

    def __init__(
        self, runtime: NodeRuntime, *, storage: Storage, metadata_log: MetadataLog, quorum_channel: NodeChannel
    ) -> None:
        self.runtime = runtime
        self.config = runtime.config
        self.settings = runtime.settings
        self.clock = runtime.clock
        self.random_source = runtime.random_source
        self.disk = runtime.disk
        self.workers = runtime.workers
        self.background = runtime.background
        self.failed = runtime.background.failed
        """Future with the error that makes the node stop."""
        self.broker_tasks = runtime.broker_tasks
        self.authorizer = runtime.authorizer
        self.audit = runtime.audit
        self.storage = storage
        self.metadata_log = metadata_log
        self.dynamic_configs = DynamicConfigs(self.config.node_id, self.settings, self.config.values)
        self.token_logins = TokenLogins(self.settings.of(TokenSettings), self.workers, self.clock.wall_ms)
        """Logins by delegation token, at all listeners."""
        self.broker_incarnation_id = self.random_source.uuid() if self.config.is_broker else None
        """Incarnation id that the broker of this process registers with; None without a broker."""
        self._channels = [quorum_channel]
        timeout_ms = self.settings.of(NodeSettings).request_timeout_ms
        self.controller_channel = self._open_channel(controller_security(runtime), timeout_ms=timeout_ms)
        """Connections to controllers, for all but the quorum's own messages."""
        self.broker_channel = self.open_broker_channel(timeout_ms=timeout_ms)
        """Connections to other brokers, for all but replication."""

    def start(self, publisher: NodePublisher) -> None:
        """Join the quorum; the publisher applies the committed image that the metadata log has loaded."""
        self.metadata_log.start()
        publisher.start(self.metadata_log.image)
        snapshotting = Snapshotting(self.metadata_log, self.settings.of(SnapshotConfig), clock=self.clock)
        self.background.run(snapshotting.run())

    def open_broker_channel(self, *, timeout_ms: int, response_bytes_max: int = RESPONSE_BYTES_MAX) -> NodeChannel:
        """Return new connections to other brokers, used by the caller alone; they are closed with the node."""
        name = self.config.inter_broker_listener_name
        runtime = self.runtime
        login = login_at_brokers(
            runtime.config, runtime.settings, self.dynamic_configs, workers=runtime.workers, clock=runtime.clock
        )
        security = OutgoingSecurity(name, runtime.tls.of(name), login)
        return self._open_channel(security, timeout_ms=timeout_ms, response_bytes_max=response_bytes_max)

    def _open_channel(
        self, security: OutgoingSecurity, *, timeout_ms: int, response_bytes_max: int = RESPONSE_BYTES_MAX
    ) -> NodeChannel:
        channel = _channel(self.runtime, security, timeout_ms=timeout_ms, response_bytes_max=response_bytes_max)
        self._channels.append(channel)
        return channel

    async def leave(self) -> None:
        """Let the other voters elect a leader, if this node leads them."""
        await self.metadata_log.node.shut_down(LEAVE_MS)

    async def close(self) -> None:
        """Flush and close the metadata log."""
        for channel in self._channels:
            channel.close()
        await self.metadata_log.close()
        self.runtime.close_workers()  # their writes must not overlap with later writes


def open_node(runtime: NodeRuntime, ports: Mapping[str, int]) -> Node:
    """Lock the directories and open the metadata log; `ports` are the bound ports of the controller's listeners.

    Raises DirectoryRejected or DiskFailure, after releasing everything.
    """
    config = runtime.config
    storage = open_storage(config, disk=runtime.disk, clock=runtime.clock, random_source=runtime.random_source)
    with ExitStack() as undo:
        undo.callback(storage.release)
        timeout_ms = runtime.settings.of(NodeSettings).quorum_request_timeout_ms
        quorum_channel = runtime.seams.quorum_channel or _channel(
            runtime, controller_security(runtime), timeout_ms=timeout_ms
        )
        quorum = quorum_config(config, storage, ports)
        metadata_log = open_metadata(
            config,
            quorum,
            surroundings=runtime.surroundings,
            workers=runtime.metadata_workers,
            channel=quorum_channel,
        )
        undo.callback(metadata_log.node.log.close)
        if config.is_default_quorum:
            reject_other_voters(metadata_log, quorum)
        metadata_log.failed.add_done_callback(lambda done: runtime.background.fail(done.result()))
        node = Node(runtime, storage=storage, metadata_log=metadata_log, quorum_channel=quorum_channel)
        runtime.seams.opened(node)
        undo.pop_all()
    return node


def controller_security(runtime: NodeRuntime) -> OutgoingSecurity:
    """Return the security of connections to controllers."""
    name = runtime.config.controller_listener_names[0]
    login = login_at_controllers(runtime.config, workers=runtime.metadata_workers, clock=runtime.clock)
    return OutgoingSecurity(name, runtime.tls.of(name), login)


def _channel(
    runtime: NodeRuntime,
    security: OutgoingSecurity,
    *,
    timeout_ms: int,
    response_bytes_max: int = RESPONSE_BYTES_MAX,
) -> NodeChannel:
    return NodeChannel(
        client_id=runtime.client_id,
        software_version=version("kwire"),
        timeout_ms=timeout_ms,
        response_bytes_max=response_bytes_max,
        security=security,
    )
