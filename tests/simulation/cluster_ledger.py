"""What the clients of a simulated cluster were told, and what they may hold the cluster to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

PartitionKey = tuple[UUID, int]
CommitKey = tuple[str, str, int]
"""(group, topic, partition)"""


@dataclass(slots=True)
class Ledger:
    """Shared by all clients of a seed. A topic counts until somebody asks for its end, whatever is answered to that."""

    operations: int = 0
    topics: dict[str, tuple[UUID, int]] = field(default_factory=dict)
    """Id and number of partitions of topics that were created, so they said, and that nobody asked to delete."""
    deleted: set[UUID] = field(default_factory=set)
    """Topics that are gone, so they said."""
    records: dict[PartitionKey, dict[int, bytes]] = field(default_factory=dict)
    """What was acknowledged, by offset."""
    tried_commits: dict[CommitKey, int] = field(default_factory=dict)
    commits: dict[CommitKey, int] = field(default_factory=dict)
    """The last offset that was committed, so they said; each one is higher than the one before."""
    producer_ids: set[int] = field(default_factory=set)
    leaders: dict[tuple[UUID, int, int], int] = field(default_factory=dict)
    """By topic id, partition and leader epoch."""

    def acknowledge(self, key: PartitionKey, offset: int, value: bytes) -> None:
        """A record was produced."""
        known = self.records.setdefault(key, {})
        assert offset not in known, f"{key}: {value!r} and {known[offset]!r} were both acknowledged at {offset}"
        known[offset] = value

    def compare(self, key: PartitionKey, offset: int, value: bytes | None) -> None:
        """A record was read."""
        known = self.records.get(key, {}).get(offset, value)
        assert known == value, f"{key}: at {offset} there is {value!r}, and {known!r} was acknowledged"

    def take_producer_id(self, producer_id: int) -> None:
        """A producer id was given out."""
        assert producer_id not in self.producer_ids, f"producer id {producer_id} was given out twice"
        self.producer_ids.add(producer_id)

    def lead(self, topic_id: UUID, index: int, epoch: int, leader: int) -> None:
        """Somebody, or nobody, was said to lead a partition."""
        known = self.leaders.setdefault((topic_id, index, epoch), leader)
        assert known == leader, f"partition {index} of {topic_id} has two leaders in epoch {epoch}: {known}, {leader}"

    @property
    def acknowledged(self) -> int:
        """How many records of topics that still count."""
        return sum(len(self.records.get(key, ())) for _, key in self.partitions())

    def partitions(self) -> Iterator[tuple[str, PartitionKey]]:
        """Those of all topics that count."""
        for name, (topic_id, count) in self.topics.items():
            for index in range(count):
                yield name, (topic_id, index)
