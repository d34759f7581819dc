"""Topics and checkpoints of a round as they are: committed records, first offsets, and how far each query is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

TIMEOUT_SECONDS = 30.0
LOG_ERRORS = 2
"""librdkafka's log level: brokers that do not respond are part of a round."""

Offsets = Mapping[int, int]
"""Offset by partition."""
Ranges = list[tuple[Offsets, Offsets]]
"""First offsets and end of each batch."""


class Found(NamedTuple):
    """Record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: Mapping[str, bytes | None]


def client_of(bootstrap: str) -> dict[str, Any]:
    """Return librdkafka's properties of the campaign's own clients."""
    return {"bootstrap.servers": bootstrap, "log_level": LOG_ERRORS}


def committed(bootstrap: str, topic: str) -> list[Found]:
    """Return all committed records of a topic, up to its last stable offsets. Raises KafkaException."""
    consumer = Consumer(
        {
            **client_of(bootstrap),
            "group.id": "check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics(topic, TIMEOUT_SECONDS).topics[topic].partitions
        places = [TopicPartition(topic, each) for each in partitions]
        starts = [consumer.get_watermark_offsets(place, TIMEOUT_SECONDS)[0] for place in places]
        consumer.assign([TopicPartition(topic, it.partition, start) for it, start in zip(places, starts, strict=True)])
        found, ended = [], set()
        while len(ended) < len(partitions):
            message = consumer.poll(TIMEOUT_SECONDS)
            if message is None:
                raise AssertionError(f"{topic}: no response within {TIMEOUT_SECONDS:g} s")
            error = message.error()
            if error is None:
                headers = dict(message.headers() or ())
                value = message.value() or b""
                found.append(Found(message.partition(), message.offset(), message.key(), value, headers))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 the name of librdkafka's code
                ended.add(message.partition())
            elif not error.retriable():
                raise KafkaException(error)
    finally:
        consumer.close()
    return sorted(found, key=lambda each: each[:2])


def bounds(bootstrap: str, topic: str, partitions: int) -> list[tuple[int, int]]:
    """Return the first offset and the high watermark of each partition. Raises KafkaException."""
    consumer = Consumer({**client_of(bootstrap), "group.id": "check"})
    try:
        places = [TopicPartition(topic, each) for each in range(partitions)]
        return [consumer.get_watermark_offsets(place, TIMEOUT_SECONDS) for place in places]
    finally:
        consumer.close()


def numbers_in(directory: Path) -> list[int]:
    """Return the numbers of the batches in a directory of a checkpoint."""
    return sorted(int(path.name) for path in directory.glob("[0-9]*") if path.name.isdigit())


def planned_batches(checkpoint: Path, query: str, topic: str) -> list[Offsets]:
    """Return the end offsets of each batch of a query that has begun."""
    folder = checkpoint / query / "offsets"
    return [_offsets(folder / str(number), topic) for number in numbers_in(folder)]


def read_by(checkpoint: Path, query: str, topic: str) -> Offsets:
    """Return the end offsets of the last batch that a query has committed; none before its first batch."""
    commits = numbers_in(checkpoint / query / "commits")
    return _offsets(checkpoint / query / "offsets" / str(commits[-1]), topic) if commits else {}


def _offsets(path: Path, topic: str) -> Offsets:
    text = path.read_text().splitlines()[-1]
    return {int(partition): offset for partition, offset in json.loads(text)[topic].items()}
