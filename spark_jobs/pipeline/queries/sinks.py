"""Functions for foreachBatch that write batches to a table of the pipeline."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from kwire.spark.exactly_once import QUERY_ID
from spark_jobs.pipeline.config import Config
from spark_jobs.pipeline.tables.formats import table
from spark_jobs.pipeline.tables.table import Batch, Table

Writer = Callable[[DataFrame, int], None]


def claimed(config: Config, name: str, frame: DataFrame, number: int) -> tuple[Table, Batch]:
    """Return a table and the batch of a frame in foreachBatch. Raises ConfigError if it is another query's table."""
    batch = Batch(frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID), number)
    found = table(frame.sparkSession, config.tables, name)
    found.claim(batch.query_id)
    return found, batch


def appended(config: Config, name: str) -> Writer:
    """Return a function that appends each batch to a table once."""

    def write(frame: DataFrame, number: int) -> None:
        found, batch = claimed(config, name, frame, number)
        found.append(frame, batch)

    return write


def merged(config: Config, name: str, *key: str) -> Writer:
    """Return a function that adds the rows of each batch whose key a table does not have."""

    def write(frame: DataFrame, number: int) -> None:
        found, batch = claimed(config, name, frame, number)
        found.merge(frame.dropDuplicates(list(key)), batch, key)

    return write
