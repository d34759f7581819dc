"""Committed offsets of all groups in one shard.

Offsets in a transaction are pending until its marker. An abort marker drops them. A commit marker commits each one,
unless the partition already has a committed offset whose record is later in the log than the pending one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from kwire.coordinator.group.records import OffsetAndMetadata, committed_offset
from kwire.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from kwire.protocol.records import NO_PRODUCER_ID

TopicOffsets = dict[str, dict[int, OffsetAndMetadata]]
"""Offset by topic and partition; contains no empty dictionaries."""

V = TypeVar("V")

_NOTHING: Mapping[str, dict[int, Any]] = {}


class Offsets:
    """Committed offsets by group id, topic and partition; changed by replay only."""

    def __init__(self) -> None:
        self._committed: dict[str, TopicOffsets] = {}
        self._pending: dict[int, dict[str, TopicOffsets]] = {}
        """Offsets in open transactions, by producer id."""
        self._producers: dict[str, dict[str, dict[int, set[int]]]] = {}
        """Producer ids of the pending offsets, by group id, topic and partition; contains no empty collections."""
        self._groups_of_topic: dict[str, dict[str, None]] = {}
        """Groups that have, or had, an offset of a topic in this shard, by topic."""

    # --- questions

    def by_topic(self, group_id: str) -> Mapping[str, Mapping[int, OffsetAndMetadata]]:
        return self._committed.get(group_id, _NOTHING)

    def find(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        return self._committed.get(group_id, _NOTHING).get(topic, {}).get(partition)

    def partitions_of_group(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Return the partitions for which the group has a committed or pending offset."""
        found: dict[tuple[str, int], None] = {}
        for topics in (self.by_topic(group_id), self._producers.get(group_id, _NOTHING)):
            for topic, partitions in topics.items():
                for partition in partitions:
                    found[topic, partition] = None
        return iter(found)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return True if an open transaction contains this offset."""
        return partition in self._producers.get(group_id, _NOTHING).get(topic, {})

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._producers

    def partitions_of_topic(self, topic: str) -> Iterator[tuple[str, int]]:
        """Return (group, partition) of each committed or pending offset of the topic."""
        found: dict[tuple[str, int], None] = {}
        for group_id in self._groups_of_topic.get(topic, ()):
            for topics in (self.by_topic(group_id), self._producers.get(group_id, _NOTHING)):
                for partition in topics.get(topic, ()):
                    found[group_id, partition] = None
        return iter(found)

    # --- replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int) -> None:
        group_id, topic, partition = key.group, key.topic, key.partition
        if value is None:
            for each in self._producers.get(group_id, _NOTHING).get(topic, {}).get(partition, ()):
                _remove(self._pending[each], group_id, topic, partition)
            _remove(self._committed, group_id, topic, partition)
            _remove(self._producers, group_id, topic, partition)
            self._remove_group_of_topic(group_id, topic)
            return
        self._groups_of_topic.setdefault(topic, {})[group_id] = None
        committed = committed_offset(value, offset)
        if producer_id == NO_PRODUCER_ID:
            _put(self._committed, group_id, topic, partition, committed)
            return
        _put(self._pending.setdefault(producer_id, {}), group_id, topic, partition, committed)
        if not self.is_pending(group_id, topic, partition):
            _put(self._producers, group_id, topic, partition, set())
        self._producers[group_id][topic][partition].add(producer_id)

    def _remove_group_of_topic(self, group_id: str, topic: str) -> None:
        if topic in self.by_topic(group_id) or topic in self._producers.get(group_id, _NOTHING):
            return
        groups = self._groups_of_topic.get(topic, {})
        groups.pop(group_id, None)
        if not groups:
            self._groups_of_topic.pop(topic, None)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    self._remove_producer(group_id, topic, partition, producer_id)
                    present = self.find(group_id, topic, partition)
                    if is_commit and (present is None or present.record_offset < committed.record_offset):
                        _put(self._committed, group_id, topic, partition, committed)
                if not is_commit:
                    self._remove_group_of_topic(group_id, topic)

    def _remove_producer(self, group_id: str, topic: str, partition: int, producer_id: int) -> None:
        producers = self._producers[group_id][topic][partition]
        producers.remove(producer_id)
        if not producers:
            _remove(self._producers, group_id, topic, partition)


def _put(groups: dict[str, dict[str, dict[int, V]]], group_id: str, topic: str, partition: int, value: V) -> None:
    groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = value


def _remove(groups: dict[str, dict[str, dict[int, V]]], group_id: str, topic: str, partition: int) -> None:
    topics = groups.get(group_id)
    partitions = topics.get(topic) if topics is not None else None
    if topics is None or partitions is None or partitions.pop(partition, None) is None:
        return
    if not partitions:
        del topics[topic]
    if not topics:
        del groups[group_id]
