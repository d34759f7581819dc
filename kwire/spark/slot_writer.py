"""Writer of one slot: writes its part of a batch, and its progress, in one transaction.

The producer first fences all earlier producers of the slot, then reads the slot's progress. After that, another task
can commit in the slot only if it fences this producer. So a batch that the progress does not contain is not committed
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, Producer

from kwire.spark.progress import Progress, read_progress

FLUSH_RECORDS: Final = 10_000
"""Records between two looks at delivery errors."""


class Record(NamedTuple):
    """Record of the output; partition -1 leaves the choice to the producer."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None


class Target(NamedTuple):
    """Settings of a sink, as its workers need them."""

    config: Mapping[str, Any]
    """librdkafka's properties of the cluster and the producer."""
    name: str
    progress_topic: str
    slots: int
    query_id: str


class SlotWriter:
    """Transactional producer of one slot, for one batch."""

    def __init__(self, target: Target, slot: int) -> None:
        """Fence earlier producers and read the progress. Raises KafkaException and ProgressError."""
        self._target = target
        self._slot = slot
        self._failure: KafkaException | None = None
        self._producer = Producer(
            {**target.config, "transactional.id": f"{target.name}-{slot}", "enable.idempotence": True}
        )
        self._producer.init_transactions()
        self._progress = read_progress(target.config, target.progress_topic, slot)

    def write(self, batch: int, records: Iterable[Record]) -> int | None:
        """Write the slot's records of a batch; return their number, None if the batch was committed before.

        Raises KafkaException and ProgressError.
        """
        if self._is_committed(batch):
            return None
        self._producer.begin_transaction()
        count = 0
        for record in records:
            self._produce(record)
            count += 1
            if count % FLUSH_RECORDS == 0:
                self._producer.poll(0)
                self._raise_failure()
        progress = Progress(self._target.query_id, batch, self._target.slots)
        self._produce(Record(self._target.progress_topic, self._slot, b"progress", progress.encode(), None))
        self._commit()
        return count

    def _is_committed(self, batch: int) -> bool:
        """Raises ProgressError if the slot belongs to another query."""
        if self._progress is None:
            return False
        self._progress.check_query(self._target.name, self._target.query_id)
        return batch <= self._progress.batch

    def _produce(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    headers=record.headers,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(1.0)
                self._raise_failure()
            else:
                return

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = KafkaException(error)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _commit(self) -> None:
        """Commit. Raises KafkaException if the outcome is an error or is unknown: the next writer finds out which."""
        self._producer.flush()
        self._raise_failure()
        while True:
            try:
                self._producer.commit_transaction()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return
