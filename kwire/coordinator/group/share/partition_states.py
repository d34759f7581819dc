"""Partitions of a share group by the state of their initialization at the share coordinator.

A partition is assigned after the share coordinator has created its state: initializing -> initialized. A topic whose
state is being deleted is `deleting`. An initialization that brings no result is repeated after
group.share.initialize.retry.interval.ms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.wall_time import is_over

UNKNOWN_TOPIC = "<UNKNOWN>"

TopicPartitions = Mapping[UUID, Iterable[int]]


@dataclass(frozen=True, slots=True)
class TopicStates:
    """Partitions of one topic."""

    name: str
    partitions: frozenset[int]
    timestamp_ms: int
    """Wall-clock time at which the record was written or replayed."""


TopicsById = Mapping[UUID, TopicStates]


@dataclass(frozen=True, slots=True)
class PartitionStates:
    """Partitions by state; immutable, each change makes a new one."""

    initializing: TopicsById = field(default_factory=dict)
    initialized: TopicsById = field(default_factory=dict)
    deleting: frozenset[UUID] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not (self.initializing or self.initialized or self.deleting)

    def missing(
        self, topics: Iterable[str], image: MetadataImage, now_ms: int, retry_interval_ms: int
    ) -> dict[UUID, TopicStates]:
        """Return the partitions of existing topics that are not initialized, and not lately being initialized."""
        found: dict[UUID, TopicStates] = {}
        for name in topics:
            topic = image.topics.get(name)
            if topic is None:
                continue
            present = self.initialized[topic.topic_id].partitions if topic.topic_id in self.initialized else frozenset()
            pending = self.initializing.get(topic.topic_id)
            if pending is not None and not is_over(retry_interval_ms, since_ms=pending.timestamp_ms, now_ms=now_ms):
                present |= pending.partitions
            if len(present) < len(topic.partitions):
                partitions = frozenset(range(len(topic.partitions))) - present
                found[topic.topic_id] = TopicStates(name, partitions, now_ms)
        return found

    def with_initializing(self, topics: TopicsById, image: MetadataImage) -> PartitionStates:
        """Return the states while these partitions are being initialized.

        If the deletion of a topic has failed, its other partitions may still have a state. They count as being
        initialized as well.
        """
        undeleted = {topic_id: topic for topic_id, topic in self._undeleted(image).items() if topic_id in topics}
        initializing = _merged(self.initializing, _merged(undeleted, topics))
        return PartitionStates(initializing, self.initialized, self.deleting.difference(topics.keys()))

    def with_initialized(self, partitions: TopicPartitions, image: MetadataImage, now_ms: int) -> PartitionStates:
        """Return the states after the share coordinator has initialized these partitions.

        A topic that was deleted meanwhile is not added: it would stay forever.
        """
        added = {
            topic_id: TopicStates(image.topic_names[topic_id], frozenset(indexes), now_ms)
            for topic_id, indexes in partitions.items()
            if topic_id in image.topic_names
        }
        return PartitionStates(_without(self.initializing, partitions), _merged(self.initialized, added), self.deleting)

    def without_initializing(self, partitions: TopicPartitions) -> PartitionStates:
        """Return the states after an initialization that certainly had no effect."""
        return dataclasses.replace(self, initializing=_without(self.initializing, partitions))

    def with_deleting(self, topic_ids: Iterable[UUID]) -> PartitionStates:
        """Return the states while the share coordinator deletes those of these initialized topics."""
        chosen = frozenset(topic_ids)
        initialized = {topic_id: each for topic_id, each in self.initialized.items() if topic_id not in chosen}
        return PartitionStates(self.initializing, initialized, self.deleting | chosen)

    def with_all_deleting(self, image: MetadataImage) -> PartitionStates:
        """Return the states while the share coordinator deletes all of them."""
        return PartitionStates({}, {}, frozenset(self.partitions(image)))

    def deleted_topics(self, image: MetadataImage) -> frozenset[UUID]:
        """Return the topics that do not exist any more."""
        known = self.initializing.keys() | self.initialized.keys() | self.deleting
        return frozenset(topic_id for topic_id in known if topic_id not in image.topic_names)

    def without_topics(self, topic_ids: frozenset[UUID]) -> PartitionStates:
        """Return the states without topics that were deleted."""
        return PartitionStates(
            {topic_id: each for topic_id, each in self.initializing.items() if topic_id not in topic_ids},
            {topic_id: each for topic_id, each in self.initialized.items() if topic_id not in topic_ids},
            self.deleting - topic_ids,
        )

    def partitions(self, image: MetadataImage) -> dict[UUID, TopicStates]:
        """Return all partitions that have a state, or may have one."""
        return _merged(_merged(self.initialized, self.initializing), self._undeleted(image))

    def _undeleted(self, image: MetadataImage) -> dict[UUID, TopicStates]:
        """Return the partitions whose states are being deleted, as far as their topics exist."""
        return {
            topic_id: TopicStates(topic.name, frozenset(range(len(topic.partitions))), -1)
            for topic_id in self.deleting
            if (topic := image.topic_by_id(topic_id)) is not None
        }

    def named_deleting(self, image: MetadataImage) -> dict[UUID, str]:
        return {topic_id: _name(topic_id, image) for topic_id in self.deleting}


def _merged(one: TopicsById, other: TopicsById) -> dict[UUID, TopicStates]:
    merged = dict(one)
    for topic_id, topic in other.items():
        present = one[topic_id].partitions if topic_id in one else frozenset()
        merged[topic_id] = TopicStates(topic.name, present | topic.partitions, topic.timestamp_ms)
    return merged


def _without(topics: TopicsById, partitions: TopicPartitions) -> dict[UUID, TopicStates]:
    remaining: dict[UUID, TopicStates] = {}
    for topic_id, topic in topics.items():
        left = topic.partitions.difference(partitions.get(topic_id, ()))
        if left:
            remaining[topic_id] = TopicStates(topic.name, left, topic.timestamp_ms)
    return remaining


def _name(topic_id: UUID, image: MetadataImage) -> str:
    return image.topic_names.get(topic_id, UNKNOWN_TOPIC)
