"""Maintenance of the pipeline's tables: compaction of small files, and removal of files that no reader needs."""

from collections.abc import Iterator

from pyspark.sql import SparkSession

from spark_jobs.pipeline.config import Config
from spark_jobs.pipeline.tables.formats import table

TABLES = ("raw", "cleaned", "counts", "sessions")


def maintain(spark: SparkSession, config: Config, retention_hours: float) -> Iterator[str]:
    """Maintain the tables that exist, one after another, and say what changed. Raises ConfigError."""
    for name in TABLES:
        found = table(spark, config.tables, name)
        if found.exists():
            before, after = found.maintain(retention_hours)
            yield f"{name}: {before} files are {after}"
