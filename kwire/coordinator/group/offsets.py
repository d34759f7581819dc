"""Committed offsets of all groups in one shard.

Offsets in a transaction are pending until its marker. An abort marker drops them. A commit marker commits each one,
unless the partition already has a committed offset whose record is later in the log than the pending one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kwire.coordinator.group.records import OffsetAndMetadata, committed_offset
from kwire.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from kwire.protocol.records import NO_PRODUCER_ID

TopicOffsets = dict[str, dict[int, OffsetAndMetadata]]
"""Offset by topic and partition; contains no empty dictionaries."""

_NOTHING: Mapping[str, dict[int, OffsetAndMetadata]] = {}


class Offsets:
    """Committed offsets by group id, topic and partition; changed by replay only."""

    def __init__(self) -> None:
        self._committed: dict[str, TopicOffsets] = {}
        self._pending: dict[int, dict[str, TopicOffsets]] = {}
        """Offsets in open transactions, by producer id."""
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
        for groups in (self._committed, *self._pending.values()):
            for topic, partitions in groups.get(group_id, _NOTHING).items():
                for partition in partitions:
                    found[topic, partition] = None
        return iter(found)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return True if an open transaction contains this offset."""
        return any(partition in groups.get(group_id, _NOTHING).get(topic, {}) for groups in self._pending.values())

    def has_open_transaction(self, group_id: str) -> bool:
        return any(group_id in groups for groups in self._pending.values())

    def partitions_of_topic(self, topic: str) -> Iterator[tuple[str, int]]:
        """Return (group, partition) of each committed or pending offset of the topic."""
        found: dict[tuple[str, int], None] = {}
        for group_id in self._groups_of_topic.get(topic, ()):
            for groups in (self._committed, *self._pending.values()):
                for partition in groups.get(group_id, _NOTHING).get(topic, ()):
                    found[group_id, partition] = None
        return iter(found)

    # --- replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int) -> None:
        if value is None:
            for groups in (self._committed, *self._pending.values()):
                _remove(groups, key.group, key.topic, key.partition)
            self._remove_group_of_topic(key.group, key.topic)
            return
        self._groups_of_topic.setdefault(key.topic, {})[key.group] = None
        groups = self._committed if producer_id == NO_PRODUCER_ID else self._pending.setdefault(producer_id, {})
        _put(groups, key.group, key.topic, key.partition, committed_offset(value, offset))

    def _remove_group_of_topic(self, group_id: str, topic: str) -> None:
        if any(topic in groups.get(group_id, _NOTHING) for groups in (self._committed, *self._pending.values())):
            return
        groups = self._groups_of_topic.get(topic, {})
        groups.pop(group_id, None)
        if not groups:
            self._groups_of_topic.pop(topic, None)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return
        if not is_commit:
            for group_id, topics in pending.items():
                for topic in topics:
                    self._remove_group_of_topic(group_id, topic)
            return
        for group_id, topics in pending.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    present = self.find(group_id, topic, partition)
                    if present is None or present.record_offset < committed.record_offset:
                        _put(self._committed, group_id, topic, partition, committed)


def _put(
    groups: dict[str, TopicOffsets], group_id: str, topic: str, partition: int, committed: OffsetAndMetadata
) -> None:
    groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed


def _remove(groups: dict[str, TopicOffsets], group_id: str, topic: str, partition: int) -> None:
    topics = groups.get(group_id)
    partitions = topics.get(topic) if topics is not None else None
    if topics is None or partitions is None or partitions.pop(partition, None) is None:
        return
    if not partitions:
        del topics[topic]
    if not topics:
        del groups[group_id]
