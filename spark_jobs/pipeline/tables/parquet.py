"""Parquet table: a directory for each batch, which appears in one step.

A batch is written beside the table and renamed into it, so that readers see all of it or nothing. On object stores a
rename is not one step: use another format there.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from spark_jobs.pipeline.config import ConfigError
from spark_jobs.pipeline.tables.table import Batch, Maintenance, Table

STAGING = "_staging"
"""Spark's readers ignore names that begin with an underscore."""
BATCH_COLUMNS = ("query", "batch")


class ParquetTable(Table):
    """Table as plain Parquet files."""

    @staticmethod
    def settings(root: str) -> Mapping[str, str]:
        return {}

    def exists(self) -> bool:
        return any(not name.startswith("_") for name in self.place.names())

    def read(self) -> DataFrame:
        return self.spark.read.option("mergeSchema", "true").parquet(str(self.place)).drop(*BATCH_COLUMNS)

    def append(self, rows: DataFrame, batch: Batch) -> None:
        query = self.place / f"query={batch.query_id}"
        target = query / f"batch={batch.number}"
        if target.exists():
            return
        staging = self.place / STAGING / f"{batch.query_id}-{batch.number}"
        rows.write.mode("overwrite").parquet(str(staging))
        query.make_directory()
        if not staging.rename(target):
            raise OSError(f"{staging} cannot be renamed to {target}")

    def merge(self, rows: DataFrame, batch: Batch, key: Sequence[str]) -> None:
        if self.exists():
            rows = rows.join(self.read().select(*key), list(key), "left_anti").select(*rows.columns)
        self.append(rows, batch)

    def maintain(self, retention_hours: float) -> Maintenance:
        raise ConfigError(f"table {self.name}: Parquet files have no maintenance, use delta or iceberg")
