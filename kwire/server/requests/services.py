"""Services for handlers: the parts of a broker or of a controller that they use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.security.authorizer import Authorizer
from kwire.log.disk import Disk
from kwire.log.large_batches import LargeBatches
from kwire.log.log_manager import LogManager
from kwire.repeated_messages import RepeatedMessages
from kwire.seams import Clock, RandomSource, Workers
from kwire.server.quotas.manager import ClientQuotaManager
from kwire.server.requests.audit_log import AuditLog
from kwire.server.requests.client_telemetry import ClientTelemetry
from kwire.server.requests.context import RequestContext
from kwire.server.settings.config import BrokerConfig
from kwire.server.settings.config_entries import ConfigEntries
from kwire.server.settings.dynamic_configs import DynamicConfigs

if TYPE_CHECKING:
    from kwire.cluster.controller.broker_control import BrokerControl
    from kwire.cluster.controller.controller import Controller
    from kwire.cluster.controller.delegation_tokens import DelegationTokens
    from kwire.coordinator.group_coordinator import GroupCoordinator
    from kwire.coordinator.markers import LocalMarkerWriter
    from kwire.coordinator.share_coordinator import ShareCoordinator
    from kwire.coordinator.transaction.verifier import TransactionVerifier
    from kwire.coordinator.transaction_coordinator import TransactionCoordinator
    from kwire.server.fetching.cold_reads import ColdReader
    from kwire.server.fetching.fetch_sessions import FetchSessions
    from kwire.server.network.memory.output_memory import OutputMemory
    from kwire.server.other_nodes.active_controller import ActiveController
    from kwire.server.other_nodes.internal_topics import TopicCreator
    from kwire.server.other_nodes.producer_ids import ProducerIds
    from kwire.server.other_nodes.share_persister import SharePersister
    from kwire.server.quotas.replication import ReplicationQuota
    from kwire.server.replication.replica_moves import ReplicaMoves
    from kwire.server.requests.api import Api
    from kwire.server.sharing.share_partitions import SharePartitions


@dataclass(slots=True, kw_only=True)
class NodeServices:
    """Parts that brokers and controllers both have; a handler that both serve uses only these."""

    config: BrokerConfig
    settings: CurrentSettings
    cluster_id: str
    clock: Clock
    random_source: RandomSource
    metadata_log: MetadataLog
    authorizer: Authorizer
    audit: AuditLog | None
    """None if the authorizer allows everything."""
    quotas: ClientQuotaManager
    config_entries: ConfigEntries
    messages: RepeatedMessages
    apis: tuple[Api[Any], ...]
    unsupported_api_versions: Callable[[RequestContext[Any]], Any]

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.metadata_log.image


@dataclass(slots=True, kw_only=True)
class ControllerServices(NodeServices):
    """Parts of a controller; created once by each controller."""

    brokers: BrokerControl
    controller: Controller
    delegation_tokens: DelegationTokens


@dataclass(slots=True, kw_only=True)
class Services(NodeServices):
    """Parts of a broker; created once by each broker."""

    dynamic_configs: DynamicConfigs
    workers: Workers
    disk: Disk
    active_controller: ActiveController
    logs: LogManager
    partitions: Partitions
    moves: ReplicaMoves
    leader_quota: ReplicationQuota
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share_states: ShareCoordinator
    share_persister: SharePersister
    transaction_verifier: TransactionVerifier
    markers: LocalMarkerWriter
    client_telemetry: ClientTelemetry
    fetch_sessions: FetchSessions
    share_partitions: SharePartitions
    output: OutputMemory
    large_batches: LargeBatches
    cold_reads: ColdReader
    producer_ids: ProducerIds
    topic_creator: TopicCreator

    def endpoint(self, broker_id: int, listener_name: str) -> tuple[str, int] | None:
        """Return a broker's host and port for clients of a listener; None if it is fenced or has no such listener."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        for end in broker.endpoints:
            if end.name == listener_name:
                return end.host, end.port
        return None


NodeContext = RequestContext[NodeServices]
"""Context of a request that brokers and controllers serve."""
ControllerContext = RequestContext[ControllerServices]
"""Context of a request that only controllers serve."""
