"""Ledger of all responses to clients of a simulated cluster, which later responses must not contradict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

PartitionKey = tuple[UUID, int]
CommitKey = tuple[str, UUID, int]
"""(group, topic, partition)."""


def _tell_nobody(key: PartitionKey, offset: int) -> None:
    """Ignore the acknowledgement."""


@dataclass(slots=True)
class Ledger:
    """State shared by all clients of a seed. A topic counts until a client requests its deletion, whatever the response
    is.
    """

    operations: int = 0
    new_leaders: list[tuple[int, str, PartitionKey, int]] = field(default_factory=list)
    """(broker, topic, partition, epoch) of each new leader that has received no ListOffsets request for its end yet."""
    aborted_named: int = 0
    """Number of aborted transactions in fetch responses."""
    topics: dict[str, tuple[UUID, int]] = field(default_factory=dict)
    """Id and partition count of created topics whose deletion no client has requested."""
    deleted: set[UUID] = field(default_factory=set)
    """Topics whose deletion succeeded."""
    sent: dict[bytes, PartitionKey] = field(default_factory=dict)
    """Target partition of each value; values are unique."""
    rejected: set[bytes] = field(default_factory=set)
    """Values that were certainly not appended."""
    records: dict[PartitionKey, dict[int, bytes]] = field(default_factory=dict)
    """Acknowledged records by offset."""
    acknowledged_in: dict[PartitionKey, dict[int, int]] = field(default_factory=dict)
    """Newest leader epoch at the time of the acknowledgement, by offset: leaders of later epochs have the record."""
    read: dict[PartitionKey, dict[int, bytes | None]] = field(default_factory=dict)
    """Records that a consumer has read, by offset."""
    tried_commits: dict[CommitKey, int] = field(default_factory=dict)
    commits: dict[CommitKey, int] = field(default_factory=dict)
    """Last committed offset; each one is higher than the previous one."""
    producer_ids: set[int] = field(default_factory=set)
    leaders: dict[tuple[UUID, int, int], int] = field(default_factory=dict)
    """Leaders by topic id, partition and leader epoch."""
    epochs: dict[PartitionKey, int] = field(default_factory=dict)
    """Newest leader epoch by partition."""
    trimmed: dict[PartitionKey, int] = field(default_factory=dict)
    """Highest offset of a DeleteRecords request."""
    forgiven: set[PartitionKey] = field(default_factory=set)
    """Partitions that may lack records, because there were more faults than promised."""
    checked: Counter[bool] = field(default_factory=Counter)
    """Number of requests that access control let through, and that it refused."""
    acknowledged_at: Callable[[PartitionKey, int], None] = _tell_nobody
    """Callback for each acknowledged record."""

    def send(self, key: PartitionKey, value: bytes) -> None:
        """Record that a value was sent."""
        self.sent[value] = key

    def acknowledge(self, key: PartitionKey, offset: int, value: bytes) -> None:
        """Record the acknowledgement of a record."""
        if key in self.forgiven:
            return
        known = self.records.setdefault(key, {})
        assert offset not in known, f"S2: {key}: {value!r} and {known[offset]!r} were both acknowledged at {offset}"
        known[offset] = value
        self.acknowledged_in.setdefault(key, {})[offset] = self.epochs.get(key, 0)
        self.acknowledged_at(key, offset)

    def must_have(self, key: PartitionKey, offset: int, epoch: int) -> bool:
        """Return True if the leader of an epoch must have the record at this offset.

        A leader that was deposed before the acknowledgement, and has not received the new metadata, may lack it.
        """
        since = self.acknowledged_in.get(key, {}).get(offset)
        return since is not None and epoch >= since

    def compare(self, key: PartitionKey, offset: int, value: bytes | None) -> None:
        """Compare a record that was read with the ledger."""
        if value is not None:
            self.check_origin(key, offset, value)
        if key in self.forgiven:
            return
        known = self.records.get(key, {}).get(offset, value)
        assert known == value, f"S2: {key}: at {offset} there is {value!r}, and {known!r} was acknowledged"
        before = self.read.setdefault(key, {}).setdefault(offset, value)
        assert before == value, f"R15: {key}: at {offset} there is {value!r}, and {before!r} was read before"

    def check_origin(self, key: PartitionKey, offset: int, value: bytes) -> None:
        """Check that the value was sent to this partition and was not rejected."""
        place = self.sent.get(value)
        assert place == key, f"R18: {key}: at {offset} there is {value!r}, which was sent to {place}"
        assert value not in self.rejected, f"R17: {key}: at {offset} there is {value!r}, which was not appended"

    def forgive(self, key: PartitionKey) -> None:
        """Stop to require the partition's records."""
        self.forgiven.add(key)
        self.records.pop(key, None)
        self.acknowledged_in.pop(key, None)
        self.read.pop(key, None)

    def take_producer_id(self, producer_id: int) -> None:
        """Record an assigned producer id."""
        assert producer_id not in self.producer_ids, f"producer id {producer_id} was given out twice"
        self.producer_ids.add(producer_id)

    def lead(self, topic_id: UUID, index: int, epoch: int, leader: int) -> None:
        """Record the leader of a partition in a metadata response, which may be none."""
        key = topic_id, index
        self.epochs[key] = max(epoch, self.epochs.get(key, epoch))
        known = self.leaders.setdefault((*key, epoch), leader)
        assert known == leader, (
            f"R16: partition {index} of {topic_id} has two leaders in epoch {epoch}: {known}, {leader}"
        )

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged records in topics that still count."""
        return sum(len(self.records.get(key, ())) for _, key in self.partitions())

    def partitions(self) -> Iterator[tuple[str, PartitionKey]]:
        """Yield the partitions of all topics that count."""
        for name, (topic_id, count) in self.topics.items():
            for index in range(count):
                yield name, (topic_id, index)
