"""Current leader of a partition, sent with a leadership error, so that clients need no metadata request (KIP-951)."""

from __future__ import annotations

from typing import NamedTuple

from kwire.cluster.metadata.image import NO_LEADER
from kwire.protocol.error_codes import ErrorCode
from kwire.server.requests.context import RequestContext

MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors after which a client needs the current leader."""


class CurrentLeader(NamedTuple):
    """Leader of a partition in this broker's metadata."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """Address of a broker on the listener that a request arrived on."""

    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(topic: str, index: int, context: RequestContext) -> CurrentLeader | None:
    """Return the leader of a partition; None if the partition does not exist or has no leader."""
    known = context.services.image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return None
    partition = known.partitions[index]
    if partition.leader == NO_LEADER:
        return None
    return CurrentLeader(partition.leader, partition.leader_epoch)


def node_endpoint(broker_id: int, context: RequestContext) -> NodeEndpoint | None:
    """Return the address of a broker; None if it is fenced or does not have the listener."""
    services = context.services
    endpoint = services.endpoint(broker_id, context.listener_name)
    return None if endpoint is None else NodeEndpoint(broker_id, *endpoint, services.image.brokers[broker_id].rack)
