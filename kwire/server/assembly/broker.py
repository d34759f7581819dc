"""Broker server: start, use and stop of a broker, and of the controller of a node with both roles.

The start builds a node in phases, each of which returns finished objects: bound listeners, an open node, a member of
the quorum, a registered broker, its replicas, its services. It accepts connections of clients last. The stop runs in
reverse order: a part stops after the parts that use it. The locks of the log directories exclude a second process of
the same node.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.configs.settings import setting
from kwire.cluster.jobs import run_stages
from kwire.cluster.metadata.registrations import Endpoint
from kwire.invariants import is_broken_invariant
from kwire.log.log_directory import previous_broker_epoch
from kwire.server.apis import SERVED
from kwire.server.assembly.broker_registrar import BrokerRegistrar
from kwire.server.assembly.broker_services import make_services
from kwire.server.assembly.gates import gates
from kwire.server.assembly.quorum_member import QuorumMember, bind_listeners, join_quorum
from kwire.server.assembly.replicas import Replicas, absent_directories, open_replicas
from kwire.server.network.listeners import Listeners
from kwire.server.network.outgoing.addresses import shown_address
from kwire.server.node.node import Node, open_node
from kwire.server.node.runtime import REAL, NodeRuntime, Seams, recovery_threads
from kwire.server.requests.dispatch import Dispatcher
from kwire.server.requests.services import Services
from kwire.server.settings.config import BrokerConfig, ListenerAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownSettings:
    """Settings of a broker's stop."""

    is_controlled: bool = setting("controlled.shutdown.enable")


