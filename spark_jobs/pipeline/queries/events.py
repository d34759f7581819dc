"""The valid events of the stream, each once: the beginning of all queries but the raw one."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_jobs.pipeline.config import Config
from spark_jobs.pipeline.schema import checked, valid


def observed(records: DataFrame, config: Config) -> DataFrame:
    """Return checked records, and count them and those that are no events as the observation `events`."""
    metrics = [f.count(f.lit(1)).alias("records"), f.count("reason").alias("dead_letters")]
    return checked(records, config.events.bounds).observe("events", *metrics)


def unique_events(records: DataFrame, config: Config) -> DataFrame:
    """Return the valid events; an event is repeated only if its duplicate comes later than the watermark's delay."""
    events = valid(observed(records, config)).withWatermark("time", config.events.watermark)
    return events.dropDuplicatesWithinWatermark(["event_id"])
