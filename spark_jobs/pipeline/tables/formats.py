"""The formats of tables by their names in the configuration."""

from collections.abc import Callable, Iterable

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

EXTENSIONS = "spark.sql.extensions"
PIPELINE_CATALOG = "spark.sql.catalog.pipeline"


def table(spark: SparkSession, tables: Tables, name: str) -> Table:
    """Return a table of the pipeline; it need not exist."""
    return FORMATS[tables.format]()(spark, tables.path, name)


def settings_of_all(names: Iterable[str]) -> dict[str, str]:
    """Return Spark's settings for tables of several formats; `own_session` adds the catalog of one pipeline."""
    merged: dict[str, str] = {}
    for name in names:
        for key, value in FORMATS[name]().settings("").items():
            if key == EXTENSIONS and key in merged:
                merged[key] += f",{value}"
            elif not key.startswith(PIPELINE_CATALOG):
                merged[key] = value
    return merged


def own_session(spark: SparkSession, tables: Tables) -> SparkSession:
    """Return a new session with the catalog of a pipeline's tables, if the format has one."""
    session = spark.newSession()
    for name, value in FORMATS[tables.format]().settings(tables.path).items():
        if name.startswith(PIPELINE_CATALOG):
            session.conf.set(name, value)
    return session
