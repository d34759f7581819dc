"""The topic of events as a stream or a batch of records."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.pipeline.config import Config

Offsets = Mapping[int, int]
"""Offset by partition."""


def source_options(config: Config) -> dict[str, str]:
    """Return the options that batches and streams have in common."""
    return {
        "kafka.bootstrap.servers": config.bootstrap,
        "kafka.isolation.level": "read_committed",  # records of aborted transactions are no events
        "subscribe": config.input,
        "includeHeaders": "true",
        "failOnDataLoss": str(config.fail_on_data_loss).lower(),
        **{f"kafka.{name}": str(value) for name, value in config.kafka.items()},
    }


def stream(spark: SparkSession, config: Config, starting: Offsets | None = None) -> DataFrame:
    """Return the stream of records; `starting` replaces the configured beginning of a new checkpoint."""
    offsets = config.starting_offsets if starting is None else as_json(config.input, starting)
    reader = spark.readStream.format("kafka").options(**source_options(config)).option("startingOffsets", offsets)
    if config.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", config.max_offsets_per_trigger)
    return reader.load()


def as_json(topic: str, offsets: Offsets) -> str:
    """Return offsets as Spark's options take them."""
    return json.dumps({topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})
