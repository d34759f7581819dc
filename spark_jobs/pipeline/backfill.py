"""Backfill: the records of a time range as one batch, and the place where the live streams go on.

The hand-over is a file in the checkpoint: for each partition the first offset of the backfill and the first one of the
live stream. It is written before the backfill begins, and a repeated backfill reads the same offsets and changes
nothing. So the raw table gets each record once, from the backfill or from the stream.

The tables raw and cleaned are filled. The other queries have state or write to topics: they read the range as a stream.
"""

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.pipeline.config import Config, ConfigError
from spark_jobs.pipeline.hadoop import Place
from spark_jobs.pipeline.queries.all import RAW_COLUMNS
from spark_jobs.pipeline.schema import checked, valid
from spark_jobs.pipeline.source import Offsets, as_json, source_options
from spark_jobs.pipeline.tables.formats import table
from spark_jobs.pipeline.tables.table import Batch

logger = logging.getLogger("spark_jobs.pipeline")

HANDOVER_FILE = "handover.json"
TIMEOUT_SECONDS = 10.0
FILLED = ("raw", "cleaned")
BATCH = Batch("backfill", 0)


class Handover(NamedTuple):
    """Offsets by partition: the backfill reads from `begin` up to `end`, the stream goes on from `end`."""

    begin: Offsets
    end: Offsets

    def encode(self) -> str:
        return json.dumps({"begin": self.begin, "end": self.end})

    @staticmethod
    def decode(text: str) -> "Handover":
        begin, end = ({int(key): value for key, value in found.items()} for found in json.loads(text).values())
        return Handover(begin, end)


def handover(spark: SparkSession, config: Config) -> Handover | None:
    """Return the hand-over of a backfill, None if there was none."""
    text = (Place(spark, config.checkpoint) / HANDOVER_FILE).read_text()
    return None if text is None else Handover.decode(text)


def planned(config: Config, begin: datetime, end: datetime | None) -> Handover:
    """Return the offsets of a time range: records whose timestamp is not before `begin`, and before `end`.

    Without `end`, the range ends with the last stable record. Raises ConfigError and KafkaException.
    """
    consumer = Consumer({**config.producer, "group.id": f"{config.name}-backfill", "enable.auto.commit": False})
    try:
        found = consumer.list_topics(config.input, TIMEOUT_SECONDS).topics[config.input]
        if found.error is not None:
            raise ConfigError(f"input: topic {config.input}: {found.error.str()}")
        ends = {
            index: consumer.get_watermark_offsets(TopicPartition(config.input, index), TIMEOUT_SECONDS)[1]
            for index in found.partitions
        }
        first = _at(consumer, config.input, ends, begin)
        last = ends if end is None else _at(consumer, config.input, ends, end)
    finally:
        consumer.close()
    return Handover(first, {index: max(first[index], last[index]) for index in ends})


def _at(consumer: Consumer, topic: str, ends: Mapping[int, int], time: datetime) -> dict[int, int]:
    """Return for each partition the first offset with at least this timestamp, its end without one."""
    asked = [TopicPartition(topic, index, round(time.timestamp() * 1000)) for index in ends]
    found = consumer.offsets_for_times(asked, TIMEOUT_SECONDS)
    return {each.partition: each.offset if each.offset >= 0 else ends[each.partition] for each in found}


def backfill(spark: SparkSession, config: Config, begin: datetime, end: datetime | None) -> Handover:
    """Write the records of a time range to the tables. Raises ConfigError, KafkaException and PySparkException."""
    over = handover(spark, config)
    if over is None:
        if any(table(spark, config.tables, name).exists() for name in FILLED):
            raise ConfigError("backfill: the tables exist; a backfill comes before the first run of the pipeline")
        over = planned(config, begin, end)
        (Place(spark, config.checkpoint) / HANDOVER_FILE).create(over.encode())
    count = sum(over.end.values()) - sum(over.begin.values())
    logger.info("backfill of %d offsets in %d partitions", count, len(over.end))
    if count:
        records = _records(spark, config, over)
        table(spark, config.tables, "raw").append(records.select(*RAW_COLUMNS), BATCH)
        events = valid(checked(records, config.events.bounds)).dropDuplicates(["event_id"])
        table(spark, config.tables, "cleaned").merge(events, BATCH, ["event_id"])
    return over


def starting(over: Handover | None, query: str) -> Offsets | None:
    """Return where a query without a checkpoint begins; None for the configured beginning."""
    if over is None:
        return None
    return over.end if query in FILLED else over.begin


def _records(spark: SparkSession, config: Config, over: Handover) -> DataFrame:
    offsets = {
        "startingOffsets": as_json(config.input, over.begin),
        "endingOffsets": as_json(config.input, over.end),
    }
    return spark.read.format("kafka").options(**source_options(config), **offsets).load()
