"""Which fetcher follows which partition: one for each leader, or several (num.replica.fetchers)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from kwire.cluster.image import NO_LEADER
from kwire.cluster.partition import Partition
from kwire.cluster.replication.fetcher import ReplicaFetcher


class ReplicaFetchers:
    """Owns the fetchers; told of every change of a partition's leader, and of partitions that go."""

    def __init__(self, *, per_leader: Callable[[], int], start: Callable[[int], ReplicaFetcher]) -> None:
        """`per_leader` is how many there should be; `start` makes a fetcher for a leader, and has it run."""
        self._wanted_per_leader = per_leader
        self._per_leader = per_leader()
        self._start = start
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._following: dict[tuple[UUID, int], tuple[Partition, ReplicaFetcher]] = {}

    def role_changed(self, partition: Partition) -> None:
        """Follow a partition where it is led now."""
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
        """The partition is gone, or follows elsewhere."""
        _, fetcher = self._following.pop((partition.topic_id, partition.index), (None, None))
        if fetcher is not None:
            fetcher.remove(partition)

    def settings_changed(self) -> None:
        """Spread the partitions anew if there should be more fetchers, or fewer; those left over have nothing to do."""
        if self._per_leader != self._wanted_per_leader():
            self._per_leader = self._wanted_per_leader()
            for partition, _ in list(self._following.values()):
                self.role_changed(partition)
