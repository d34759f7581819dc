"""Responses of ShareFetch and ShareAcknowledge: partitions by topic, and the leaders of partitions that have moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from kwire.chunks import Pieces
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.share_acknowledge import (
    ShareAcknowledgeLeaderIdAndEpoch,
    ShareAcknowledgeNodeEndpoint,
    ShareAcknowledgePartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kwire.protocol.messages.share_fetch import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchLeaderIdAndEpoch,
    ShareFetchNodeEndpoint,
    ShareFetchPartitionData,
    ShareFetchResponse,
)
from kwire.server.requests.context import RequestContext
from kwire.server.requests.current_leaders import MOVED, CurrentLeader, current_leader, node_endpoint
from kwire.server.sharing.share_fetch import Fetched
from kwire.server.sharing.share_sessions import PartitionKey

PARTITIONS_AT_ONCE: Final = 256
"""Partitions of a response that are put together in one step."""

Outcomes = dict[PartitionKey, KafkaError | None]
"""Results of the acknowledgements of some partitions."""


def fetch_response(
    fetched: Mapping[PartitionKey, Fetched], outcomes: Outcomes, lock_duration_ms: int, context: RequestContext
) -> Pieces[ShareFetchResponse]:
    """Return the response of a ShareFetch request."""
    topics: dict[UUID, ShareFetchableTopicResponse] = {}
    leaders: set[int] = set()
    for number, key in enumerate({**dict.fromkeys(fetched), **dict.fromkeys(outcomes)}, 1):
        topic_id, index = key
        data = ShareFetchPartitionData(partition_index=index, records=b"")
        if (found := fetched.get(key)) is not None:
            _fill(data, key, found, context, leaders)
        if (error := outcomes.get(key)) is not None:
            data.acknowledge_error_code = error.code
            data.acknowledge_error_message = error.message
        topic = topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id=topic_id))
        topic.partitions.append(data)
        if number % PARTITIONS_AT_ONCE == 0:
            yield
    endpoints = [node_endpoint(leader, context) for leader in sorted(leaders)]
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=[
            ShareFetchNodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in endpoints
            if each is not None
        ],
    )


def _fill(
    data: ShareFetchPartitionData, key: PartitionKey, found: Fetched, context: RequestContext, leaders: set[int]
) -> None:
    if found.error is None:
        data.records = found.records
        data.acquired_records = [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=delivery_count)
            for first, last, delivery_count in found.acquired
        ]
        return
    data.error_code = found.error.code
    if (leader := _leader(key, found.error, context)) is not None:
        data.current_leader = ShareFetchLeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
        leaders.add(leader.leader_id)


def acknowledge_response(
    outcomes: Outcomes, lock_duration_ms: int, context: RequestContext
) -> Pieces[ShareAcknowledgeResponse]:
    """Return the response of a ShareAcknowledge request."""
    topics: dict[UUID, ShareAcknowledgeTopicResponse] = {}
    leaders: set[int] = set()
    for number, (key, error) in enumerate(outcomes.items(), 1):
        topic_id, index = key
        data = ShareAcknowledgePartitionData(partition_index=index)
        if error is not None:
            data.error_code = error.code
            data.error_message = error.message
            if (leader := _leader(key, error, context)) is not None:
                data.current_leader = ShareAcknowledgeLeaderIdAndEpoch(
                    leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                )
                leaders.add(leader.leader_id)
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id))
        topic.partitions.append(data)
        if number % PARTITIONS_AT_ONCE == 0:
            yield
    endpoints = [node_endpoint(leader, context) for leader in sorted(leaders)]
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=[
            ShareAcknowledgeNodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in endpoints
            if each is not None
        ],
    )


def _leader(key: PartitionKey, error: KafkaError, context: RequestContext) -> CurrentLeader | None:
    """Return the leader for a client with an outdated one."""
    if error.code not in MOVED:
        return None
    return current_leader(context.services.image.topic_names.get(key[0], ""), key[1], context)
