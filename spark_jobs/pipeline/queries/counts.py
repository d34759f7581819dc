"""Windows of event time: count, minimum, maximum and sum of the values of each kind."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

SUM = "decimal(38,6)"


def windows(events: DataFrame, window: str) -> DataFrame:
    """Return a row for each window and kind."""
    grouped = events.groupBy(f.window("time", window), "kind")
    totals = grouped.agg(
        f.count(f.lit(1)).alias("count"),
        f.min("value").alias("minimum"),
        f.max("value").alias("maximum"),
        f.sum("value").cast(SUM).alias("sum"),
    )
    return totals.select(
        f.col("window.start").alias("window_start"),
        f.col("window.end").alias("window_end"),
        *("kind", "count", "minimum", "maximum", "sum"),
    )


def as_messages(totals: DataFrame) -> DataFrame:
    """Return windows as messages in JSON. The key names the kind and the window, so that compaction keeps each one."""
    start = f.date_format("window_start", "yyyy-MM-dd'T'HH:mm:ss'Z'")
    return totals.select(
        f.concat_ws("/", "kind", start).alias("key"), f.to_json(f.struct(*totals.columns)).alias("value")
    )
