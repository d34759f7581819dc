"""Share group of a run: its configuration, and the wait until all records of its topic are complete."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tests.cluster_processes.broker_cluster import RECOVERY_SECONDS, BrokerCluster
from tests.cluster_processes.probe import SETTINGS
from tests.history.checks.shares import DELIVERIES_MAX, LOCK_SECONDS
from tests.history.clients.common import PARTITIONS, TOPIC, key_of
from tests.history.clients.share_member import GROUP
from tests.history.operations import INFO, OK
from tests.support.requests import group_configs
from tests.support.waiting import eventually

CONFIGS = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": str(int(LOCK_SECONDS * 1000)),
    "share.delivery.count.limit": str(DELIVERIES_MAX),
}
DRAIN_SECONDS = RECOVERY_SECONDS + DELIVERIES_MAX * LOCK_SECONDS


def configure(cluster: BrokerCluster) -> None:
    """Let the group start at the first record, with the locks and deliveries that the checks assume."""
    with cluster.nodes[1].connect(RECOVERY_SECONDS) as client:
        answer = client.ask(group_configs(GROUP, CONFIGS), 1)
    assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]


def drain(cluster: BrokerCluster, replace_members: Callable[[], None]) -> None:
    """Send a last record to each partition, and wait until the members have completed all.

    Call it in a client's network. No marker of a transaction follows the last record, so the start offset that is
    stored reaches the end. If it does not, new members show whether the brokers or the old members were stuck.
    """
    keys = [key_of(TOPIC, index) for index in range(PARTITIONS)]
    _send_last(cluster, keys)
    try:
        _await_no_lag(cluster)
    except AssertionError as error:
        cluster.problems.append(f"{error}: {_lags(cluster)}")
        replace_members()
        try:
            _await_no_lag(cluster)
        except AssertionError:
            cluster.problems.append(f"nor with new members: {_lags(cluster)}")
        else:
            cluster.problems.append("new members completed all")
    cluster.journal.note("share-group", "drained", group=GROUP, keys=keys)


def _await_no_lag(cluster: BrokerCluster) -> None:
    eventually(lambda: _lags(cluster) == [0] * PARTITIONS, "the share group has no lag", DRAIN_SECONDS)


def _send_last(cluster: BrokerCluster, keys: list[str]) -> None:
    producer: Any = Producer(SETTINGS | {"bootstrap.servers": cluster.bootstrap_servers})
    for index, key in enumerate(keys):
        value = f"last:{uuid.uuid4()}"
        complete = cluster.journal.invoke("last", "send", key=key, value=value)

        def on_delivery(error: Any, message: Any, complete: Any = complete) -> None:
            complete(INFO, error=str(error)) if error is not None else complete(OK, offset=message.offset())

        producer.produce(TOPIC, value.encode(), partition=index, on_delivery=on_delivery)
    assert producer.flush(RECOVERY_SECONDS) == 0


def _lags(cluster: BrokerCluster) -> list[int]:
    """Return the lag of each partition as the group's coordinator describes it; an empty list if none responds."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)]
    )
    for node in cluster.nodes.values():
        try:
            (answer,) = node.ask(request, 1, RECOVERY_SECONDS).groups
        except OSError:
            continue
        if answer.error_code == ErrorCode.NONE:
            return [part.lag for topic in answer.topics for part in topic.partitions]
    return []
