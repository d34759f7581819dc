"""Request context: the connection, API, version and client id of a request, and the parts of the broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Protocol

from kwire.server.requests.authorization import ACCESS, CLUSTER_NAME, ResourceType
from kwire.server.requests.service_types import ServicesT_co

if TYPE_CHECKING:
    from kwire.protocol.api_keys import ApiKey
    from kwire.server.network.pending import Work

_TOPIC: Final = ResourceType.TOPIC


class Client(Protocol):
    """Properties of the connection that a request arrived on, for handlers."""

    peer_host: str
    peer_port: int
    principal: str
    client_software: tuple[str, str]
    work: Work | None
    """Response that is being made in pieces; None if there is none."""
    when_lost: list[Callable[[], None]] | None
    """Callbacks for the end of the connection; None once it has ended."""


@dataclass(slots=True, kw_only=True)
class ForwardedClient:
    """Client of another broker, which has forwarded its request to this node."""

    peer_host: str
    peer_port: int
    principal: str
    client_software: tuple[str, str] = ("", "")
    work: Work | None = None
    when_lost: list[Callable[[], None]] | None = field(default_factory=list)


class RequestContext(Generic[ServicesT_co]):
    """Context of one request, with the services of a broker or of a controller."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "listener_name", "services", "version")

    def __init__(
        self,
        services: ServicesT_co,
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
        """True if the client may perform its API's operation on this resource (authorization.ACCESS)."""
        operation = ACCESS[self.api_key][resource]
        connection = self.connection
        return self.services.authorizer.allows(connection.principal, connection.peer_host, operation, resource, name)

    def allows_topic(self, name: str) -> bool:
        return self.allows(_TOPIC, name)

    def allows_group(self, name: str) -> bool:
        return self.allows(ResourceType.GROUP, name)

    def allows_cluster(self) -> bool:
        return self.allows(ResourceType.CLUSTER, CLUSTER_NAME)
