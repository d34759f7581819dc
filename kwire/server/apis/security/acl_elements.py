"""Common code of the ACL requests: their elements as entries and filters, and the results without an authorizer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from kwire.chunks import Pieces, mapped
from kwire.cluster.security.acls import Acl, AclFilter
from kwire.cluster.security.standard_authorizer import StandardAuthorizer
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.messages.create_acls import AclCreation
from kwire.protocol.messages.delete_acls import DeleteAclsFilter
from kwire.protocol.messages.describe_acls import DescribeAclsRequest
from kwire.server.requests.services import NodeContext

UNKNOWN = 0

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ResultType(Protocol[R_co]):
    """Constructor of the result for one entry or filter."""

    def __call__(self, *, error_code: int, error_message: str | None) -> R_co: ...


def no_authorizer() -> KafkaError:
    """Return the error of a change of entries on a node where they would decide nothing."""
    return KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def has_acls(context: NodeContext) -> bool:
    """Return True if entries decide on this node: only then clients may read and change them."""
    return isinstance(context.services.authorizer, StandardAuthorizer)


def entry_of(creation: AclCreation) -> Acl:
    """Return the entry of a request. Raises ProtocolError if an element of it is 0, UNKNOWN.

    As in Kafka, the connection of the client is then closed.
    """
    entry = Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
    _check_elements(entry)
    return entry


def filter_of(requested: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """Return the filter of a request. Raises ProtocolError if an element of it is 0, UNKNOWN."""
    acl_filter = AclFilter(
        requested.resource_type_filter,
        requested.resource_name_filter,
        requested.pattern_type_filter,
        requested.principal_filter,
        requested.host_filter,
        requested.operation,
        requested.permission_type,
    )
    _check_elements(acl_filter)
    return acl_filter


def _check_elements(each: Acl | AclFilter) -> None:
    if UNKNOWN in (each.resource_type, each.pattern_type, each.operation, each.permission):
        raise ProtocolError("an access control entry or filter has an element of 0, UNKNOWN")


def reject_each(result: ResultType[R], elements: Iterable[Any], error: KafkaError) -> Pieces[list[R]]:
    """Return a result with the error for each element of a request."""
    return mapped(elements, lambda _: error_result(result, error))


def error_result(result: ResultType[R], error: KafkaError) -> R:
    return result(error_code=error.code, error_message=error.message or error.code.meaning)
