"""Offsets of Spark's Kafka source in the progress of a query: where a batch ended, and how far the topics went."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

KAFKA_SOURCE: Final = "KafkaV2["
"""Beginning of the source's description."""


class PartitionOffsets(NamedTuple):
    """Offsets of one partition after a batch."""

    topic: str
    partition: int
    end: int
    """Offset of the next record that the query will read."""
    latest: int
    """Offset of the next record that producers will write, when the batch was planned."""

    @property
    def lag(self) -> int:
        """Number of offsets that the query has not read. It includes transaction markers and removed records."""
        return max(0, self.latest - self.end)


def partition_offsets(progress: Mapping[str, Any]) -> Iterator[PartitionOffsets]:
    """Return the partitions of all Kafka sources in a progress, in the form of Spark's JSON."""
    for source in progress.get("sources", ()):
        if not source.get("description", "").startswith(KAFKA_SOURCE):
            continue
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for topic, partitions in end.items():
            for partition, offset in partitions.items():
                newest = latest.get(topic, {}).get(partition, offset)
                yield PartitionOffsets(topic, int(partition), offset, newest)


def _offsets(value: Any) -> dict[str, dict[str, int]]:
    """Return offsets by topic and partition; they are JSON in a string or parsed already."""
    found = json.loads(value) if isinstance(value, str) else value
    return found if isinstance(found, dict) else {}
