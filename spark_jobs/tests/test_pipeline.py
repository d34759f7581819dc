"""The pipeline over a seeded stream of device events: tables, topics and dead letters, with stops between."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from spark_jobs.pipeline.config import Config, Tables
from spark_jobs.pipeline.device_events import device_events
from spark_jobs.tests.checks import EVENTS, NOON, RATE, check, run_available, send
from spark_jobs.tests.support import create_topic, remove_last_commit


@pytest.fixture
def config(bootstrap, unique, tmp_path):
    input_topic = unique("input")
    for topic in (input_topic, f"{input_topic}-counts", f"{input_topic}-dead-letters"):
        create_topic(bootstrap, topic, 2)
    return Config(
        bootstrap=bootstrap,
        input=input_topic,
        checkpoint=str(tmp_path / "checkpoint"),
        tables=Tables(path=str(tmp_path / "tables"), format="parquet"),
        name=unique("pipeline"),
        events=EVENTS,
        slots=2,
    )


def crash_before_commit(config):
    for query in config.queries:
        remove_last_commit(Path(config.checkpoint) / query)


def process_and_check(spark, config):
    events = list(islice(device_events(7, start=NOON, per_second=RATE, devices=5), 3000))
    for first in (0, 1500):
        send(config.bootstrap, config.input, events[first : first + 1500], first)
        run_available(spark, config)
        crash_before_commit(config)
    run_available(spark, config)
    check(spark, config, events)


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_every_event_is_where_it_belongs(spark, config, table_format):
    process_and_check(spark, replace(config, tables=Tables(path=config.tables.path, format=table_format)))


@pytest.mark.matrix
@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_raw_cleaned_and_counts_need_no_newer_spark(spark, config, table_format):
    tables = Tables(path=config.tables.path, format=table_format)
    process_and_check(spark, replace(config, tables=tables, queries=("raw", "cleaned", "counts")))
