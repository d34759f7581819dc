"""Phase of a broker's start that makes the services of its request handlers."""

from __future__ import annotations

import logging
from typing import Final

from kwire.repeated_messages import RepeatedMessages
from kwire.server.apis import SERVED
from kwire.server.apis.cluster.api_versions import unsupported_version
from kwire.server.assembly.quorum_member import BoundListeners, QuorumMember
from kwire.server.assembly.replicas import Replicas
from kwire.server.fetching.cold_reads import ColdReader
from kwire.server.fetching.fetch_sessions import FetchSessions
from kwire.server.node.node import Node
from kwire.server.quotas.replication import Side
from kwire.server.replication.replication import ReplicationSettings, replication_quota
from kwire.server.requests.client_telemetry import ClientTelemetry
from kwire.server.requests.large_batches import WorkersForLargeBatches
from kwire.server.requests.services import Services
from kwire.server.settings.config_entries import ConfigEntries
from kwire.server.settings.requests import RequestSettings

logger = logging.getLogger(__name__)

CHECKS_IN_LAG_TIME: Final = 10
"""Checks of every partition of a follower's fetch session per replica.lag.time.max.ms, also of unchanged partitions."""


def make_services(member: QuorumMember, listeners: BoundListeners, replicas: Replicas) -> Services:
    """Return the services of a broker."""
    assert listeners.clients is not None, "the node is a broker"
    assert listeners.client_quotas is not None
    node, coordinators = member.node, replicas.coordinators
    return Services(
        config=node.config,
        settings=node.settings,
        dynamic_configs=node.dynamic_configs,
        config_entries=ConfigEntries(node.config, node.settings, node.dynamic_configs),
        cluster_id=node.storage.cluster_id,
        clock=node.clock,
        random_source=node.random_source,
        workers=node.workers,
        disk=node.disk,
        metadata_log=node.metadata_log,
        active_controller=member.active_controller,
        logs=replicas.logs,
        partitions=replicas.partitions,
        moves=replicas.moves,
        leader_quota=replication_quota(node, Side.LEADER),
        groups=coordinators.groups,
        transactions=coordinators.transactions,
        share_states=coordinators.share_states,
        share_persister=coordinators.share_persister,
        transaction_verifier=coordinators.transaction_verifier,
        markers=coordinators.markers,
        authorizer=node.authorizer,
        audit=node.audit,
        quotas=listeners.client_quotas,
        client_telemetry=ClientTelemetry(
            clock=node.clock,
            random_source=node.random_source,
            bytes_max=node.settings.of(RequestSettings).telemetry_bytes_max,
        ),
        fetch_sessions=_fetch_sessions(node),
        share_partitions=replicas.share_partitions,
        output=listeners.clients.output,
        large_batches=WorkersForLargeBatches(node.workers),
        cold_reads=ColdReader(node.workers),
        messages=RepeatedMessages(logger, node.clock.monotonic_ms),
        producer_ids=coordinators.producer_ids,
        topic_creator=coordinators.topic_creator,
        apis=SERVED,
        unsupported_api_versions=unsupported_version,
    )


def _fetch_sessions(node: Node) -> FetchSessions:
    settings = node.settings
    return FetchSessions(
        slots=settings.of(RequestSettings).fetch_session_slots,
        random_source=node.random_source,
        clock=node.clock,
        look_at_all_ms=lambda: settings.of(ReplicationSettings).lag_time_max_ms / CHECKS_IN_LAG_TIME,
    )
