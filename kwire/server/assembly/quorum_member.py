"""First phases of a start: bound listeners, then a node that has joined the quorum, as a voter or an observer.

The ports are bound first, so that a port in use leaves the disk untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from kwire.server.assembly.controller_role import ControllerRole, active_controller_client
from kwire.server.network.connection_limits import rejects_none
from kwire.server.network.listeners import Listeners
from kwire.server.node.node import Node
from kwire.server.node.node_publisher import NodePublisher
from kwire.server.node.runtime import NodeRuntime
from kwire.server.other_nodes.active_controller import ActiveController
from kwire.server.quotas.manager import ClientQuotaManager, QuotaConfig
from kwire.server.security.sasl.node_logins import check_node_logins
from kwire.server.settings.config import ListenerAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundListeners:
    """Listeners of a process that are bound, and do not accept connections yet."""

    clients: Listeners | None
    """Listeners of the broker; None on a node that is only a controller."""
    client_quotas: ClientQuotaManager | None
    controllers: Listeners | None
    """Listeners of the controller; None on a node that is only a broker."""

    @property
    def controller_ports(self) -> Mapping[str, int]:
        return {} if self.controllers is None else self.controllers.ports()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """Node that has joined the quorum."""

    node: Node
    controller: ControllerRole | None
    active_controller: ActiveController
    publisher: NodePublisher


async def bind_listeners(runtime: NodeRuntime, undo: AsyncExitStack) -> BoundListeners:
    """Open the stores of TLS, and bind the ports of the node's roles. Raises SettingError if either fails."""
    config = runtime.config
    check_node_logins(config)
    await runtime.tls.open(runtime.settings.values)
    clients = client_quotas = controllers = None
    if config.is_broker:
        client_quotas = ClientQuotaManager(clock=runtime.clock, config=runtime.settings.of(QuotaConfig))
        clients = await _bind(runtime, config.listeners, client_quotas.connection_rejected_ms, undo)
    if config.is_controller:
        controllers = await _bind(runtime, config.controller_listeners, rejects_none, undo)
    return BoundListeners(clients=clients, client_quotas=client_quotas, controllers=controllers)


async def _bind(
    runtime: NodeRuntime,
    addresses: Sequence[ListenerAddress],
    rejected_ms: Callable[[str], int],
    undo: AsyncExitStack,
) -> Listeners:
    listeners = Listeners(
        runtime.config,
        runtime.settings,
        addresses,
        tls=runtime.tls,
        turns=runtime.turns,
        on_request_error=runtime.background.fail_if_data_threatened,
        rejected_ms=rejected_ms,
        principal_builder=runtime.principal_builder,
    )
    undo.callback(listeners.close, "the start has failed")
    await listeners.bind()
    return listeners


async def join_quorum(node: Node, listeners: BoundListeners) -> QuorumMember:
    """Start to follow the metadata log, and to serve the other nodes if this node is a controller."""
    controller = None if listeners.controllers is None else ControllerRole(node, listeners.controllers)
    active_controller = active_controller_client(node, controller)
    quotas = (listeners.client_quotas, None if controller is None else controller.quotas)
    publisher = NodePublisher(
        settings=node.settings,
        dynamic_configs=node.dynamic_configs,
        listeners=[each for each in (listeners.clients, listeners.controllers) if each is not None],
        tls=node.runtime.tls,
        active_controller=active_controller,
        quotas=[each for each in quotas if each is not None],
        authorizer=node.authorizer,
    )
    node.metadata_log.publish_to(publisher)
    node.dynamic_configs.validators.append(node.runtime.tls.check)
    node.background.run(node.runtime.tls.run())
    if controller is not None:
        await controller.serve()  # before the node joins: peers send requests back when it asks for their votes
    node.start(publisher)
    if controller is not None:
        controller.start(active_controller)
    node.background.run(_let_clients_in(node, publisher))
    return QuorumMember(node=node, controller=controller, active_controller=active_controller, publisher=publisher)


async def _let_clients_in(node: Node, publisher: NodePublisher) -> None:
    await node.metadata_log.caught_up()
    publisher.caught_up()
