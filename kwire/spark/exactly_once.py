"""Exactly-once sink: each batch of a stream is in its topics once, for readers of committed records.

Spark's own Kafka sink repeats records when a task or a batch is repeated. This sink distributes the rows of a batch
over slots. A slot writes its rows and its progress in one transaction (slot_writer.py). A repeated batch gives each
slot the same rows, so a slot that has committed the batch writes nothing.

What this needs:

- The same rows in a repeated batch. Spark reads the same offsets again, so that holds unless the query computes with
  the time of day, random numbers, or data outside the stream.
- Readers with isolation.level=read_committed.
- The query's checkpoint. The sink's progress belongs to it, and another checkpoint is rejected.

A batch is atomic in each slot, not over all slots: a reader may see the rows of one slot before those of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kwire.spark.progress import ProgressError, ensure_topic, read_progress
from kwire.spark.slot_writer import Record, SlotWriter, Target

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID: Final = "sql.streaming.queryId"
"""Local property in which Spark keeps the id of the query that runs a batch."""
PROGRESS_SUFFIX: Final = "-progress"
_COLUMNS: Final = ("topic", "partition", "key", "value", "headers")
_WRITTEN: Final = "slot int, records long"


class Written(NamedTuple):
    """Result of a batch."""

    records: int
    """Records that were committed now."""
    repeated_slots: int
    """Slots that had committed the batch before."""


class ExactlyOnceSink:
    """Sink for `foreachBatch`.

    The batch has the columns of Spark's Kafka sink: value, and optionally key, topic, partition and headers. Keys and
    values are strings or binary.

        sink = ExactlyOnceSink({"bootstrap.servers": "127.0.0.1:9092"}, name="counts", topic="counts")
        frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).start()
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        name: str,
        topic: str | None = None,
        slots: int = 4,
        order_by: Sequence[str] = (),
        progress_topic: str | None = None,
    ) -> None:
        """`config` has librdkafka's properties, `name` is the prefix of the transactional ids.

        Rows with the same key are in the same slot, in the order of the columns `order_by`. `topic` is for rows without
        a column of that name. The progress topic is `name` with -progress by default. Raises ValueError.
        """
        if not name:
            raise ValueError("name: an exactly-once sink needs a name, which its transactional ids begin with")
        if slots < 1:
            raise ValueError(f"slots: {slots} is not a number of producers, use 1 or more")
        self._config = dict(config)
        self._name = name
        self._topic = topic
        self._slots = slots
        self._order_by = tuple(order_by)
        self._progress_topic = progress_topic or name + PROGRESS_SUFFIX
        self._is_checked = False
        self.last: Written | None = None
        """Result of the last batch."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch. Raises ProgressError, KafkaException, or the error of a failed task."""
        query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if query_id is None:
            raise ProgressError(f"sink {self._name}: use it in foreachBatch; a batch outside a query has no progress")
        target = Target(self._config, self._name, self._progress_topic, self._slots, query_id)
        if not self._is_checked:
            _check(target, batch_id)
            self._is_checked = True
        rows = _by_slot(self._records(batch), target.slots, self._order_by)
        results = rows.mapInArrow(lambda batches: _write_partition(target, batch_id, batches), _WRITTEN).collect()
        self.last = Written(
            sum(result.records or 0 for result in results), sum(result.records is None for result in results)
        )

    def _records(self, batch: DataFrame) -> DataFrame:
        """Return the rows with all columns of a record. Raises ValueError."""
        found = set(batch.columns)
        if "value" not in found:
            raise ValueError(f"sink {self._name}: the batch has no column value, it has {', '.join(batch.columns)}")
        if "topic" not in found and self._topic is None:
            raise ValueError(f"sink {self._name}: the batch has no column topic, and the sink has no topic")
        columns = {
            "topic": f.col("topic") if self._topic is None else f.lit(self._topic),
            "partition": f.col("partition").cast("int") if "partition" in found else f.lit(None).cast("int"),
            "key": f.col("key").cast("binary") if "key" in found else f.lit(None).cast("binary"),
            "value": f.col("value").cast("binary"),
            "headers": f.col("headers") if "headers" in found else f.lit(None).cast(_HEADERS),
        }
        kept = [name for name in self._order_by if name not in columns]
        return batch.select(*(column.alias(name) for name, column in columns.items()), *kept)


_HEADERS: Final = "array<struct<key:string,value:binary>>"


def _check(target: Target, batch_id: int) -> None:
    """Check the progress of all slots before the first batch of a run. Raises ProgressError and KafkaException."""
    partitions = ensure_topic(target.config, target.progress_topic, target.slots)
    for slot in range(partitions):
        progress = read_progress(target.config, target.progress_topic, slot)
        if progress is None:
            continue
        progress.check_query(target.name, target.query_id)
        if progress.batch >= batch_id and progress.slots != target.slots:
            raise ProgressError(
                f"sink {target.name}: batch {batch_id} was begun with {progress.slots} slots; finish it with as many, "
                f"then use {target.slots}"
            )


def _by_slot(rows: DataFrame, slots: int, order_by: Sequence[str]) -> DataFrame:
    """Bring rows with the same key to the same slot, and each slot into one task."""
    slot = f.pmod(f.xxhash64(f.coalesce("key", "value")), f.lit(slots)).cast("int")
    return rows.withColumn("slot", slot).repartition(slots, "slot").sortWithinPartitions("slot", *order_by)


def _write_partition(target: Target, batch_id: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the slots of one task; return a row of (slot, records) for each."""
    import pyarrow as pa  # noqa: PLC0415 only workers need it

    slots, counts = [], []
    for slot, rows in groupby(_rows(batches), key=itemgetter(0)):
        slots.append(slot)
        counts.append(SlotWriter(target, slot).write(batch_id, (record for _, record in rows)))
    columns = [pa.array(slots, pa.int32()), pa.array(counts, pa.int64())]
    yield pa.RecordBatch.from_arrays(columns, ["slot", "records"])


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Record]]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("slot", *_COLUMNS)]
        for slot, topic, partition, key, value, headers in zip(*columns, strict=True):
            pairs = None if headers is None else [(each["key"], each["value"]) for each in headers]
            yield slot, Record(topic, -1 if partition is None else partition, key, value, pairs)
