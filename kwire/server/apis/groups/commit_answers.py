"""Common code of OffsetCommit, TxnOffsetCommit and OffsetDelete: existing partitions, and merged results."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Protocol, TypeVar

from kwire.chunks import Pieces, chunks
from kwire.cluster.metadata.image import TopicImage


class Indexed(Protocol):
    """Partition of a request."""

    partition_index: int


class AnsweredTopic(Protocol):
    """Topic of a response."""

    name: str
    partitions: list[Any]


P = TypeVar("P", bound=Indexed)
A = TypeVar("A", bound=AnsweredTopic)


def split(partitions: Iterable[P], topic: TopicImage | None) -> tuple[list[P], list[P]]:
    """Return (partitions that exist, partitions that do not)."""
    count = 0 if topic is None else len(topic.partitions)
    known: list[P] = []
    unknown: list[P] = []
    for partition in partitions:
        (known if 0 <= partition.partition_index < count else unknown).append(partition)
    return known, unknown


def joined(parts: Iterable[Iterable[A]]) -> Pieces[list[A]]:
    """Return one entry for each topic of a response that was made in parts; yield after some of them."""
    topics: dict[tuple[str, Any], A] = {}
    for some in chunks(chain.from_iterable(parts)):
        for topic in some:
            known = topics.setdefault((topic.name, getattr(topic, "topic_id", None)), topic)
            if known is not topic:
                known.partitions += topic.partitions
        yield
    return list(topics.values())


def merged(rejected: list[A], committed: list[A]) -> list[A]:
    """Return one entry for each topic, also if some of its partitions were rejected and others committed."""
    if not rejected:
        return committed
    by_name = {topic.name: topic for topic in rejected if topic.name}
    for topic in committed:
        if (present := by_name.get(topic.name)) is not None:
            present.partitions += topic.partitions
    return rejected + [topic for topic in committed if topic.name not in by_name]
