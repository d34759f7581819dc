"""Planted bugs: a driver with one of them must be found by the campaign."""

import time
from collections.abc import Iterable
from typing import Any

from pyspark import cloudpickle

from kwire.spark import exactly_once
from kwire.spark.progress import Progress
from kwire.spark.slot_writer import Record, SlotWriter
from spark_jobs.pipeline.tables.delta import DeltaTable
from spark_jobs.pipeline.tables.iceberg import IcebergTable
from spark_jobs.pipeline.tables.parquet import ParquetTable
from spark_jobs.pipeline.tables.table import Batch


class ProgressOutside(SlotWriter):
    """Slot writer that writes its progress in a transaction of its own, after that of the records."""

    def write(self, batch: int, records: Iterable[Record]) -> int | None:
        if self._is_committed(batch):
            return None
        self._producer.begin_transaction()
        count = 0
        for record in records:
            self._produce(record)
            count += 1
        self._commit()
        self._producer.begin_transaction()
        progress = Progress(self._target.query_id, batch, self._target.slots)
        self._produce(Record(self._target.progress_topic, self._slot, b"progress", progress.encode(), None))
        self._commit()
        return count


def plant_progress_outside() -> None:
    exactly_once.SlotWriter = ProgressOutside  # type: ignore[misc]
    cloudpickle.register_pickle_by_value(exactly_once)  # so that workers use the replaced writer, too


def plant_forgotten_batch() -> None:
    """Give every batch a new number, so that a table does not recognize a repeated one."""
    for kind in (ParquetTable, DeltaTable, IcebergTable):
        for method in ("append", "merge"):
            setattr(kind, method, _forgetting(getattr(kind, method)))


def _forgetting(method: Any) -> Any:
    def call(table: Any, rows: Any, batch: Batch, *key: Any) -> None:
        method(table, rows, batch._replace(number=time.time_ns()), *key)

    return call


PLANTS = {"progress-outside": plant_progress_outside, "forgotten-batch": plant_forgotten_batch}
