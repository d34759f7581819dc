"""Access control entries (ACLs), the resources and operations that they name, and filters of them (KIP-11, KIP-290).

The numbers are those of requests and of records in the metadata log. A number that is not known is kept: entries of a
later version are stored and described, and match nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the only resource of the type CLUSTER."""
WILDCARD: Final = "*"
"""Name of a literal entry for every resource of its type; host of an entry for every host."""
EVERYONE: Final = "User:*"
"""Principal of an entry for every principal."""


class Operation(IntEnum):
    """Kafka's ACL operations."""

    __hash__ = int.__hash__  # Enum's own is written in Python, and these are keys on the hot path

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """Kafka's resource types."""

    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Kafka's types of resource patterns; MATCH is for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Kafka's permission types."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """Access control entry: a permission for an operation of a principal, from a host, on matching resources."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def matches_name(self, name: str) -> bool:
        """Return True if the entry's pattern applies to a resource of its type with this name."""
        if self.pattern_type == PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.pattern_type == PatternType.LITERAL and self.resource_name in (name, WILDCARD)

    def matches_client(self, principal: str, host: str) -> bool:
        """Return True if the entry applies to a principal that is connected from a host, given as an IP address."""
        return self.principal in (principal, EVERYONE) and self.host in (host, WILDCARD)

    def matches_operation(self, operation: Operation) -> bool:
        """Return True if the entry applies to an operation. To allow one may also allow to describe."""
        if self.operation in (operation, Operation.ALL):
            return True
        return self.permission == Permission.ALLOW and self.operation in _IMPLYING.get(operation, ())


_IMPLYING: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Operations whose ALLOW also allows this one; a DENY denies only what it names."""


class AclFilter(NamedTuple):
    """Filter of access control entries; None, and the numbers of ANY, match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.pattern_type in (PatternType.ANY, PatternType.MATCH, acl.pattern_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.resource_name is None:
            return True
        if self.pattern_type == PatternType.MATCH:
            return acl.matches_name(self.resource_name)
        return self.resource_name == acl.resource_name
