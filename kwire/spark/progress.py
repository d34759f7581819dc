"""Progress of an exactly-once sink: for each slot, the last batch that its transactions have committed.

A slot is one transactional producer of a query. Its progress is a record in the slot's own partition of a compacted
topic, written in the same transaction as the batch. Readers of committed records find it there, or do not find it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

TIMEOUT_SECONDS: Final = 30.0
TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.01",
}
"""Small segments that are compacted soon: only the last record of a slot counts."""
LOG_ERRORS: Final = 3
FIRST_SPAN: Final = 64
"""Offsets before the end of a slot's partition that are read first. Aborted transactions and markers take some."""
SPAN_FACTOR: Final = 16
DEFAULT_REPLICATION: Final = -1
"""The brokers' default.replication.factor."""


class ProgressError(Exception):
    """The progress in Kafka does not belong to this query, or cannot be read. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Last committed batch of a slot."""

    query_id: str
    """Spark's id of the query, which its checkpoint keeps."""
    batch: int
    slots: int
    """Number of slots with which the batch was written."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def check_query(self, sink: str, query_id: str) -> None:
        """Raises ProgressError if the progress belongs to another query."""
        if self.query_id != query_id:
            raise ProgressError(
                f"sink {sink}: its progress belongs to query {self.query_id}, but this is query {query_id}; "
                "use the former checkpoint, or another name for the sink"
            )

    @classmethod
    def decode(cls, value: bytes) -> Progress:
        """Raises ProgressError."""
        try:
            return cls(**json.loads(value))
        except (ValueError, TypeError) as error:
            raise ProgressError(f"a record of the progress topic is not the progress of a slot: {error}") from None


def read_progress(config: Mapping[str, Any], topic: str, slot: int) -> Progress | None:
    """Return the committed progress of a slot, None without any. Raises KafkaException and ProgressError."""
    consumer = Consumer(
        {
            **config,
            "group.id": topic,  # required by librdkafka; no offset is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": LOG_ERRORS,  # `config` has properties of producers too, which librdkafka would warn of
        }
    )
    place = TopicPartition(topic, slot)
    try:
        low, high = consumer.get_watermark_offsets(place, TIMEOUT_SECONDS)
        span = FIRST_SPAN
        while True:
            start = max(low, high - span)
            last = _last_value(consumer, TopicPartition(topic, slot, start))
            if last is not None:
                return Progress.decode(last)
            if start == low:
                return None
            span *= SPAN_FACTOR
    finally:
        consumer.close()


def _last_value(consumer: Consumer, start: TopicPartition) -> bytes | None:
    """Return the value of the last committed record from an offset, None without any."""
    consumer.assign([start])
    last: bytes | None = None
    while True:
        message = consumer.poll(TIMEOUT_SECONDS)
        if message is None:
            raise ProgressError(f"{start.topic}-{start.partition}: no response within {TIMEOUT_SECONDS:g} s")
        error = message.error()
        if error is None:
            last = message.value()
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 the name of librdkafka's code
            return last
        else:
            raise KafkaException(error)


def ensure_topic(config: Mapping[str, Any], topic: str, slots: int) -> int:
    """Create the progress topic, or give it a partition for each slot; return its partitions. Raises KafkaException."""
    admin = AdminClient(dict(config))
    new = NewTopic(topic, num_partitions=slots, replication_factor=DEFAULT_REPLICATION, config=dict(TOPIC_CONFIG))
    try:
        admin.create_topics([new])[topic].result(TIMEOUT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    else:
        return slots
    found = admin.list_topics(topic, TIMEOUT_SECONDS).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    if len(found.partitions) < slots:
        admin.create_partitions([NewPartitions(topic, slots)])[topic].result(TIMEOUT_SECONDS)
    return max(slots, len(found.partitions))
