"""Administration APIs of the active controller, which clients use directly or through brokers (KIP-590)."""

from __future__ import annotations

from kwire.server.apis.cluster import describe_quorum, quorum, unregister_broker, update_features
from kwire.server.apis.configs import alter_client_quotas, alter_configs, incremental_alter_configs
from kwire.server.apis.security import (
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    expire_delegation_token,
    renew_delegation_token,
)
from kwire.server.apis.topics import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    list_partition_reassignments,
)
from kwire.server.other_nodes.forwarding import Reject, decided, forwarded
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerServices

_DECIDED: tuple[tuple[Api[ControllerServices], Reject], ...] = (
    (alter_client_quotas.API, alter_client_quotas.reject),
    (alter_user_scram_credentials.API, alter_user_scram_credentials.reject),
    (alter_partition_reassignments.API, alter_partition_reassignments.reject),
    (create_partitions.API, create_partitions.reject),
    (create_topics.API, create_topics.reject),
    (delete_topics.API, delete_topics.reject),
    (unregister_broker.API, unregister_broker.reject),
    (update_features.API, update_features.reject),
)
_LOOKED_UP: tuple[tuple[Api[ControllerServices], Reject], ...] = (
    (list_partition_reassignments.API, list_partition_reassignments.reject),
    (quorum.ADD_RAFT_VOTER, quorum.reject_new_voter),
    (quorum.REMOVE_RAFT_VOTER, quorum.reject_removal),
)
"""APIs that any controller answers, if needed with an error code of the quorum."""
_PASSED_ON = (*_DECIDED, *_LOOKED_UP)

QUORUM_TIMEOUT_MS = 2000
"""Time in which a broker looks for a controller that describes the quorum: the lack of one is a valid response too."""

AT_CONTROLLER: tuple[Api[ControllerServices], ...] = (
    *(decided(api, reject) for api, reject in _DECIDED),
    describe_quorum.API,
    *(api for api, _ in _LOOKED_UP),
    decided(alter_configs.API, alter_configs.reject),
    decided(create_acls.API, create_acls.reject),
    decided(create_delegation_token.API, create_delegation_token.reject),
    decided(delete_acls.API, delete_acls.reject),
    elect_leaders.API,
    decided(expire_delegation_token.API, expire_delegation_token.reject),
    decided(incremental_alter_configs.API, incremental_alter_configs.reject),
    decided(renew_delegation_token.API, renew_delegation_token.reject),
)
"""Entries of a controller's table; an Envelope may contain only these."""

AT_BROKER: tuple[Api, ...] = (
    *(forwarded(api, reject) for api, reject in _PASSED_ON),
    forwarded(describe_quorum.API, describe_quorum.reject, timeout_ms=QUORUM_TIMEOUT_MS),
    alter_configs.AT_BROKER,
    create_acls.AT_BROKER,
    create_delegation_token.AT_BROKER,
    delete_acls.AT_BROKER,
    elect_leaders.AT_BROKER,
    expire_delegation_token.AT_BROKER,
    incremental_alter_configs.AT_BROKER,
    renew_delegation_token.AT_BROKER,
)
"""Entries of a broker's table."""
