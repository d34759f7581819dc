"""Assignment of followed partitions to fetchers: one fetcher for each leader, or several (num.replica.fetchers)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from kwire.cluster.metadata.image import NO_LEADER
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.replication.fetcher import ReplicaFetcher


class ReplicaFetchers:
    """Owner of the fetchers, notified of every change of a partition's leader and of removed partitions."""

    def __init__(self, *, per_leader: Callable[[], int], start: Callable[[int], ReplicaFetcher]) -> None:
        """Create without fetchers. `per_leader` returns the number per leader; `start` creates and runs a fetcher."""
        self._configured_per_leader = per_leader
        self._per_leader = per_leader()
        self._start = start
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._following: dict[tuple[UUID, int], tuple[Partition, ReplicaFetcher]] = {}

    def leader_epoch_changed(self, partition: Partition) -> None:
        """Stop fetching from the old leader; fetch from the current one if this broker follows."""
        self.stop_following(partition)
        if partition.is_led or partition.is_removed or partition.leader_id == NO_LEADER:
            return
        place = partition.leader_id, (partition.topic_id.int + partition.index) % self._per_leader
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = self._start(partition.leader_id)
        self._following[partition.topic_id, partition.index] = partition, fetcher
        fetcher.add(partition)

    def stop_following(self, partition: Partition) -> None:
        """Stop fetching a partition that was removed, has a new leader, or has a damaged log."""
        _, fetcher = self._following.pop((partition.topic_id, partition.index), (None, None))
        if fetcher is not None:
            fetcher.remove(partition)

    def settings_changed(self) -> None:
        """Distribute the partitions again if the number of fetchers has changed; surplus fetchers stay idle."""
        if self._per_leader != self._configured_per_leader():
            self._per_leader = self._configured_per_leader()
            for partition, _ in list(self._following.values()):
                self.leader_epoch_changed(partition)
