"""Client of a request that concerns the membership of a group."""

from __future__ import annotations

from kwire.coordinator.group_coordinator import Client
from kwire.server.requests.context import RequestContext


def client_of(context: RequestContext) -> Client:
    return Client(
        client_id=context.client_id or "",
        host=f"/{context.connection.peer_host}",  # as Java prints an address
        allows_topic=context.allows_topic,
    )
