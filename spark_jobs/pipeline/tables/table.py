"""Interface between the pipeline and a table, in whatever format it is stored.

A table belongs to one query: its batches are numbered by that query's checkpoint. A batch that is repeated after a
crash changes nothing. A query with another checkpoint would number its batches anew, so it is rejected.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.pipeline.config import ConfigError
from spark_jobs.pipeline.hadoop import Place


class Batch(NamedTuple):
    """Batch of a query."""

    query_id: str
    number: int


class Maintenance(NamedTuple):
    """Result of the maintenance of one table."""

    files_before: int
    files_after: int


class Table(ABC):
    """Table of the pipeline."""

    def __init__(self, spark: SparkSession, root: str, name: str) -> None:
        self.spark = spark
        self.name = name
        self.place = Place(spark, f"{root}/{name}")
        self._owner = Place(spark, f"{root}/_owners/{name}.json")

    @staticmethod
    @abstractmethod
    def settings(root: str) -> Mapping[str, str]:
        """Return Spark's settings for this format."""

    def claim(self, query_id: str) -> None:
        """Make the table a query's own before its first batch. Raises ConfigError if it is another query's."""
        text = self._owner.read_text()
        if text is None:
            self._owner.create(json.dumps({"query_id": query_id}))
        elif (owner := json.loads(text)["query_id"]) != query_id:
            raise ConfigError(
                f"table {self.name} belongs to query {owner}, and this checkpoint is of query {query_id}: use the "
                "checkpoint of that query, or another place for the tables"
            )

    @abstractmethod
    def exists(self) -> bool: ...

    @abstractmethod
    def read(self) -> DataFrame:
        """Return all rows. Readers see whole batches only."""

    @abstractmethod
    def append(self, rows: DataFrame, batch: Batch) -> None:
        """Add rows, unless the batch was added before."""

    @abstractmethod
    def merge(self, rows: DataFrame, batch: Batch, key: Sequence[str]) -> None:
        """Add the rows whose key the table does not have; each key is once in the rows."""

    @abstractmethod
    def maintain(self, retention_hours: float) -> Maintenance:
        """Compact small files, and delete what no reader of the last hours needs. Raises ConfigError."""
