"""Which replica a consumer should read from: one in its own rack, if the broker is told to choose so (KIP-392)."""

from __future__ import annotations

from typing import Final

from kwire.cluster.partition import Partition
from kwire.protocol.messages.fetch import FetchPartition
from kwire.server.context import RequestContext
from kwire.server.settings.setting_rules import RACK_AWARE_SELECTOR

CLIENT_RACKS_SINCE: Final = 11
"""From this version of Fetch on, consumers say in which rack they are, and followers may serve them."""


def closer_replica(partition: Partition, asked: FetchPartition, rack: str, context: RequestContext) -> int | None:
    """The broker that a consumer should turn to instead; None when it is well served by this leader.

    Only replicas that can answer are named: those that live, are in sync, and are known to have what is asked for. The
    one that has come furthest is taken. One that is not in sync may never catch up, and its readers with it.
    """
    if not rack or context.services.config["replica.selector.class"] != RACK_AWARE_SELECTOR:
        return None
    in_sync = partition.in_sync
    services = context.services
    if in_sync is None or services.config["broker.rack"] == rack:
        return None
    best, best_end = None, -1
    for broker_id in partition.image.isr:
        broker = services.image.brokers.get(broker_id)
        if broker_id == partition.leader_id or broker is None or broker.fenced or broker.rack != rack:
            continue
        follower = in_sync.follower(broker_id)
        has_it = follower.log_start_offset <= asked.fetch_offset <= follower.log_end_offset
        if has_it and follower.log_end_offset > best_end and services.endpoint(broker_id, context.listener_name):
            best, best_end = broker_id, follower.log_end_offset
    return best
