"""Random topologies of streams groups, in the language of the scripts, with topics that exist or are missing."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from kwire.chunks import at_once
from kwire.coordinator.group.streams.configured_topology import ConfiguredTopology, InternalTopic, configure_topology
from kwire.coordinator.group.streams.topology import topology_of, topology_value
from kwire.protocol.error_codes import KafkaError
from tests.coordinator import streams_script
from tests.coordinator.world import topic_image

IDS = ("0", "1", "2", "10", "sub-3", "Aa", "BB", "AaAa", "BBBB", "AaBB", "x1", "x17")
COUNTS = (1, 2, 2, 3, 4, 4, 6)


class DrawnTopology(NamedTuple):
    """Topology, and the number of partitions of each topic that exists."""

    topics: dict[str, int]
    subtopologies: dict[str, str]


def drawn_topology(seed: int) -> DrawnTopology:
    random = Random(seed)
    same = random.choice(COUNTS) if random.random() < 0.6 else 0
    """Number of partitions of most topics, so that copartitioned topics often fit; 0 for random numbers."""

    def count() -> int:
        return same if same and random.random() < 0.9 else random.choice(COUNTS)

    topics = {f"in{number}": count() for number in range(4)}
    repartition = [f"rep{number}" for number in range(random.choice((0, 1, 2, 5)))]
    fixed = {name: count() for name in repartition if random.random() < 0.3}
    subtopologies = {}
    written: set[str] = set()
    for number, name in enumerate(random.sample(IDS, random.choice((1, 2, 4, 8)))):
        items = [f"in{index}" for index in range(4) if random.random() < 0.3]
        if random.random() < 0.03:
            items.append("gone")
        reads = [each for each in repartition if random.random() < 0.35]
        items += [f"<{each}*{fixed[each]}" if each in fixed else f"<{each}" for each in reads]
        if not items and random.random() < 0.95:
            items.append("in0")
        sources = [each.strip("<").partition("*")[0] for each in items]
        for _ in range(random.choice((0, 0, 1, 2))):
            group = [each for each in dict.fromkeys(sources) if random.random() < 0.6]
            items += [f"+{'+'.join(group)}"] if group else []
        writes = [each for each in repartition if random.random() < 0.35]
        written.update(writes)
        items += [f">{each}" for each in writes]
        items += [f"!log{number}-{index}" for index in range(random.choice((0, 0, 1, 3)))]
        subtopologies[name] = "/".join(items) or "in1"
    for each in (*repartition, *(f"log{number}-{index}" for number in range(8) for index in range(3))):
        if random.random() < 0.15:
            topics[each] = count()
    last = next(reversed(subtopologies))
    if random.random() < 0.8:
        subtopologies[last] += "".join(f"/>{each}" for each in repartition if each not in written)
    return DrawnTopology(topics, subtopologies)


def configured(drawn: DrawnTopology) -> str:
    """Return the configured topology as text, or the error."""
    images = {name: topic_image(name, number, drawn.topics[name]) for number, name in enumerate(drawn.topics)}
    try:
        topology = topology_of(at_once(topology_value(streams_script.topology_of(drawn.subtopologies, 0))))
        return _shown(at_once(configure_topology(topology, images)))
    except KafkaError as error:
        return f"failed: {error.message}"


def _shown(topology: ConfiguredTopology) -> str:
    rejection = topology.rejection
    status = "ready" if rejection is None else f"{rejection.status.name} {rejection.message}"
    subtopologies = "none"
    if topology.subtopologies is not None:
        subtopologies = " ".join(
            f"{name}:{each.task_count}:{_topics(each.repartition_source_topics)}:{_topics(each.changelog_topics)}"
            for name, each in topology.subtopologies.items()
        )
    return f"{status}|{subtopologies}|{_topics(topology.missing)}"


def _topics(topics: Mapping[str, InternalTopic]) -> str:
    return ",".join(f"{name}*{topics[name].partitions}" for name in sorted(topics))