class BrokerServer:
    """Running broker. Its owner waits for `failed` or another reason to stop, and stops it."""

    def __init__(
        self,
        member: QuorumMember,
        listeners: Listeners,
        registrar: BrokerRegistrar,
        replicas: Replicas,
        services: Services,
    ) -> None:
        node = member.node
        self.config = node.config
        self.failed = node.background.failed
        """Future with the error that makes the broker stop."""
        self.settings = node.settings
        """Settings as they are now."""
        self.metadata_log = node.metadata_log
        self.cluster_id = node.storage.cluster_id
        self.services = services
        """Parts of the broker that handlers use."""
        self._node = node
        self._controller = member.controller
        self._publisher = member.publisher
        self._listeners = listeners
        self._registrar = registrar
        self._replicas = replicas

    @property
    def bootstrap_server(self) -> str:
        """Address of the first listener as host:port, as clients receive it."""
        end = self.metadata_log.image.brokers[self.config.node_id].endpoints[0]
        return shown_address(end.host, end.port)

    @property
    def long_request_bytes(self) -> int:
        """Memory of the long requests that are being served, in bytes."""
        controllers = 0 if self._controller is None else self._controller.listeners.long_request_bytes
        return self._listeners.long_request_bytes + controllers

    # --- stop

    async def stop(self, *, before_leaving: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Hand leaderships over to other brokers, stop serving, flush, and leave directories that need no recovery.

        On a node that is also a controller, `before_leaving` is awaited before the node leaves the quorum. Its result
        is True if the other controllers are to elect a leader first, in case this node leads.
        """
        node = self._node
        if node.settings.of(ShutdownSettings).is_controlled and not self.failed.done():
            await self._replicas.lifecycle.shut_down()
        self._listeners.stop_accepting()
        self.services.share_partitions.stop()
        self._replicas.coordinators.stop()
        self._listeners.close_connections("the broker stops")
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
        node, replicas = self._node, self._replicas
        node.metadata_log.publish_to(self._publisher)
        await node.broker_tasks.stop()
        await replicas.group_commit.close()
        await node.workers.drain()  # a checkpoint may still be written, although its task was cancelled
        is_clean = not (self.failed.done() and is_broken_invariant(self.failed.result()))
        if is_clean:
            await replicas.partition_turns.configure_and_remove()
        stages = replicas.logs.closing(
            clean=is_clean,
            broker_epoch=self._registrar.broker_epoch(),
            high_watermarks=replicas.housekeeping.high_watermarks(),
        )
        at_once = recovery_threads(node.settings, directories=len(self.config.log_dirs))
        await run_stages(stages, node.runtime.recovery_workers(at_once), at_once=at_once)


async def start_broker(
    config: BrokerConfig, seams: Seams = REAL, *, count_loaded: Callable[[int], None] = lambda _: None
) -> BrokerServer:
    """Start a broker, and the controller of a node with both roles; return it when it serves.

    `count_loaded` is called with the number of long-lived records that coordinators load. A process that is only a
    broker passes `KeptObjects.loaded`.

    Raises SettingError, DirectoryRejected or DiskFailure, after releasing everything acquired.
    """
    runtime = NodeRuntime(config, seams, what="broker")
    async with AsyncExitStack() as undo:  # also if it is cancelled while it waits for the quorum
        undo.callback(runtime.close_workers)
        listeners = await bind_listeners(runtime, undo)
        assert listeners.clients is not None, "process.roles has broker"
        node = open_node(runtime, listeners.controller_ports)
        undo.callback(node.storage.release)
        logs = undo.enter_context(ExitStack())  # closed after the metadata log: its publisher uses the logs
        undo.push_async_callback(node.close)
        undo.push_async_callback(node.background.stop)
        member = await join_quorum(node, listeners)
        registrar = _registrar(member, listeners.clients)
        missing_directories = await _register(node, registrar)
        member.publisher.caught_up()
        replicas = await open_replicas(
            member, registrar, missing_directories, count_loaded=count_loaded, logs_undo=logs, undo=undo
        )
        services = make_services(member, listeners, replicas)
        # The broker becomes a leader only after it is unfenced. From then on, the coordinators are notified of every
        # change of leadership.
        await replicas.lifecycle.unfence()
        await replicas.coordinators.start()
        clients = listeners.clients
        await clients.serve(gates(node, clients, lambda name: Dispatcher(SERVED, services, name).handle))
        _start_tasks(node, listeners.clients, replicas, services)
        undo.pop_all()
    return BrokerServer(member, listeners.clients, registrar, replicas, services)


def _registrar(member: QuorumMember, listeners: Listeners) -> BrokerRegistrar:
    node = member.node
    assert node.broker_incarnation_id is not None, "the node is a broker"
    return BrokerRegistrar(
        broker_id=node.config.node_id,
        settings=node.settings,
        cluster_id=node.storage.cluster_id,
        incarnation_id=node.broker_incarnation_id,
        previous_broker_epoch=previous_broker_epoch(node.disk, node.config.log_dirs),
        active_controller=member.active_controller,
        metadata_log=node.metadata_log,
        clock=node.clock,
        endpoints=_advertised_endpoints(node.config, listeners),
    )


async def _register(node: Node, registrar: BrokerRegistrar) -> Sequence[UUID]:
    """Register this broker, and return when the metadata contain the registration.

    The ids of missing log directories are registered too, and returned.
    """
    await registrar.await_metadata()
    registered = node.metadata_log.image.brokers.get(node.config.node_id)
    missing = absent_directories(node, registered.directories if registered else ())
    await registrar.register([*node.storage.directory_ids.values(), *missing])
    return missing


def _start_tasks(node: Node, listeners: Listeners, replicas: Replicas, services: Services) -> None:
    node.broker_tasks.run(listeners.sweep())
    node.background.run(replicas.lifecycle.run())
    node.broker_tasks.run(services.topic_creator.run())
    for task in replicas.housekeeping.tasks():
        node.broker_tasks.run(task)
    if replicas.cleaner is not None:
        node.broker_tasks.run(replicas.cleaner.run())
    node.runtime.watch_loop()


def _advertised_endpoints(config: BrokerConfig, listeners: Listeners) -> list[Endpoint]:
    """Return the listeners that clients connect to. A configured port 0 is replaced by the port that was bound."""
    return [
        Endpoint(
            name=address.name,
            host=_routable(address),
            port=listeners.port_of(address),
            security_protocol=config.security_protocols[address.name],
        )
        for address in config.advertised_listeners
    ]


def _routable(address: ListenerAddress) -> str:
    """Return the host of a listener for clients: the configured one, or else this machine's host name."""
    return address.host or socket.getfqdn()
