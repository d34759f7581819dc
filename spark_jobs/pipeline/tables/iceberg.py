"""Apache Iceberg table in a Hadoop catalog. Each snapshot names the query and the number of its batch."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_jobs.pipeline.tables.table import Batch, Maintenance, Table

CATALOG = "pipeline"
QUERY, BATCH = "pipeline.query", "pipeline.batch"
"""Properties of a snapshot."""
SNAPSHOTS_MIN = 20
"""Snapshots that maintenance keeps: the last batch must stay known, in case that it is repeated."""


class IcebergTable(Table):
    """Table in Apache Iceberg."""

    @staticmethod
    def settings(root: str) -> Mapping[str, str]:
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
            f"spark.sql.catalog.{CATALOG}.type": "hadoop",
            f"spark.sql.catalog.{CATALOG}.warehouse": root,
            f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",  # a cached table has no newer snapshots
        }

    @property
    def _table(self) -> str:
        return f"{CATALOG}.{self.name}"

    def exists(self) -> bool:
        return self.spark.catalog.tableExists(self._table)

    def read(self) -> DataFrame:
        return self.spark.table(self._table)

    def append(self, rows: DataFrame, batch: Batch) -> None:
        if self._prepare(rows, batch):
            self._write(rows, batch)

    def merge(self, rows: DataFrame, batch: Batch, key: Sequence[str]) -> None:
        if self._prepare(rows, batch):
            new = rows.join(self.read().select(*key), list(key), "left_anti")
            self._write(new.select(*rows.columns), batch)

    def _prepare(self, rows: DataFrame, batch: Batch) -> bool:
        """Create the table, or give it the columns that it lacks; return False if it has the batch."""
        if not self.exists():
            properties = {"format-version": "2", "write.spark.accept-any-schema": "true"}
            writer = rows.limit(0).writeTo(self._table).using("iceberg")
            for name, value in properties.items():
                writer = writer.tableProperty(name, value)
            writer.create()
            return True
        return not self._has(batch)

    def _has(self, batch: Batch) -> bool:
        snapshots = self.spark.table(f"{self._table}.snapshots")
        of_query = snapshots.where(f.col("summary")[QUERY] == batch.query_id)
        numbers = of_query.select(f.col("summary")[BATCH])
        return any(int(number) >= batch.number for (number,) in numbers.collect())

    def _write(self, rows: DataFrame, batch: Batch) -> None:
        writer = rows.writeTo(self._table).option("mergeSchema", "true")
        marked = {QUERY: batch.query_id, BATCH: str(batch.number)}
        for name, value in marked.items():
            writer = writer.option(f"snapshot-property.{name}", value)
        writer.append()

    def maintain(self, retention_hours: float) -> Maintenance:
        before = self._files()
        self.spark.sql(f"CALL {CATALOG}.system.rewrite_data_files(table => '{self.name}')")
        oldest = (datetime.now(UTC) - timedelta(hours=retention_hours)).strftime("%Y-%m-%d %H:%M:%S")
        self.spark.sql(
            f"CALL {CATALOG}.system.expire_snapshots(table => '{self.name}', older_than => TIMESTAMP '{oldest}', "
            f"retain_last => {SNAPSHOTS_MIN})"
        )
        return Maintenance(before, self._files())

    def _files(self) -> int:
        return self.spark.table(f"{self._table}.files").count()
