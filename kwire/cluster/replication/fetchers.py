"""Which fetcher follows which partition: one for each leader, or several (num.replica.fetchers)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from kwire.cluster.image import NO_LEADER
from kwire.cluster.partition import Partition
from kwire.cluster.replication.fetcher import ReplicaFetcher


class ReplicaFetchers:
    """Owns the fetchers; told of every change of a partition's leader, and of partitions that go."""

    def __init__(self, *, per_leader: int, start: Callable[[int], ReplicaFetcher]) -> None:
        """`start` makes a fetcher for a leader, and has it run."""
        self._per_leader = per_leader
        self._start = start
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._following: dict[tuple[UUID, int], ReplicaFetcher] = {}

    def role_changed(self, partition: Partition) -> None:
        """Follow a partition where it is led now."""
        self.stop_following(partition)
        if partition.is_led or partition.is_removed or partition.leader_id == NO_LEADER:
            return
        place = partition.leader_id, (partition.topic_id.int + partition.index) % self._per_leader
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = self._start(partition.leader_id)
        self._following[partition.topic_id, partition.index] = fetcher
        fetcher.add(partition)

    def stop_following(self, partition: Partition) -> None:
        """The partition is gone, or follows elsewhere."""
        fetcher = self._following.pop((partition.topic_id, partition.index), None)
        if fetcher is not None:
            fetcher.remove(partition)
