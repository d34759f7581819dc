"""Request context: the connection, API, version and client id of a request, and the parts of the broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Protocol

from kwire.cluster.security.acls import CLUSTER_NAME, Operation, ResourceType
from kwire.cluster.security.authorizer import NotReadyError
from kwire.server.network.pending import CloseConnection
from kwire.server.requests.authorization import ACCESS
from kwire.server.requests.service_types import ServicesT_co

if TYPE_CHECKING:
    from kwire.protocol.api_keys import ApiKey
    from kwire.server.network.pending import Work
    from kwire.server.security.sasl.authenticator import Authenticator

_TOPIC: Final = ResourceType.TOPIC


class Client(Protocol):
    """Properties of the connection that a request arrived on, for handlers."""

    peer_host: str
    peer_port: int
    principal: str
    token_authenticated: bool
    """True if the client has logged in with a delegation token."""
    authentication: Authenticator | None
    """Login of the client; None if its listener has no SASL."""
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
    token_authenticated: bool = False
    authentication: Authenticator | None = None
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

    def allows(self, resource: ResourceType, name: str, *, is_requested: bool = True) -> bool:
        """True if the client may perform its API's operation on this resource (authorization.ACCESS).

        `is_requested` is False if the client has not named the resource, such as one of all topics: for the audit log.
        """
        return self.allows_to(ACCESS[self.api_key][resource], resource, name, is_requested=is_requested)

    def allows_to(self, operation: Operation, resource: ResourceType, name: str, *, is_requested: bool = True) -> bool:
        """True if the client may perform a further operation, beside the one in authorization.ACCESS."""
        services, client = self.services, self.connection
        authorizer = services.authorizer
        if authorizer.allows_everything:
            return True
        question = client.principal, client.peer_host, operation, resource, name
        is_allowed = authorizer.known.get(question)
        if is_allowed is None:
            try:
                is_allowed = authorizer.allows(*question)
            except NotReadyError as error:
                raise CloseConnection(f"came too early: {error}") from None
        audit = services.audit
        if audit is not None and (not is_allowed or audit.has_all()):
            audit.write(self, operation, resource, name, is_allowed=is_allowed, is_requested=is_requested)
        return is_allowed

    def allows_to_any(self, operation: Operation, resource: ResourceType) -> bool:
        """True if the client may perform the operation on some resource of the type (KIP-679)."""
        client = self.connection
        return self.services.authorizer.allows_any(client.principal, client.peer_host, operation, resource)

    def allows_topic(self, name: str, *, is_requested: bool = True) -> bool:
        return self.allows_to(ACCESS[self.api_key][_TOPIC], _TOPIC, name, is_requested=is_requested)

    def allows_group(self, name: str, *, is_requested: bool = True) -> bool:
        return self.allows(ResourceType.GROUP, name, is_requested=is_requested)

    def allows_cluster(self, *, is_requested: bool = True) -> bool:
        return self.allows(ResourceType.CLUSTER, CLUSTER_NAME, is_requested=is_requested)

    def allows_cluster_to(self, operation: Operation, *, is_requested: bool = True) -> bool:
        return self.allows_to(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_requested=is_requested)
