"""Authorized operations: the bit field of the operations that a client may perform on a resource (KIP-430)."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.cluster.security.acls import CLUSTER_NAME, Operation, ResourceType
from kwire.server.requests.services import NodeContext

_O = Operation
SUPPORTED_OPERATIONS: Mapping[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ),
}


def cluster_operations(context: NodeContext) -> int:
    """Return the bit field of the cluster; 0 for a client that may not describe it."""
    if not context.allows_cluster_to(Operation.DESCRIBE):
        return 0
    return authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)


def authorized_operations(context: NodeContext, resource: ResourceType, name: str) -> int:
    """Return the bit field: one bit for each allowed operation, at the position of the operation's number."""
    allows = context.services.authorizer.allows
    connection = context.connection
    bits = 0
    for operation in SUPPORTED_OPERATIONS[resource]:
        if allows(connection.principal, connection.peer_host, operation, resource, name):
            bits |= 1 << operation
    return bits
