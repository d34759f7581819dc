"""Events of devices: their schema, and the check of a record's text. Functions from data frame to data frame.

An event is a JSON object:
    event_id    string, 1 to 64 characters: the same for each duplicate of an event
    device_id   string, 1 to 64 characters
    kind        string, 1 to 64 characters: temperature, humidity, ...
    time        string, RFC 3339 with a zone: 2026-01-01T12:00:00.123Z
    value       number, kept as a decimal with 6 digits after the point
    firmware    string, optional: producers of a later version send it
Other fields are ignored, so that producers can add fields.

Spark's JSON reader ignores what follows a complete value. So the text is read as an array with an end mark behind it:
`{"a": 1} garbage` then is no array, and `{"a": 1}, {"a": 2}` has an element too many.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

NAME_CHARACTERS_MAX = 64
TIME_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$"
VALUE = "decimal(18,6)"
_EVENT = f"event_id string, device_id string, kind string, time string, value {VALUE}, firmware string"
_PARSED = f"array<struct<{_EVENT.replace(' ', ':').replace(',:', ',')}, _end:bigint>>"
_NAMES = ("event_id", "device_id", "kind")
ORIGIN = ("topic", "partition", "offset", "timestamp")
"""Columns of the source that say which record a row comes from."""


class Bounds(NamedTuple):
    """Bounds of event time, relative to the time at which the broker received a record, in seconds."""

    ahead: float
    """An event further in the future would move the watermark, so that all others are late."""
    behind: float
    """An event further in the past would be dropped by the watermark without a word."""


def checked(records: DataFrame, bounds: Bounds) -> DataFrame:
    """Return the source's columns plus `event`, and `reason`: null for a valid event, else why it is none."""
    text = f.concat(f.lit("["), f.col("value").cast("string"), f.lit(',{"_end":'), f.col("offset"), f.lit("}]"))
    parsed = records.withColumn("_parsed", f.from_json(text, _PARSED, {"allowNonNumericNumbers": "false"}))
    event = f.col("_parsed")[0]
    time = f.when(event["time"].rlike(TIME_PATTERN), f.try_to_timestamp(event["time"]))
    with_event = parsed.withColumn(
        "event",
        f.struct(
            *(event[name].alias(name) for name in _NAMES),
            time.alias("time"),
            event["value"].alias("value"),
            event["firmware"].alias("firmware"),
        ),
    )
    return with_event.withColumn("reason", _reason(bounds)).drop("_parsed")


def _reason(bounds: Bounds) -> Column:
    elements, event = f.col("_parsed"), f.col("event")
    is_whole = (f.size(elements) == 2) & f.coalesce(elements[1]["_end"] == f.col("offset"), f.lit(False))
    names = [
        f.when(f.coalesce(f.length(event[name]), f.lit(0)) == 0, f.lit(f"no {name}")).when(
            f.length(event[name]) > NAME_CHARACTERS_MAX, f.lit(f"{name} is longer than {NAME_CHARACTERS_MAX}")
        )
        for name in _NAMES
    ]
    ahead_seconds = (f.unix_millis(event["time"]) - f.unix_millis("timestamp")) / 1000
    return f.coalesce(
        f.when(f.col("value").isNull(), f.lit("no value")),
        f.when(elements.isNull() | ~is_whole | elements[0].isNull(), f.lit("not one JSON object")),
        *names,
        f.when(elements[0]["time"].isNull(), f.lit("no time")),
        f.when(event["time"].isNull(), f.lit("time is not RFC 3339 with a zone")),
        f.when(event["value"].isNull(), f.lit("no decimal number as value")),
        f.when(ahead_seconds > bounds.ahead, f.lit("time is too far in the future")),
        f.when(-ahead_seconds > bounds.behind, f.lit("time is too far in the past")),
    )


def valid(records: DataFrame) -> DataFrame:
    """Return the fields of the valid events of checked records, and `origin` with the columns of their record."""
    return records.where(f.col("reason").isNull()).select("event.*", f.struct(*ORIGIN).alias("origin"))
