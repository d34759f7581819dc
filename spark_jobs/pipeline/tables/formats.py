"""The formats of tables by their names in the configuration."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from spark_jobs.pipeline.config import ConfigError, Tables
from spark_jobs.pipeline.tables.table import Table


def _delta() -> type[Table]:
    try:
        from spark_jobs.pipeline.tables.delta import DeltaTable
    except ModuleNotFoundError as error:
        raise ConfigError("tables.format: delta needs the package delta-spark of Spark's version") from error
    return DeltaTable


def _iceberg() -> type[Table]:
    from spark_jobs.pipeline.tables.iceberg import IcebergTable

    return IcebergTable


def _parquet() -> type[Table]:
    from spark_jobs.pipeline.tables.parquet import ParquetTable

    return ParquetTable


FORMATS: dict[str, Callable[[], type[Table]]] = {"parquet": _parquet, "delta": _delta, "iceberg": _iceberg}


def table(spark: SparkSession, tables: Tables, name: str) -> Table:
    """Return a table of the pipeline; it need not exist."""
    return FORMATS[tables.format]()(spark, tables.path, name)
