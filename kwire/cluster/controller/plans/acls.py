"""Plans for access control entries: from a request to records, with Kafka's checks and wording (KIP-801)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TypeVar
from uuid import UUID

from kwire.chunks import CHUNK, Pieces, chunks
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.security.acls import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from kwire.protocol.error_codes import ErrorCode, KafkaError

E = TypeVar("E", bound=IntEnum)


def check_new_acl(acl: Acl) -> None:
    """Raise KafkaError INVALID_REQUEST for an entry that cannot be stored."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise _invalid("Invalid empty resource name")
    if _known(ResourceType, acl.resource_type) in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise _invalid(f"Invalid resourceType {_known(ResourceType, acl.resource_type).name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {_known(PatternType, acl.pattern_type).name}")
    if _known(Operation, acl.operation) in (Operation.UNKNOWN, Operation.ANY):
        raise _invalid(f"Invalid operation {_known(Operation, acl.operation).name}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {_known(Permission, acl.permission).name}")
    _check_principal(acl.principal)


def check_filter(acl_filter: AclFilter) -> None:
    """Raise KafkaError INVALID_REQUEST for a filter with an element that is not known."""
    pattern = (_known(ResourceType, acl_filter.resource_type), _known(PatternType, acl_filter.pattern_type))
    if ResourceType.UNKNOWN in pattern:
        raise _invalid("Unknown patternFilter.")
    if 0 in (_known(Operation, acl_filter.operation), _known(Permission, acl_filter.permission)):
        raise _invalid("Unknown entryFilter.")


def _check_principal(principal: str) -> None:
    if ":" not in principal:
        raise _invalid(
            f"Could not parse principal from `{principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )


def _known(kind: type[E], number: int) -> E:
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)


def matching_ids(image: MetadataImage, acl_filter: AclFilter) -> Pieces[dict[UUID, Acl]]:
    """Return the entries that match a filter, by id. A filter that names one entry needs no search."""
    if (exact := _only_match(acl_filter)) is not None:
        acl_id = image.acl_ids.get(exact)
        return {} if acl_id is None else {acl_id: exact}
    found: dict[UUID, Acl] = {}
    for some in chunks(image.acls.items()):
        found.update(_matching(some, acl_filter))
        if len(some) == CHUNK:
            yield
    return found


def _matching(acls: Iterable[tuple[UUID, Acl]], acl_filter: AclFilter) -> Iterator[tuple[UUID, Acl]]:
    return ((acl_id, acl) for acl_id, acl in acls if acl_filter.matches(acl))


def _only_match(acl_filter: AclFilter) -> Acl | None:
    """Return the only entry that a filter can match; None if it can match several."""
    names = (acl_filter.resource_name, acl_filter.principal, acl_filter.host)
    kinds = (acl_filter.resource_type, acl_filter.operation, acl_filter.permission)
    if None in names or ResourceType.ANY in kinds or acl_filter.pattern_type in (PatternType.ANY, PatternType.MATCH):
        return None
    return Acl(*acl_filter)  # type: ignore[arg-type]  # mypy cannot tell that none of the names is None
