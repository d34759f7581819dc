"""Who leads a partition instead, and where: told beside an error, so that clients need not ask for it (KIP-951)."""

from __future__ import annotations

from typing import NamedTuple

from kwire.cluster.image import NO_LEADER
from kwire.protocol.error_codes import ErrorCode
from kwire.server.context import RequestContext

MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors that say that the client knows an old leader."""


class CurrentLeader(NamedTuple):
    """A partition's leader as the metadata here name it."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """Where clients of the listener by which a request came reach a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(topic: str, index: int, context: RequestContext) -> CurrentLeader | None:
    """The leader of a partition; None if there is no such partition, or nobody leads it."""
    known = context.services.image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return None
    partition = known.partitions[index]
    if partition.leader == NO_LEADER:
        return None
    return CurrentLeader(partition.leader, partition.leader_epoch)


def node_endpoint(broker_id: int, context: RequestContext) -> NodeEndpoint | None:
    """Where a broker is; None while it is fenced, or does not have the listener."""
    services = context.services
    endpoint = services.endpoint(broker_id, context.listener_name)
    return None if endpoint is None else NodeEndpoint(broker_id, *endpoint, services.image.brokers[broker_id].rack)
