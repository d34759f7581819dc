"""What the clients of a simulated cluster were told, and what they may hold the cluster to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

PartitionKey = tuple[UUID, int]
CommitKey = tuple[str, UUID, int]
"""(group, topic, partition)"""


def _tell_nobody(key: PartitionKey, offset: int) -> None:
    """Where nobody wants to know."""


@dataclass(slots=True)
class Ledger:
    """Shared by all clients of a seed. A topic counts until somebody asks for its end, whatever is answered to that."""

    operations: int = 0
    new_leaders: list[tuple[int, str, PartitionKey, int]] = field(default_factory=list)
    """(broker, topic, partition, epoch) of each that began to lead and has not been asked for its end yet."""
    aborted_named: int = 0
    """Aborted transactions that fetches have named."""
    topics: dict[str, tuple[UUID, int]] = field(default_factory=dict)
    """Id and number of partitions of topics that were created, so they said, and that nobody asked to delete."""
    deleted: set[UUID] = field(default_factory=set)
    """Topics that are gone, so they said."""
    sent: dict[bytes, PartitionKey] = field(default_factory=dict)
    """Where each value was sent to; values are unique."""
    refused: set[bytes] = field(default_factory=set)
    """Values that were not appended, so they said."""
    records: dict[PartitionKey, dict[int, bytes]] = field(default_factory=dict)
    """What was acknowledged, by offset."""
    acknowledged_in: dict[PartitionKey, dict[int, int]] = field(default_factory=dict)
    """The newest leader epoch of that moment, by offset: whoever leads from then on has the record."""
    read: dict[PartitionKey, dict[int, bytes | None]] = field(default_factory=dict)
    """What some reader saw, by offset."""
    tried_commits: dict[CommitKey, int] = field(default_factory=dict)
    commits: dict[CommitKey, int] = field(default_factory=dict)
    """The last offset that was committed, so they said; each one is higher than the one before."""
    producer_ids: set[int] = field(default_factory=set)
    leaders: dict[tuple[UUID, int, int], int] = field(default_factory=dict)
    """By topic id, partition and leader epoch."""
    epochs: dict[PartitionKey, int] = field(default_factory=dict)
    """The newest of them."""
    trimmed: dict[PartitionKey, int] = field(default_factory=dict)
    """The furthest offset up to which somebody asked to delete records."""
    forgiven: set[PartitionKey] = field(default_factory=set)
    """Partitions that may lack records, for more went wrong than is promised to be borne."""
    acknowledged_at: Callable[[PartitionKey, int], None] = _tell_nobody
    """Told of each record that was acknowledged."""

    def send(self, key: PartitionKey, value: bytes) -> None:
        """A record is on its way."""
        self.sent[value] = key

    def acknowledge(self, key: PartitionKey, offset: int, value: bytes) -> None:
        """A record was produced."""
        if key in self.forgiven:
            return
        known = self.records.setdefault(key, {})
        assert offset not in known, f"S2: {key}: {value!r} and {known[offset]!r} were both acknowledged at {offset}"
        known[offset] = value
        self.acknowledged_in.setdefault(key, {})[offset] = self.epochs.get(key, 0)
        self.acknowledged_at(key, offset)

    def must_have(self, key: PartitionKey, offset: int, epoch: int) -> bool:
        """Whether who leads in an epoch has a record there.

        One that was deposed before the record was acknowledged, and has not heard of it, has less and cannot know.
        """
        since = self.acknowledged_in.get(key, {}).get(offset)
        return since is not None and epoch >= since

    def compare(self, key: PartitionKey, offset: int, value: bytes | None) -> None:
        """A record was read."""
        if value is not None:
            self.check_origin(key, offset, value)
        if key in self.forgiven:
            return
        known = self.records.get(key, {}).get(offset, value)
        assert known == value, f"S2: {key}: at {offset} there is {value!r}, and {known!r} was acknowledged"
        before = self.read.setdefault(key, {}).setdefault(offset, value)
        assert before == value, f"R15: {key}: at {offset} there is {value!r}, and {before!r} was read before"

    def check_origin(self, key: PartitionKey, offset: int, value: bytes) -> None:
        """What is somewhere was sent there, and was not refused."""
        place = self.sent.get(value)
        assert place == key, f"R18: {key}: at {offset} there is {value!r}, which was sent to {place}"
        assert value not in self.refused, f"R17: {key}: at {offset} there is {value!r}, which was not appended"

    def forgive(self, key: PartitionKey) -> None:
        """Ask for none of its records any more."""
        self.forgiven.add(key)
        self.records.pop(key, None)
        self.acknowledged_in.pop(key, None)
        self.read.pop(key, None)

    def take_producer_id(self, producer_id: int) -> None:
        """A producer id was given out."""
        assert producer_id not in self.producer_ids, f"producer id {producer_id} was given out twice"
        self.producer_ids.add(producer_id)

    def lead(self, topic_id: UUID, index: int, epoch: int, leader: int) -> None:
        """Somebody, or nobody, was said to lead a partition."""
        key = topic_id, index
        self.epochs[key] = max(epoch, self.epochs.get(key, epoch))
        known = self.leaders.setdefault((*key, epoch), leader)
        assert known == leader, (
            f"R16: partition {index} of {topic_id} has two leaders in epoch {epoch}: {known}, {leader}"
        )

    @property
    def acknowledged(self) -> int:
        """How many records of topics that still count."""
        return sum(len(self.records.get(key, ())) for _, key in self.partitions())

    def partitions(self) -> Iterator[tuple[str, PartitionKey]]:
        """Those of all topics that count."""
        for name, (topic_id, count) in self.topics.items():
            for index in range(count):
                yield name, (topic_id, index)
