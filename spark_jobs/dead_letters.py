"""Dead letters: records that a job rejects, unchanged but for headers with the reason and the record's origin."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


def dead_letters(records: DataFrame, origin: Sequence[str]) -> DataFrame:
    """Return the records with a `reason` as messages; `origin` are the columns that become headers, too."""
    added = [_header("reason", f.col("reason")), *(_header(name, f.col(name).cast("string")) for name in origin)]
    own = f.coalesce("headers", f.array().cast("array<struct<key:string,value:binary>>"))
    return records.where(f.col("reason").isNotNull()).select(
        "key", "value", f.concat(own, f.array(*added)).alias("headers")
    )


def _header(name: str, value: Column) -> Column:
    return f.struct(f.lit(name).alias("key"), value.cast("binary").alias("value"))
