"""Controller role of a node, alone or beside a broker. It makes decisions while the node leads the metadata log."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from kwire.cluster.controller.broker_control import BrokerControl
from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.delegation_tokens import DelegationTokens
from kwire.cluster.controller.plans.topics import TopicDefaults
from kwire.cluster.metadata.delegation_tokens import TokenSettings
from kwire.cluster.security.authorizer import AllowEverything
from kwire.repeated_messages import RepeatedMessages
from kwire.server.apis.cluster import administration, api_versions, broker_control, describe_cluster, envelope, quorum
from kwire.server.apis.configs import describe_configs
from kwire.server.apis.security import security
from kwire.server.assembly.controller_registration import ControllerRegistration
from kwire.server.assembly.gates import gates
from kwire.server.network.listeners import Listeners
from kwire.server.network.outgoing.addresses import shown_address
from kwire.server.node.node import Node, NodeSettings
from kwire.server.node.quorum_settings import controller_endpoints
from kwire.server.other_nodes.active_controller import ActiveController, RequestOrigin
from kwire.server.other_nodes.internal_topics import InternalTopicSettings
from kwire.server.quotas.manager import ClientQuotaManager, QuotaConfig
from kwire.server.requests.api import Api
from kwire.server.requests.context import ForwardedClient, RequestContext
from kwire.server.requests.dispatch import Dispatcher
from kwire.server.requests.services import ControllerServices
from kwire.server.settings.config_entries import ConfigEntries

SERVED: tuple[Api[ControllerServices], ...] = (
    *administration.AT_CONTROLLER,
    api_versions.API,
    describe_cluster.AT_CONTROLLER,
    describe_configs.API,
    envelope.API,
    *quorum.APIS,
    *broker_control.APIS,
    *security.APIS,
)
ANONYMOUS = "User:ANONYMOUS"

logger = logging.getLogger(__name__)


class ControllerRole:
    """Listeners and services of a controller."""

    def __init__(self, node: Node, listeners: Listeners) -> None:
        self._node = node
        self._apis = {api.request: api for api in SERVED}
        self.listeners = listeners
        self.quotas = ClientQuotaManager(clock=node.clock, config=node.settings.of(QuotaConfig))
        """Quotas that count changes by clients, at whichever broker a client made them."""
        self._brokers = BrokerControl(
            metadata_log=node.metadata_log,
            clock=node.clock,
            settings=node.settings,
            controller_id=node.config.node_id,
            cluster_id=node.storage.cluster_id,
            local_broker_incarnation=node.broker_incarnation_id,
        )
        self._tokens = DelegationTokens(
            metadata_log=node.metadata_log,
            clock=node.clock,
            random_source=node.random_source,
            settings=node.settings.of(TokenSettings),
        )
        topics = node.settings.of(InternalTopicSettings)
        self._services = ControllerServices(
            config=node.config,
            settings=node.settings,
            cluster_id=node.storage.cluster_id,
            clock=node.clock,
            random_source=node.random_source,
            metadata_log=node.metadata_log,
            authorizer=node.authorizer,
            audit=node.audit,
            quotas=self.quotas,
            apis=SERVED,
            unsupported_api_versions=api_versions.unsupported_version,
            brokers=self._brokers,
            controller=Controller(
                metadata_log=node.metadata_log,
                random_source=node.random_source,
                defaults=TopicDefaults(
                    num_partitions=topics.partitions,
                    replication_factor=topics.replication_factor,
                    current=node.settings,
                ),
            ),
            delegation_tokens=self._tokens,
            config_entries=ConfigEntries(node.config, node.settings, node.dynamic_configs),
            messages=RepeatedMessages(logger, node.clock.monotonic_ms),
        )
        self._own_services = dataclasses.replace(self._services, authorizer=AllowEverything(), audit=None)
        """Services for requests of the node itself."""

    @property
    def addresses(self) -> list[str]:
        """Addresses of the listeners, as host:port."""
        addresses = self._node.config.controller_listeners
        return [shown_address(address.host, self.listeners.port_of(address)) for address in addresses]

    async def serve(self) -> None:
        """Accept connections of the other nodes."""
        dispatcher = gates(self._node, self.listeners, lambda name: Dispatcher(SERVED, self._services, name).handle)
        await self.listeners.serve(dispatcher)

    def start(self, active_controller: ActiveController) -> None:
        """Follow the brokers' heartbeats, and register this controller; called after the node has started."""
        node = self._node
        registration = ControllerRegistration(
            node_id=node.config.node_id,
            incarnation_id=node.random_source.uuid(),
            endpoints=controller_endpoints(node.config, self.listeners.ports()),
            security_protocols=node.config.security_protocols,
            metadata_log=node.metadata_log,
            active_controller=active_controller,
        )
        node.background.run(self.listeners.sweep())
        node.background.run(self._brokers.run())
        node.background.run(self._brokers.balance_leaders())
        node.background.run(self._brokers.elect_unclean_leaders())
        node.background.run(self._tokens.run())
        node.background.run(registration.run())

    def serve_here(self, request: Any, request_origin: RequestOrigin) -> Any:
        """Serve a request of this process: of the node itself, which may do everything, or of its broker's client."""
        api = self._apis[type(request)]
        is_own = request_origin.version is None
        version = api.max_version if request_origin.version is None else request_origin.version
        context = RequestContext(
            self._own_services if is_own else self._services,
            request_origin.client,
            request_origin.listener_name,
            api.key,
            version,
            request_origin.correlation_id,
            request_origin.client_id,
        )
        return api.handle(request, context)

    def stop_accepting(self) -> None:
        self.listeners.close("the controller stops")


def active_controller_client(node: Node, role: ControllerRole | None) -> ActiveController:
    """Return the client of the active controller for a node, with or without a controller role."""
    return ActiveController(
        metadata_log=node.metadata_log,
        channel=node.controller_channel,
        clock=node.clock,
        here=None if role is None else role.serve_here,
        itself=RequestOrigin(
            client=ForwardedClient(peer_host="127.0.0.1", peer_port=0, principal=ANONYMOUS),
            client_id=None,
            listener_name=node.config.controller_listener_names[0],
            version=None,
        ),
        timeout_ms=node.settings.of(NodeSettings).request_timeout_ms,
    )
