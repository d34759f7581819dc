"""Replication on a broker: fetchers of followed partitions, lag checks of followers, changes of in-sync replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kwire.cluster.configs.settings import setting
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.partitions.follower import UNKNOWN_EPOCH
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.replication.fetcher import FetchingBroker, ReplicaFetcher
from kwire.cluster.replication.fetchers import ReplicaFetchers
from kwire.server.node.node import Node
from kwire.server.other_nodes.active_controller import ActiveController
from kwire.server.other_nodes.other_brokers import OtherBrokers
from kwire.server.quotas.replication import ReplicationQuota, Side
from kwire.server.replication.in_sync_changes import InSyncChanges

RECORDS_BYTES_MAX = 2**31 - 1
"""Largest response of a leader: max.message.bytes alone limits the size of a batch."""

LAG_CHECK_SECONDS_MIN = 0.01
"""Shortest interval of the lag check: replica.lag.time.max.ms may be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """Settings of a broker's leaders and of its connections to other leaders."""

    lag_time_max_ms: int = setting("replica.lag.time.max.ms")
    socket_timeout_ms: int = setting("replica.socket.timeout.ms")
    fetchers: int = setting("num.replica.fetchers")


class BrokerPeers:
    """Implementation of kwire.cluster.partitions.in_sync.Peers."""

    def __init__(self, node: Node, active_controller: ActiveController, *, broker_epoch: Callable[[], int]) -> None:
        self._node = node
        self._broker_epoch = broker_epoch
        self.changes = InSyncChanges(
            broker_id=node.config.node_id, broker_epoch=broker_epoch, active_controller=active_controller
        )

    @property
    def broker_id(self) -> int:
        return self._node.config.node_id

    def broker_epoch(self) -> int:
        return self._broker_epoch()

    def now_ms(self) -> float:
        return self._node.clock.monotonic_ms()

    def lag_max_ms(self) -> float:
        return float(self._node.settings.of(ReplicationSettings).lag_time_max_ms)

    def can_join_isr(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self._node.metadata_log.image.brokers.get(broker_id)
        if broker is None or not broker.is_active:
            return False
        return broker_epoch in (UNKNOWN_EPOCH, broker.broker_epoch)

    def is_unfenced(self, broker_id: int) -> bool:
        broker = self._node.metadata_log.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def is_superseded(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self._node.metadata_log.image.brokers.get(broker_id)
        return broker is not None and UNKNOWN_EPOCH != broker_epoch < broker.broker_epoch

    def send_proposal(self, partition: Partition) -> None:
        self.changes.add(partition)


def replication_quota(node: Node, side: Side) -> ReplicationQuota:
    """Return the replication throttle of a node's leaders, or of its followers."""
    return ReplicationQuota(
        side,
        broker_id=node.config.node_id,
        settings=node.settings,
        dynamic_configs=node.dynamic_configs,
        image=lambda: node.metadata_log.image,
        clock=node.clock,
    )


class Replication:
    """Fetchers of a broker and the lag checks of its followers."""

    def __init__(self, node: Node, partitions: Partitions, peers: BrokerPeers) -> None:
        self._node = node
        self._partitions = partitions
        self._peers = peers
        self._broker = FetchingBroker(
            broker_id=node.config.node_id,
            broker_epoch=peers.broker_epoch,
            settings=node.settings,
            clock=node.clock,
            throttle=replication_quota(node, Side.FOLLOWER),
        )
        self._fetchers = ReplicaFetchers(
            per_leader=lambda: node.settings.of(ReplicationSettings).fetchers, start=self._start_fetcher
        )

    def start(self) -> None:
        """Start the lag checks and the requests that change in-sync sets, in tasks of the node."""
        self._node.broker_tasks.run(self._peers.changes.run())
        self._node.broker_tasks.run(self._watch_lag())

    def leader_epoch_changed(self, partition: Partition) -> None:
        """Stop fetching from the old leader; fetch from the current one if this broker follows."""
        self._fetchers.leader_epoch_changed(partition)

    def settings_changed(self) -> None:
        """Apply a changed number of fetchers."""
        self._fetchers.settings_changed()

    def stop_following(self, partition: Partition) -> None:
        """Stop following a partition until its leader changes."""
        self._fetchers.stop_following(partition)

    def _start_fetcher(self, leader_id: int) -> ReplicaFetcher:
        node = self._node
        channel = node.open_broker_channel(
            timeout_ms=node.settings.of(ReplicationSettings).socket_timeout_ms, response_bytes_max=RECORDS_BYTES_MAX
        )
        leader = OtherBrokers(
            broker_id=node.config.node_id,
            listener_name=node.config.inter_broker_listener_name,
            image=self._image,
            channel=channel,
        )
        fetcher = ReplicaFetcher(leader_id, broker=self._broker, send=partial(leader.send, leader_id))
        node.broker_tasks.run(fetcher.run())
        return fetcher

    def _image(self) -> MetadataImage:
        return self._node.metadata_log.image

    async def _watch_lag(self) -> None:
        """Propose the removal of followers that lag, within one and a half times replica.lag.time.max.ms."""
        while True:
            await asyncio.sleep(max(self._peers.lag_max_ms() / 2000, LAG_CHECK_SECONDS_MIN))
            for partition in list(self._partitions):
                partition.propose_isr_shrink()
