"""Requests that create, describe and delete access control entries, and clients with a principal of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kwire.cluster.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.protocol.messages.describe_acls import DescribeAclsRequest
from kwire.server.node.authorizers import STANDARD
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker

ROOT = "User:root"
SECURED = {"authorizer.class.name": STANDARD, "super.users": ROOT}
EVERYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


def entry(
    operation: Operation = Operation.READ,
    *,
    name: str = "t",
    principal: str = "User:alice",
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    resource: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(resource, name, pattern, principal, host, operation, permission)


def client_of(broker: RunningBroker, principal: str) -> RawClient:
    """Return a client that is connected as this principal."""
    client = broker.client()
    client.ask(ApiVersionsRequest(), 0)  # the broker knows the connection from now on
    port = client.socket.getsockname()[1]

    def name() -> None:
        (connection,) = (each for each in broker.server._listeners.table.connections if each.peer_port == port)
        connection.principal = principal

    broker.call(name)
    return client


def create(client: RawClient, *acls: Acl, version: int = 3) -> list[tuple[ErrorCode, str | None]]:
    """Create entries; return the code and message of each."""
    results = client.ask(create_request(*acls), version).results
    return [(ErrorCode(each.error_code), each.error_message) for each in results]


def create_request(*acls: Acl) -> CreateAclsRequest:
    creations = [
        AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    return CreateAclsRequest(creations=creations)


def describe(client: RawClient, acl_filter: AclFilter = EVERYTHING, *, version: int = 3) -> set[Acl]:
    """Return the entries that match a filter."""
    return described(client.ask(describe_request(acl_filter), version))


def described(answer: Any) -> set[Acl]:
    """Return the entries of a response to DescribeAcls."""
    assert answer.error_code == ErrorCode.NONE, answer
    return {_acl(resource, each) for resource in answer.resources for each in resource.acls}


def describe_request(acl_filter: AclFilter = EVERYTHING) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=acl_filter.resource_type,
        resource_name_filter=acl_filter.resource_name,
        pattern_type_filter=acl_filter.pattern_type,
        principal_filter=acl_filter.principal,
        host_filter=acl_filter.host,
        operation=acl_filter.operation,
        permission_type=acl_filter.permission,
    )


def delete_request(*filters: AclFilter) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )


def delete(client: RawClient, *filters: AclFilter, version: int = 3) -> list[set[Acl] | ErrorCode]:
    """Delete entries; return those of each filter, or its error."""
    results = client.ask(delete_request(*filters), version).filter_results
    return [_deleted(each.error_code, each.matching_acls) for each in results]


def _deleted(code: int, acls: Sequence[Any]) -> set[Acl] | ErrorCode:
    if code != ErrorCode.NONE:
        return ErrorCode(code)
    return {_acl(each, each) for each in acls}


def _acl(resource: Any, each: Any) -> Acl:
    """Return an entry of a response, from a resource and from an entry of it."""
    return Acl(
        resource.resource_type,
        resource.resource_name,
        resource.pattern_type,
        each.principal,
        each.host,
        each.operation,
        each.permission_type,
    )


def exactly(acl: Acl) -> AclFilter:
    """Return the filter that matches only this entry."""
    return AclFilter(*acl)
