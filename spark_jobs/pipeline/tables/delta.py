"""Delta Lake table. Each transaction carries the query and the number of its batch, so a repeated batch is skipped."""

from collections.abc import Mapping, Sequence

from delta.tables import DeltaTable as Delta
from pyspark.sql import DataFrame

from spark_jobs.pipeline.tables.table import Batch, Maintenance, Table


class DeltaTable(Table):
    """Table in Delta Lake."""

    @staticmethod
    def settings(root: str) -> Mapping[str, str]:
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }

    def exists(self) -> bool:
        return Delta.isDeltaTable(self.spark, str(self.place))

    def read(self) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.place))

    def append(self, rows: DataFrame, batch: Batch) -> None:
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
        writer.option("txnAppId", batch.query_id).option("txnVersion", batch.number).save(str(self.place))

    def merge(self, rows: DataFrame, batch: Batch, key: Sequence[str]) -> None:
        if not self.exists():  # an empty table, with the columns of the rows
            rows.limit(0).write.format("delta").mode("append").save(str(self.place))
        same = " AND ".join(f"stored.{name} = new.{name}" for name in key)
        merging = Delta.forPath(self.spark, str(self.place)).alias("stored").merge(rows.alias("new"), same)
        merging.withSchemaEvolution().whenNotMatchedInsertAll().execute()

    def maintain(self, retention_hours: float) -> Maintenance:
        table = Delta.forPath(self.spark, str(self.place))
        before = self._files(table)
        table.optimize().executeCompaction()
        table.vacuum(retention_hours)
        return Maintenance(before, self._files(table))

    @staticmethod
    def _files(table: Delta) -> int:
        return int(table.detail().select("numFiles").first()[0])
