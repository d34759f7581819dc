"""API handlers of the broker, one module per API. The order does not matter: the table is sorted by API key."""

from __future__ import annotations

from kwire.server.apis.cluster import (
    administration,
    alter_replica_log_dirs,
    api_versions,
    describe_cluster,
    describe_log_dirs,
)
from kwire.server.apis.configs import (
    describe_client_quotas,
    describe_configs,
    get_telemetry_subscriptions,
    list_config_resources,
    push_telemetry,
)
from kwire.server.apis.groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from kwire.server.apis.records import (
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from kwire.server.apis.security import security
from kwire.server.apis.topics import describe_topic_partitions, metadata
from kwire.server.apis.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from kwire.server.requests.api import Api

SERVED: tuple[Api, ...] = tuple(
    sorted(
        (
            *administration.AT_BROKER,
            *security.APIS,
            add_offsets_to_txn.API,
            add_partitions_to_txn.API,
            alter_replica_log_dirs.API,
            api_versions.API,
            consumer_group_describe.API,
            consumer_group_heartbeat.API,
            delete_groups.API,
            delete_records.API,
            describe_client_quotas.API,
            describe_cluster.API,
            describe_configs.API,
            describe_groups.API,
            describe_log_dirs.API,
            describe_producers.API,
            describe_topic_partitions.API,
            describe_transactions.API,
            end_txn.API,
            fetch.API,
            find_coordinator.API,
            get_telemetry_subscriptions.API,
            heartbeat.API,
            init_producer_id.API,
            join_group.API,
            leave_group.API,
            list_config_resources.API,
            list_groups.API,
            list_offsets.API,
            list_transactions.API,
            metadata.API,
            offset_commit.API,
            offset_delete.API,
            offset_fetch.API,
            offset_for_leader_epoch.API,
            produce.API,
            push_telemetry.API,
            sync_group.API,
            txn_offset_commit.API,
            write_txn_markers.API,
        ),
        key=lambda api: api.key,
    )
)
