"""The pipeline over a seeded stream of device events: tables, topics and dead letters, with stops between."""

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path

import pytest
from kafka import TopicPartition
from pyspark.sql import functions as f

from compat_tests.harness.payloads import Record
from compat_tests.kafka_python.client import consumer, read
from spark_jobs.pipeline.config import Config, Events, Tables
from spark_jobs.pipeline.device_events import Kind, device_events
from spark_jobs.pipeline.run import start, wait
from spark_jobs.pipeline.tables.formats import table
from spark_jobs.tests import expected
from spark_jobs.tests.support import create_topic, sent

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RATE = 5.0


class Never:
    """Stop event that is never set."""

    def wait(self, seconds):
        return False


@pytest.fixture(params=["parquet", "delta"])
def config(request, bootstrap, unique, tmp_path):
    input_topic = unique("input")
    for topic in (input_topic, f"{input_topic}-counts", f"{input_topic}-dead-letters"):
        create_topic(bootstrap, topic, 2)
    return Config(
        bootstrap=bootstrap,
        input=input_topic,
        checkpoint=str(tmp_path / "checkpoint"),
        tables=Tables(path=str(tmp_path / "tables"), format=request.param),
        name=unique("pipeline"),
        events=Events(ahead="1 minute", behind="5 minutes", watermark="6 minutes", session_gap="20 seconds"),
        slots=2,
    )


def run(spark, config):
    wait(start(spark, config, available_now=True), Never())


def crash_before_commit(config):
    """Remove Spark's commit of each query's last batch, as if the driver had died between the sinks' write and it."""
    for query in config.queries:
        commits = Path(config.checkpoint) / query / "commits"
        last = max((each for each in commits.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def send(bootstrap, topic, events, first):
    """Send events with the time of their number as the records' timestamps."""
    for partition in (0, 1):
        records = [
            Record(value=each.text.encode(), key=each.key, timestamp_ms=int(1000 * (NOON.timestamp() + number / RATE)))
            for number, each in enumerate(events, first)
            if number % 2 == partition
        ]
        sent(bootstrap, topic, records, partition)


def letters_of(config, count):
    """Return the dead letters of both partitions."""
    with consumer(config.bootstrap, isolation_level="read_committed") as reader:
        reader.assign([TopicPartition(config.dead_letters, partition) for partition in (0, 1)])
        reader.seek_to_beginning()
        return read(reader, count)


def messages_of(config, count):
    """Return the windows in the output topic."""
    with consumer(config.bootstrap, isolation_level="read_committed") as reader:
        reader.assign([TopicPartition(config.output, partition) for partition in (0, 1)])
        reader.seek_to_beginning()
        return [json.loads(each.value, parse_float=Decimal) for each in read(reader, count)]


def check(spark, config, events):
    """Compare all tables and topics with the model."""
    raw = table(spark, config.tables, "raw").read()
    assert raw.count() == raw.select("partition", "offset").distinct().count() == len(events)
    cleaned = table(spark, config.tables, "cleaned").read()
    assert sorted(row.event_id for row in cleaned.select("event_id").collect()) == sorted(expected.good_events(events))
    bad = Counter(each.text.encode() for each in events if each.kind is Kind.DEAD_LETTER)
    assert Counter(each.value for each in letters_of(config, bad.total())) == bad
    until = expected.watermark(events, 360)
    windows = expected.windows(events, 60, until)
    rows = table(spark, config.tables, "counts").read().withColumn("start", f.unix_seconds("window_start")).collect()
    assert len(rows) == len(windows) >= 10
    assert {(row.start, row.kind): (row["count"], row.minimum, row.maximum, row.sum) for row in rows} == windows
    messages = messages_of(config, len(windows))
    assert len(messages) == len(windows)
    assert {
        (int(datetime.fromisoformat(each["window_start"]).timestamp()), each["kind"]): each["sum"] for each in messages
    } == {key: total for key, (*_, total) in windows.items()}
    found = table(spark, config.tables, "sessions").read().collect()
    times = [(row.session_start.astimezone(UTC), row.session_end.astimezone(UTC)) for row in found]
    assert sorted(
        (row.device_id, *both, row["count"], row.sum) for row, both in zip(found, times, strict=True)
    ) == expected.sessions(events, 20, until)


def test_every_event_is_where_it_belongs(spark, config):
    events = list(islice(device_events(7, start=NOON, per_second=RATE, devices=5), 3000))
    for first in (0, 1500):
        send(config.bootstrap, config.input, events[first : first + 1500], first)
        run(spark, config)
        crash_before_commit(config)
    run(spark, config)
    check(spark, config, events)
