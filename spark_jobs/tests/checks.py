"""Comparison of a pipeline's tables and topics with the model, and its input: events with known timestamps."""

import json
import threading
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

from pyspark.sql import functions as f

from compat_tests.harness.payloads import Record
from spark_jobs.pipeline.config import Events
from spark_jobs.pipeline.device_events import Kind
from spark_jobs.pipeline.run import start, wait
from spark_jobs.pipeline.tables.formats import table
from spark_jobs.tests import expected
from spark_jobs.tests.support import read_committed, sent

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RATE = 5.0
"""Events per second of event time."""
EVENTS = Events(ahead="1 minute", behind="5 minutes", watermark="6 minutes", session_gap="20 seconds")
WATERMARK_SECONDS, WINDOW_SECONDS, GAP_SECONDS = 360, 60, 20


def run_available(spark, config):
    """Run the pipeline over the records that are there."""
    wait(start(spark, config, available_now=True), threading.Event())


def send(bootstrap, topic, events, first):
    """Send events with the time of their number as the records' timestamps."""
    for partition in (0, 1):
        records = [
            Record(value=each.text.encode(), key=each.key, timestamp_ms=int(1000 * (NOON.timestamp() + number / RATE)))
            for number, each in enumerate(events, first)
            if number % 2 == partition
        ]
        sent(bootstrap, topic, records, partition)


def expected_windows(events):
    """Return the windows that the watermark has passed."""
    return expected.windows(events, WINDOW_SECONDS, expected.watermark(events, WATERMARK_SECONDS))


def bad_values(events):
    """Return how often each value must be a dead letter."""
    return Counter(each.text.encode() for each in events if each.kind is Kind.DEAD_LETTER)


def check(spark, config, events):
    """Compare the tables and topics of the configured queries with the model."""
    for name, compare in CHECKS.items():
        if name in config.queries:
            compare(spark, config, events)


def check_raw(spark, config, events):
    rows = table(spark, config.tables, "raw").read().select("partition", "offset", "value").collect()
    assert len(rows) == len({row[:2] for row in rows}) == len(events)
    assert Counter(bytes(row.value) for row in rows) == Counter(each.text.encode() for each in events)


def check_cleaned(spark, config, events):
    cleaned = table(spark, config.tables, "cleaned").read()
    assert sorted(row.event_id for row in cleaned.select("event_id").collect()) == sorted(expected.good_events(events))


def check_dead_letters(spark, config, events):
    assert Counter(each.value for each in read_committed(config.bootstrap, config.dead_letters)) == bad_values(events)


def check_counts(spark, config, events):
    windows = expected_windows(events)
    rows = table(spark, config.tables, "counts").read().withColumn("start", f.unix_seconds("window_start")).collect()
    assert len(rows) == len(windows) >= 10
    assert {(row.start, row.kind): (row["count"], row.minimum, row.maximum, row.sum) for row in rows} == windows
    records = read_committed(config.bootstrap, config.output)
    messages = [json.loads(each.value, parse_float=Decimal) for each in records]
    assert len(messages) == len(windows)
    assert {
        (int(datetime.fromisoformat(each["window_start"]).timestamp()), each["kind"]): each["sum"] for each in messages
    } == {key: total for key, (*_, total) in windows.items()}


def check_sessions(spark, config, events):
    found = table(spark, config.tables, "sessions").read().collect()
    times = [(row.session_start.astimezone(UTC), row.session_end.astimezone(UTC)) for row in found]
    until = expected.watermark(events, WATERMARK_SECONDS)
    assert sorted(
        (row.device_id, *both, row["count"], row.sum) for row, both in zip(found, times, strict=True)
    ) == expected.sessions(events, GAP_SECONDS, until)


CHECKS = {
    "raw": check_raw,
    "cleaned": check_cleaned,
    "dead_letters": check_dead_letters,
    "counts": check_counts,
    "sessions": check_sessions,
}
