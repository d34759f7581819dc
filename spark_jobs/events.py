"""Computation of the events job, as functions from data frame to data frame: no source, no sink, no state.

An event is a JSON object:
    id      string, required
        kind    string, required: the count is per kind
    time    ISO 8601 timestamp, required: when it happened
    user    string
    amount  number
Other fields are ignored, so that producers can add fields.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, StringType, StructField, StructType, TimestampType

CORRUPT = "_corrupt"
REQUIRED = ("id", "kind", "time")

EVENT = StructType(
    [
        StructField("id", StringType()),
        StructField("kind", StringType()),
        StructField("time", TimestampType()),
        StructField("user", StringType()),
        StructField("amount", DoubleType()),
        StructField(CORRUPT, StringType()),  # from_json sets this when the text does not match the fields above
    ]
)


def parsed(records: DataFrame) -> DataFrame:
    """Return the source's columns plus `event` and `reason`; a record with a reason is not a valid event."""
    text = f.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    with_event = records.withColumn("event", f.from_json(text, EVENT, options))
    missing = [f.when(f.col(f"event.{name}").isNull(), f.lit(f"no {name}")) for name in REQUIRED]
    reason = f.coalesce(
        f.when(f.col("value").isNull(), f.lit("no value")),
        f.when(f.col("event").isNull() | f.col(f"event.{CORRUPT}").isNotNull(), f.lit("not an event in JSON")),
        *missing,
    )
    return with_event.withColumn("reason", reason)


def counts(records: DataFrame, *, window: str, watermark: str) -> DataFrame:
    """Count events and sum amounts per kind and window of event time; final after the watermark passes the window."""
    events = parsed(records).where(f.col("reason").isNull()).select("event.*")
    grouped = events.withWatermark("time", watermark).groupBy(f.window("time", window), "kind")
    totals = grouped.agg(f.count(f.lit(1)).alias("count"), f.round(f.sum("amount"), 2).alias("amount"))
    return totals.select(
        f.col("window.start").alias("window_start"), f.col("window.end").alias("window_end"), "kind", "count", "amount"
    )


def as_messages(totals: DataFrame) -> DataFrame:
    """Convert counts to messages with a JSON value; the key is the kind, so that a kind's windows stay in order."""
    return totals.select(f.col("kind").alias("key"), f.to_json(f.struct(*totals.columns)).alias("value"))
