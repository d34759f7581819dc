"""Closest replica of a consumer: one in the consumer's rack, if replica.selector.class selects so (KIP-392)."""

from __future__ import annotations

from typing import Final

from kwire.cluster.partitions.partition import Partition
from kwire.protocol.messages.fetch import FetchPartition
from kwire.server.requests.context import RequestContext
from kwire.server.settings.requests import RequestSettings
from kwire.server.settings.setting_rules import RACK_AWARE_SELECTOR

CLIENT_RACKS_SINCE: Final = 11
"""First version of Fetch that names the consumer's rack, and in which followers may serve consumers."""


def closer_replica(partition: Partition, asked: FetchPartition, rack: str, context: RequestContext) -> int | None:
    """Return the broker that the consumer should fetch from instead; None if it should stay with this leader.

    Only brokers that can answer are returned: unfenced, in sync, and with the fetch offset in their log as far as the
    leader knows. Among several, the one with the highest log end offset is returned. A replica that is not in sync may
    never catch up, nor would its consumers.
    """
    if not rack or context.services.settings.of(RequestSettings).replica_selector != RACK_AWARE_SELECTOR:
        return None
    followers = partition.followers
    services = context.services
    if followers is None or services.settings.of(RequestSettings).rack == rack:
        return None
    best, best_end = None, -1
    for broker_id in partition.image.isr:
        broker = services.image.brokers.get(broker_id)
        if broker_id == partition.leader_id or broker is None or broker.fenced or broker.rack != rack:
            continue
        follower = followers.follower(broker_id)
        has_it = follower.log_start_offset <= asked.fetch_offset <= follower.log_end_offset
        if has_it and follower.log_end_offset > best_end and services.endpoint(broker_id, context.listener_name):
            best, best_end = broker_id, follower.log_end_offset
    return best
