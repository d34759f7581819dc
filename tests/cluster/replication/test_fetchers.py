"""Assignment of partitions to fetchers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from kwire.cluster.partitions.partition import Partition
from kwire.cluster.replication.fetchers import ReplicaFetchers
from tests.cluster.replication.world import KnownPeers, image, replica


class Fake:
    def __init__(self, leader_id: int) -> None:
        self.leader_id = leader_id
        self.partitions: list[Partition] = []

    def add(self, partition: Partition) -> None:
        self.partitions.append(partition)

    def remove(self, partition: Partition) -> None:
        self.partitions.remove(partition)


def test_partitions_follow_where_they_are_led(tmp_path: Path) -> None:
    made: list[Fake] = []

    def start(leader_id: int) -> Any:
        made.append(Fake(leader_id))
        return made[-1]

    fetchers = ReplicaFetchers(per_leader=lambda: 1, start=start)
    partition = replica(tmp_path, image((1,)), KnownPeers(2))
    fetchers.leader_epoch_changed(partition)
    assert [(each.leader_id, each.partitions) for each in made] == [(1, [partition])]
    partition.update(image((1, 2), leader=3, leader_epoch=1, partition_epoch=1), is_led=False)
    fetchers.leader_epoch_changed(partition)
    assert [(each.leader_id, each.partitions) for each in made] == [(1, []), (3, [partition])]
    partition.update(image((1, 2), leader=-1, leader_epoch=2, partition_epoch=2), is_led=False)
    fetchers.leader_epoch_changed(partition)
    partition.update(image((1, 2), leader=2, leader_epoch=3, partition_epoch=3), is_led=True)
    fetchers.leader_epoch_changed(partition)
    fetchers.stop_following(partition)
    assert [each.partitions for each in made] == [[], []]


def test_more_fetchers_share_the_partitions_of_a_leader(tmp_path: Path) -> None:
    made: list[Fake] = []
    per_leader = 1

    def start(leader_id: int) -> Any:
        made.append(Fake(leader_id))
        return made[-1]

    fetchers = ReplicaFetchers(per_leader=lambda: per_leader, start=start)
    partitions = [replica(tmp_path / str(index), image((1,)), KnownPeers(2)) for index in range(4)]
    for index, partition in enumerate(partitions):
        partition.index = index
        partition.topic_id = UUID(int=0)
        fetchers.leader_epoch_changed(partition)
    per_leader = 2
    fetchers.settings_changed()
    assert sorted(len(each.partitions) for each in made) == [2, 2]
