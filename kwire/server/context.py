"""What a handler is given beside its request: who asks, by which version, and the broker's parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from kwire.server.authorization import ACCESS, CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from kwire.protocol.api_keys import ApiKey
    from kwire.server.network.pending import Work
    from kwire.server.services import Services

_TOPIC: Final = ResourceType.TOPIC


class Client(Protocol):
    """What handlers may know of the connection that a request came by."""

    peer_host: str
    peer_port: int
    principal: str
    client_software: tuple[str, str]
    work: Work | None
    """The answer in pieces that is under way."""


@dataclass(slots=True, kw_only=True)
class DistantClient:
    """A client that is not at the other end of a connection of this node: another broker speaks for it."""

    peer_host: str
    peer_port: int
    principal: str
    client_software: tuple[str, str] = ("", "")
    work: Work | None = None


class RequestContext:
    """One request's circumstances."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "listener_name", "services", "version")

    def __init__(
        self,
        services: Services,
        connection: Client,
        listener_name: str,
        api_key: ApiKey,
        version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.services = services
        self.connection = connection
        self.listener_name = listener_name
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def allows(self, resource: ResourceType, name: str) -> bool:
        """Whether the client may do to this resource what its API does (kwire.server.authorization.ACCESS)."""
        operation = ACCESS[self.api_key][resource]
        connection = self.connection
        return self.services.authorizer.allows(connection.principal, connection.peer_host, operation, resource, name)

    def allows_topic(self, name: str) -> bool:
        return self.allows(_TOPIC, name)

    def allows_group(self, name: str) -> bool:
        return self.allows(ResourceType.GROUP, name)

    def allows_cluster(self) -> bool:
        return self.allows(ResourceType.CLUSTER, CLUSTER_NAME)
