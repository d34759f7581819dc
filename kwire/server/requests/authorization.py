"""Authorization table: the operation and resource type that each API requires; and the authorizer that decides.

Every handler goes through `RequestContext.allows`, which looks the operation up here by API and resource type. An API
without an entry cannot be served: the constructor of Dispatcher fails. The default authorizer allows everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol

from kwire.protocol.api_keys import ApiKey


class Operation(IntEnum):
    """Kafka's ACL operations, with their numbers in requests and responses."""

    __hash__ = int.__hash__  # Enum's own is written in Python, and these are keys on the hot path

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
    """Kafka's resource types, with their numbers in requests and responses."""

    __hash__ = int.__hash__

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME = "kafka-cluster"

_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
_O = Operation

ACCESS: Mapping[ApiKey, Mapping[ResourceType, Operation]] = {
    ApiKey.PRODUCE: {_TOPIC: _O.WRITE, _TRANSACTIONAL_ID: _O.WRITE, _CLUSTER: _O.IDEMPOTENT_WRITE},
    ApiKey.FETCH: {_TOPIC: _O.READ, _CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.LIST_OFFSETS: {_TOPIC: _O.DESCRIBE},
    ApiKey.METADATA: {_TOPIC: _O.DESCRIBE, _CLUSTER: _O.CREATE},
    ApiKey.OFFSET_COMMIT: {_GROUP: _O.READ, _TOPIC: _O.READ},
    ApiKey.OFFSET_FETCH: {_GROUP: _O.DESCRIBE, _TOPIC: _O.DESCRIBE},
    ApiKey.FIND_COORDINATOR: {_GROUP: _O.DESCRIBE, _TRANSACTIONAL_ID: _O.DESCRIBE, _CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.JOIN_GROUP: {_GROUP: _O.READ, _TOPIC: _O.DESCRIBE},
    ApiKey.HEARTBEAT: {_GROUP: _O.READ},
    ApiKey.LEAVE_GROUP: {_GROUP: _O.READ},
    ApiKey.SYNC_GROUP: {_GROUP: _O.READ},
    ApiKey.DESCRIBE_GROUPS: {_GROUP: _O.DESCRIBE},
    ApiKey.LIST_GROUPS: {_GROUP: _O.DESCRIBE, _CLUSTER: _O.DESCRIBE},
    ApiKey.API_VERSIONS: {},
    ApiKey.CREATE_TOPICS: {_TOPIC: _O.CREATE, _CLUSTER: _O.CREATE},
    ApiKey.DELETE_TOPICS: {_TOPIC: _O.DELETE},
    ApiKey.DELETE_RECORDS: {_TOPIC: _O.DELETE},
    ApiKey.INIT_PRODUCER_ID: {_TRANSACTIONAL_ID: _O.WRITE, _CLUSTER: _O.IDEMPOTENT_WRITE},
    ApiKey.ADD_PARTITIONS_TO_TXN: {_TRANSACTIONAL_ID: _O.WRITE, _TOPIC: _O.WRITE, _CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.ADD_OFFSETS_TO_TXN: {_TRANSACTIONAL_ID: _O.WRITE, _GROUP: _O.READ},
    ApiKey.END_TXN: {_TRANSACTIONAL_ID: _O.WRITE},
    ApiKey.WRITE_TXN_MARKERS: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.TXN_OFFSET_COMMIT: {_TRANSACTIONAL_ID: _O.WRITE, _GROUP: _O.READ, _TOPIC: _O.READ},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {_TOPIC: _O.DESCRIBE, _CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.DESCRIBE_CONFIGS: {_TOPIC: _O.DESCRIBE_CONFIGS, _CLUSTER: _O.DESCRIBE_CONFIGS, _GROUP: _O.DESCRIBE_CONFIGS},
    ApiKey.ALTER_CONFIGS: {_TOPIC: _O.ALTER_CONFIGS, _CLUSTER: _O.ALTER_CONFIGS, _GROUP: _O.ALTER_CONFIGS},
    ApiKey.DESCRIBE_LOG_DIRS: {_CLUSTER: _O.DESCRIBE},
    ApiKey.CREATE_PARTITIONS: {_TOPIC: _O.ALTER},
    ApiKey.DELETE_GROUPS: {_GROUP: _O.DELETE},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {_TOPIC: _O.ALTER_CONFIGS, _CLUSTER: _O.ALTER_CONFIGS, _GROUP: _O.ALTER_CONFIGS},
    ApiKey.OFFSET_DELETE: {_GROUP: _O.DELETE, _TOPIC: _O.READ},
    ApiKey.DESCRIBE_CLUSTER: {_CLUSTER: _O.DESCRIBE},
    ApiKey.DESCRIBE_PRODUCERS: {_TOPIC: _O.READ},
    ApiKey.SHARE_GROUP_HEARTBEAT: {_GROUP: _O.READ, _TOPIC: _O.DESCRIBE},
    ApiKey.SHARE_GROUP_DESCRIBE: {_GROUP: _O.DESCRIBE, _TOPIC: _O.DESCRIBE},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: {_GROUP: _O.DESCRIBE, _TOPIC: _O.DESCRIBE},
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: {_GROUP: _O.READ, _TOPIC: _O.READ},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {_GROUP: _O.DELETE, _TOPIC: _O.READ},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {_GROUP: _O.READ, _TOPIC: _O.DESCRIBE},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {_GROUP: _O.DESCRIBE, _TOPIC: _O.DESCRIBE},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {_TOPIC: _O.DESCRIBE},
    ApiKey.SHARE_FETCH: {_GROUP: _O.READ, _TOPIC: _O.READ},
    ApiKey.SHARE_ACKNOWLEDGE: {_GROUP: _O.READ, _TOPIC: _O.READ},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {_GROUP: _O.READ, _TOPIC: _O.DESCRIBE, _CLUSTER: _O.CREATE},
    ApiKey.STREAMS_GROUP_DESCRIBE: {_GROUP: _O.DESCRIBE, _TOPIC: _O.DESCRIBE},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {_CLUSTER: _O.DESCRIBE_CONFIGS},
    ApiKey.ALTER_CLIENT_QUOTAS: {_CLUSTER: _O.ALTER_CONFIGS},
    ApiKey.SASL_HANDSHAKE: {},
    ApiKey.DESCRIBE_ACLS: {_CLUSTER: _O.DESCRIBE},
    ApiKey.CREATE_ACLS: {_CLUSTER: _O.ALTER},
    ApiKey.DELETE_ACLS: {_CLUSTER: _O.ALTER},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {_CLUSTER: _O.ALTER},
    ApiKey.SASL_AUTHENTICATE: {},
    ApiKey.CREATE_DELEGATION_TOKEN: {},
    ApiKey.RENEW_DELEGATION_TOKEN: {},
    ApiKey.EXPIRE_DELEGATION_TOKEN: {},
    ApiKey.DESCRIBE_DELEGATION_TOKEN: {ResourceType.DELEGATION_TOKEN: _O.DESCRIBE},
    ApiKey.ELECT_LEADERS: {_CLUSTER: _O.ALTER},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {_CLUSTER: _O.ALTER},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {_CLUSTER: _O.DESCRIBE},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {_CLUSTER: _O.DESCRIBE},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {_CLUSTER: _O.ALTER},
    ApiKey.DESCRIBE_QUORUM: {_CLUSTER: _O.DESCRIBE},
    ApiKey.VOTE: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.BEGIN_QUORUM_EPOCH: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.END_QUORUM_EPOCH: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.FETCH_SNAPSHOT: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.BROKER_REGISTRATION: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.BROKER_HEARTBEAT: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.CONTROLLER_REGISTRATION: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.ALLOCATE_PRODUCER_IDS: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.ALTER_PARTITION: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.ENVELOPE: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.ADD_RAFT_VOTER: {_CLUSTER: _O.ALTER},
    ApiKey.REMOVE_RAFT_VOTER: {_CLUSTER: _O.ALTER},
    ApiKey.UPDATE_RAFT_VOTER: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.UPDATE_FEATURES: {_CLUSTER: _O.ALTER},
    ApiKey.UNREGISTER_BROKER: {_CLUSTER: _O.ALTER},
    ApiKey.DESCRIBE_TRANSACTIONS: {_TRANSACTIONAL_ID: _O.DESCRIBE, _TOPIC: _O.DESCRIBE},
    ApiKey.LIST_TRANSACTIONS: {_TRANSACTIONAL_ID: _O.DESCRIBE},
    ApiKey.LIST_CONFIG_RESOURCES: {_CLUSTER: _O.DESCRIBE_CONFIGS},
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.READ_SHARE_GROUP_STATE: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.WRITE_SHARE_GROUP_STATE: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.DELETE_SHARE_GROUP_STATE: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: {_CLUSTER: _O.CLUSTER_ACTION},
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: {},
    ApiKey.PUSH_TELEMETRY: {},
}
"""Operation that each served API requires, by resource type. ApiVersions requires none."""


class Authorizer(Protocol):
    """Decides whether a principal may perform an operation on a resource."""

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool: ...


class AllowEverything:
    """The authorizer of a broker without ACLs."""

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        return True
