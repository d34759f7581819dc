"""Numbers of partitions of a topology's internal topics: repartition topics and changelog topics.

1. A repartition topic has the number in the topology, if it is fixed there. Otherwise it has the largest number of the
   source topics of a subtopology that writes to it.
2. The topics of a copartition group get the same number of partitions.
3. A changelog topic has as many partitions as its subtopology has tasks.

The number of an existing topic always counts, so that a topic of the wrong size is found. The steps and their order
are those of Kafka 4.3.1, because a number may depend on the order of the subtopologies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from kwire.chunks import CHUNK, Pieces
from kwire.cluster.metadata.image import TopicImage
from kwire.coordinator.group.assignors.java_order import strings_in_order
from kwire.coordinator.group.streams.statuses import wrongly_partitioned
from kwire.coordinator.group.streams.topology import Subtopology, Topology, invalid_topology, source_topics


class PartitionCounts:
    """Numbers of partitions: those of existing topics, and those that are decided for internal topics."""

    def __init__(self, topology: Topology, topics: Mapping[str, TopicImage]) -> None:
        self._topology = topology
        self._topics = topics
        self.decided: dict[str, int] = {}
        """Number by internal topic, including topics that exist."""

    def decide(self) -> Pieces[None]:
        """Decide the numbers. Raises STREAMS_INVALID_TOPOLOGY, or TopicsRejectedError for topics that do not fit."""
        subtopologies = self._topology.subtopologies.values()
        self.decided.update(_repartition_counts(subtopologies, self._topics))
        yield
        yield from self._enforce_copartitioning(subtopologies)
        for number, subtopology in enumerate(subtopologies, 1):
            if number % CHUNK == 0:
                yield
            count = self.count_tasks(subtopology)
            self.decided.update(dict.fromkeys((topic.name for topic in subtopology.state_changelog_topics), count))

    def of(self, topic: str) -> int:
        """Return the number of partitions of a topic: the existing number, or else the decided one."""
        image = self._topics.get(topic)
        count = self.decided.get(topic) if image is None else len(image.partitions)
        if count is None:
            raise invalid_topology(f"Number of partitions is not set for topic: {topic}")
        return count

    def count_tasks(self, subtopology: Subtopology) -> int:
        """Return the number of tasks: the largest number of partitions of the source topics."""
        names = source_topics(subtopology)
        if not names:
            raise invalid_topology(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(map(self.of, names))

    # --- copartitioned topics

    def _enforce_copartitioning(self, subtopologies: Collection[Subtopology]) -> Pieces[None]:
        repartition = [topic for each in subtopologies for topic in each.repartition_source_topics]
        fixed = {topic.name for topic in repartition if topic.partitions}
        flexible = {topic.name for topic in repartition if not topic.partitions}
        for subtopology in subtopologies:
            for group in _copartition_groups(subtopology):
                self.decided.update(self._copartitioned(group, fixed, flexible))
                yield

    def _copartitioned(self, group: Collection[str], fixed: set[str], flexible: set[str]) -> Mapping[str, int]:
        """Return the number of partitions of each repartition topic in a copartition group."""
        repartition = {name: self.of(name) for name in group if name in fixed or name in flexible}
        others = {name: self.of(name) for name in group if name not in repartition}
        if not group:
            return {}
        if others:
            count = _same_count(others, others)
        elif fixed:
            # As in Kafka, all fixed repartition topics of the topology count, not only those of the group.
            count = _same_count({name: self.of(name) for name in fixed}, repartition)
        else:
            count = max(repartition.values())
        for name in strings_in_order(repartition):
            if name in fixed and repartition[name] != count:
                raise wrongly_partitioned(
                    f"Number of partitions [{repartition[name]}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic."
                )
        return dict.fromkeys(repartition, count)


def _same_count(counts: Mapping[str, int], named: Mapping[str, int]) -> int:
    """Return the number of partitions that all topics have; the error names other topics with their numbers."""
    count = next(iter(counts.values()))
    if any(each != count for each in counts.values()):
        listed = ", ".join(f"{name}={named[name]}" for name in sorted(named))
        raise wrongly_partitioned(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return count


def _copartition_groups(subtopology: Subtopology) -> list[list[str]]:
    """Return the names of the topics of each copartition group, in the order of Kafka's HashSet."""
    sources, repartition = subtopology.source_topics, subtopology.repartition_source_topics
    groups = []
    for group in subtopology.copartition_groups:
        if not _are_indices(group.source_topics, sources) or not _are_indices(
            group.repartition_source_topics, repartition
        ):
            raise invalid_topology(f"A copartition group of subtopology {subtopology.subtopology_id} names no topic.")
        names = [sources[index] for index in group.source_topics]
        names += [repartition[index].name for index in group.repartition_source_topics]
        groups.append(strings_in_order(dict.fromkeys(names)))
    return groups


def _are_indices(indices: Iterable[int], items: Sequence[object]) -> bool:
    return all(0 <= index < len(items) for index in indices)


# --- repartition topics


def _repartition_counts(subtopologies: Iterable[Subtopology], topics: Mapping[str, TopicImage]) -> dict[str, int]:
    """Return the number of partitions of each topic that a subtopology writes to, and of those with a fixed number.

    Kafka visits the subtopologies in passes, until all numbers are known. A subtopology decides in the first pass in
    which the number of one of its source topics is known. Here a queue contains the next visits, by pass and index.
    """
    ordered = list(subtopologies)
    counts = {
        topic.name: topic.partitions for each in ordered for topic in each.repartition_source_topics if topic.partitions
    }
    readers: dict[str, list[int]] = {}
    for index, subtopology in enumerate(ordered):
        for topic in subtopology.repartition_source_topics:
            readers.setdefault(topic.name, []).append(index)
    visits: list[tuple[int, int]] = [
        (0, index) for index, each in enumerate(ordered) if _known_count(each, counts, topics) is not None
    ]
    visited: set[int] = set()
    while visits:
        step, index = heappop(visits)
        if index in visited:
            continue
        visited.add(index)
        for sink in ordered[index].repartition_sink_topics:
            if sink not in counts:
                count = _known_count(ordered[index], counts, topics)
                assert count is not None, "a subtopology is visited when a source topic is known"
                counts[sink] = count
                for reader in readers.get(sink, ()):
                    heappush(visits, (step if reader > index else step + 1, reader))
    _check_all_known(ordered, counts)
    return counts


def _known_count(subtopology: Subtopology, counts: Mapping[str, int], topics: Mapping[str, TopicImage]) -> int | None:
    """Return the largest known number of partitions of the source topics, None if none is known."""
    known = [counts[topic.name] for topic in subtopology.repartition_source_topics if topic.name in counts]
    known += [len(topics[name].partitions) for name in subtopology.source_topics if name in topics]
    return max(known, default=None)


def _check_all_known(subtopologies: Collection[Subtopology], counts: Mapping[str, int]) -> None:
    if any(sink not in counts for each in subtopologies for sink in each.repartition_sink_topics):
        raise invalid_topology(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
            "that cannot be resolved."
        )
    if any(topic.name not in counts for each in subtopologies for topic in each.repartition_source_topics):
        raise invalid_topology(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
