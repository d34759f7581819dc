"""Configured topology: subtopologies with their number of tasks, and the internal topics that must be created.

It is computed from the topology and the existing topics, whenever either has changed. It is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kwire.chunks import ITEMS_AT_ONCE, Pieces, mapped
from kwire.cluster.metadata.image import TopicImage
from kwire.cluster.topic_names import why_invalid
from kwire.coordinator.group.assignors.java_order import string_order_key, strings_in_order
from kwire.coordinator.group.streams.partition_counts import PartitionCounts
from kwire.coordinator.group.streams.statuses import Status, TopicsRejectedError, wrongly_partitioned
from kwire.coordinator.group.streams.topology import Subtopology, Topology, invalid_topology
from kwire.protocol.messages.streams_group_records import StreamsGroupTopologyTopic

NAMED_TOPICS_MAX = 3
"""Topics that a status names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """Repartition topic or changelog topic with its decided number of partitions."""

    name: str
    partitions: int
    replication_factor: int
    """0 for the broker's default."""
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredSubtopology:
    """Subtopology whose topics have decided numbers of partitions."""

    subtopology_id: str
    task_count: int
    source_topics: frozenset[str]
    repartition_sink_topics: frozenset[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    changelog_topics: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelog_topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTopology:
    """Configured topology of a group, or the reason why the topics do not fit."""

    topology_epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """Subtopologies by id, ascending; None if the topics do not fit."""
    missing: Mapping[str, InternalTopic]
    """Internal topics that must be created, by name."""
    rejection: TopicsRejectedError | None
    """Reason why tasks cannot be assigned; None if the topology is ready."""

    @property
    def is_ready(self) -> bool:
        return self.rejection is None


def configure_topology(topology: Topology, topics: Mapping[str, TopicImage]) -> Pieces[ConfiguredTopology]:
    """Return the topology with numbers of partitions and tasks. Raises STREAMS_INVALID_TOPOLOGY."""
    configured: dict[str, ConfiguredSubtopology] = {}
    try:
        _check_source_topics(topology, topics)
        yield
        counts = PartitionCounts(topology, topics)
        yield from counts.decide()
        for subtopology_id in sorted(topology.subtopologies, key=string_order_key):
            configured[subtopology_id] = yield from _configured(topology.subtopologies[subtopology_id], counts)
            if len(configured) % ITEMS_AT_ONCE == 0:
                yield
        missing = _missing_topics(configured, topology, topics)
        yield
    except TopicsRejectedError as error:
        return ConfiguredTopology(
            topology_epoch=topology.epoch, subtopologies=None, missing={}, rejection=error.with_traceback(None)
        )
    rejection = None
    if missing:
        text = f"Internal topics are missing: {_named(strings_in_order(missing))}"
        rejection = TopicsRejectedError(Status.MISSING_INTERNAL_TOPICS, text)
    return ConfiguredTopology(
        topology_epoch=topology.epoch, subtopologies=configured, missing=missing, rejection=rejection
    )


def _check_source_topics(topology: Topology, topics: Mapping[str, TopicImage]) -> None:
    names = {name for each in topology.subtopologies.values() for name in each.source_topics}
    missing = sorted((name for name in names if name not in topics), key=string_order_key)
    if missing:
        raise TopicsRejectedError(Status.MISSING_SOURCE_TOPICS, f"Source topics {_named(missing)} are missing.")


def _configured(subtopology: Subtopology, counts: PartitionCounts) -> Pieces[ConfiguredSubtopology]:
    repartition = yield from _internal_topics(subtopology.repartition_source_topics, counts)
    changelogs = yield from _internal_topics(subtopology.state_changelog_topics, counts)
    return ConfiguredSubtopology(
        subtopology_id=subtopology.subtopology_id,
        task_count=counts.count_tasks(subtopology),
        source_topics=frozenset(subtopology.source_topics),
        repartition_sink_topics=frozenset(subtopology.repartition_sink_topics),
        repartition_source_topics=repartition,
        changelog_topics=changelogs,
    )


def _internal_topics(
    topics: Sequence[StreamsGroupTopologyTopic], counts: PartitionCounts
) -> Pieces[dict[str, InternalTopic]]:
    made = yield from mapped(topics, partial(_internal_topic, counts))
    return {topic.name: topic for topic in made}


def _internal_topic(counts: PartitionCounts, topic: StreamsGroupTopologyTopic) -> InternalTopic:
    partitions = topic.partitions or counts.decided[topic.name]
    why = why_invalid(topic.name)
    if why:
        raise invalid_topology(f"Topic name is invalid: {why}")
    if partitions < 1:
        raise invalid_topology(f"Number of partitions of topic {topic.name} must be at least 1.")
    return InternalTopic(
        name=topic.name,
        partitions=partitions,
        replication_factor=topic.replication_factor,
        configs={each.key: each.value for each in topic.topic_configs},
    )


def _missing_topics(
    configured: Mapping[str, ConfiguredSubtopology], topology: Topology, topics: Mapping[str, TopicImage]
) -> dict[str, InternalTopic]:
    """Return the internal topics that do not exist. Raises TopicsRejectedError for existing ones of another size."""
    expected: dict[str, InternalTopic] = {}
    for subtopology in configured.values():
        expected.update(subtopology.repartition_source_topics)
        expected.update(subtopology.changelog_topics)
    for name in topology.topics:
        if name not in topics or name not in expected:
            continue
        found, wanted = len(topics[name].partitions), expected.pop(name).partitions
        if found != wanted:
            raise wrongly_partitioned(
                f"Existing topic {name} has different number of partitions: expected {wanted}, found {found}"
            )
    return expected


def _named(topics: Sequence[str]) -> str:
    """Return the first topics, and the number of the others."""
    rest = len(topics) - NAMED_TOPICS_MAX
    return ", ".join(topics[:NAMED_TOPICS_MAX]) + (f" and {rest} additional topics" if rest > 0 else "")


def read_topics(subtopology: ConfiguredSubtopology) -> list[str]:
    """Return the topics that the tasks of a subtopology read, ascending."""
    return sorted(subtopology.source_topics | subtopology.repartition_source_topics.keys())
