"""Topology of a streams group: its subtopologies with their topics, as the first member sent it and as it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kwire.chunks import ITEMS_AT_ONCE, Pieces, mapped, mapped_in_pieces
from kwire.coordinator.group.assignors.java_order import strings_in_order
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTopicInfo,
    StreamsGroupHeartbeatTopology,
)
from kwire.protocol.messages.streams_group_records import (
    StreamsGroupTopologyCopartitionGroup,
    StreamsGroupTopologySubtopology,
    StreamsGroupTopologyTopic,
    StreamsGroupTopologyTopicConfig,
    StreamsGroupTopologyValue,
)

Subtopology = StreamsGroupTopologySubtopology
ELEMENTS_MAX = 10_000
"""Most elements of a topology, which are about 2,500 topics with their settings. Kafka has no limit of its own."""
NAME_CHARACTERS_MAX = 250_000
"""Most characters of all names in a topology: 100 for each of 2,500 topics. Their hashes take about 20 ms."""
SMALL = 200
"""Elements or topics of a topology that is processed at once: about 2 ms."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Topology of a streams group. Its messages are never changed."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    """Subtopologies by id, in the order of Kafka's HashMap, on which decided numbers of partitions may depend."""
    sources: Mapping[str, str]
    """Subtopology id by source topic, repartition topics included."""
    topics: tuple[str, ...]
    """All topics that must exist: source, repartition and changelog topics, in the order of Kafka's HashSet."""


def invalid_topology(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def topology_of(value: StreamsGroupTopologyValue) -> Topology:
    """Return the topology in a record. Raises STREAMS_INVALID_TOPOLOGY."""
    if value.epoch < 0:
        raise invalid_topology("Topology epoch must be non-negative.")
    by_id = {each.subtopology_id: each for each in value.subtopologies}
    if len(by_id) < len(value.subtopologies):
        raise invalid_topology("Each subtopology must have another id.")
    sources: dict[str, str] = {}
    topics: dict[str, None] = {}
    ordered = {subtopology_id: by_id[subtopology_id] for subtopology_id in strings_in_order(by_id)}
    for subtopology_id, subtopology in ordered.items():
        names = source_topics(subtopology)
        sources.update(dict.fromkeys(names, subtopology_id))
        topics.update(dict.fromkeys(names))
        topics.update(dict.fromkeys(topic.name for topic in subtopology.state_changelog_topics))
    return Topology(value.epoch, ordered, sources, tuple(strings_in_order(topics)))


class WrittenTopology:
    """Topology whose record a shard is writing. The replay of the record follows at once, if it is written.

    To compute a large topology takes 20 ms, which the replay saves.
    """

    def __init__(self) -> None:
        self._kept: tuple[StreamsGroupTopologyValue, Topology] | None = None

    def keep(self, value: StreamsGroupTopologyValue, topology: Topology) -> None:
        """Keep a topology for the replay of its record."""
        self._kept = value, topology

    def replayed(self, value: StreamsGroupTopologyValue) -> Topology:
        """Return the topology in a record."""
        kept, self._kept = self._kept, None
        return topology_of(value) if kept is None or kept[0] is not value else kept[1]


def source_topics(subtopology: Subtopology) -> list[str]:
    """Return the topics that a subtopology reads: those of other applications, then its repartition topics."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def too_many_elements(count: int) -> str:
    """Return the reason why a topology with so many elements is rejected."""
    return f"The topology has {count} elements, and this broker accepts at most {ELEMENTS_MAX}."


def count_elements(topology: StreamsGroupHeartbeatTopology) -> int:
    """Return the number of array elements in a topology."""
    return sum(
        1
        + len(each.source_topics)
        + len(each.repartition_sink_topics)
        + sum(1 + len(topic.topic_configs) for topic in each.repartition_source_topics)
        + sum(1 + len(topic.topic_configs) for topic in each.state_changelog_topics)
        + sum(1 + len(group.source_topics) + len(group.repartition_source_topics) for group in each.copartition_groups)
        for each in topology.subtopologies
    )


def check_names(topology: StreamsGroupHeartbeatTopology) -> None:
    """Raise STREAMS_INVALID_TOPOLOGY if the names have too many characters to be stored."""
    count = sum(
        len(each.subtopology_id)
        + sum(map(len, (*each.source_topics, *each.repartition_sink_topics)))
        + sum(len(topic.name) for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
        for each in topology.subtopologies
    )
    if count > NAME_CHARACTERS_MAX:
        raise invalid_topology(
            f"The names in the topology have {count} characters, and this broker accepts at most {NAME_CHARACTERS_MAX}."
        )


def topology_value(topology: StreamsGroupHeartbeatTopology) -> Pieces[StreamsGroupTopologyValue]:
    """Return the record's value for the topology of a request."""
    subtopologies = yield from mapped_in_pieces(topology.subtopologies, _subtopology)
    return StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=subtopologies)


def _subtopology(each: StreamsGroupHeartbeatSubtopology) -> Pieces[StreamsGroupTopologySubtopology]:
    changelogs = yield from mapped(each.state_changelog_topics, _topic)
    repartition = yield from mapped(each.repartition_source_topics, _topic)
    return StreamsGroupTopologySubtopology(
        subtopology_id=each.subtopology_id,
        source_topics=list(each.source_topics),
        source_topic_regex=list(each.source_topic_regex),
        state_changelog_topics=changelogs,
        repartition_sink_topics=list(each.repartition_sink_topics),
        repartition_source_topics=repartition,
        copartition_groups=[
            StreamsGroupTopologyCopartitionGroup(
                source_topics=list(group.source_topics),
                source_topic_regex=list(group.source_topic_regex),
                repartition_source_topics=list(group.repartition_source_topics),
            )
            for group in each.copartition_groups
        ],
    )


def are_equal(some: Topology, other: Topology) -> Pieces[bool]:
    """Return True if both topologies have the same epoch and the same subtopologies."""
    if some.epoch != other.epoch or some.subtopologies.keys() != other.subtopologies.keys():
        return False
    for number, subtopology_id in enumerate(some.subtopologies, 1):
        if some.subtopologies[subtopology_id] != other.subtopologies[subtopology_id]:
            return False
        if number % ITEMS_AT_ONCE == 0:
            yield
    return True


def _topic(info: StreamsGroupHeartbeatTopicInfo) -> StreamsGroupTopologyTopic:
    return StreamsGroupTopologyTopic(
        name=info.name,
        partitions=info.partitions,
        replication_factor=info.replication_factor,
        topic_configs=[StreamsGroupTopologyTopicConfig(key=each.key, value=each.value) for each in info.topic_configs],
    )
