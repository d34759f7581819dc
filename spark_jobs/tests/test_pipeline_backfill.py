"""Backfill and live stream: over random timestamps, every record from the range's beginning is there once."""

import random
from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as f

from compat_tests.harness.payloads import Record
from spark_jobs.pipeline.backfill import backfill, planned
from spark_jobs.pipeline.config import Config, ConfigError, Tables
from spark_jobs.pipeline.tables.formats import table
from spark_jobs.tests.checks import run_available
from spark_jobs.tests.support import create_topic, sent

NOON_MS = 1_767_268_800_000
PARTITIONS = 3


def config_of(bootstrap, topic, directory):
    return Config(
        bootstrap=bootstrap,
        input=topic,
        checkpoint=f"{directory}/checkpoint",
        tables=Tables(path=f"{directory}/tables", format="parquet"),
        name=topic,
        queries=("raw",),
    )


def at(offset_ms):
    return datetime.fromtimestamp((NOON_MS + offset_ms) / 1000, UTC)


def send_random(random_source, bootstrap, topic, timestamps, count):
    """Send records with random timestamps, and add these to the lists of the partitions."""
    for partition in range(PARTITIONS):
        new = [random_source.randrange(1000) for _ in range(random_source.randrange(count))]
        sent(bootstrap, topic, [Record(value=b"x", timestamp_ms=NOON_MS + each) for each in new], partition)
        timestamps[partition] += new


def first_at(timestamps, begin_ms):
    """Return the first offset of each partition with at least this timestamp, its end without one."""
    return {
        partition: next((offset for offset, each in enumerate(own) if each >= begin_ms), len(own))
        for partition, own in enumerate(timestamps)
    }


def test_a_range_of_time_is_a_range_of_offsets(bootstrap, unique, tmp_path):
    random_source = random.Random(1)
    for number in range(5):
        topic, timestamps = f"{unique('input')}-{number}", [[] for _ in range(PARTITIONS)]
        create_topic(bootstrap, topic, PARTITIONS)
        send_random(random_source, bootstrap, topic, timestamps, 60)
        config = config_of(bootstrap, topic, tmp_path)
        for _ in range(10):
            begin_ms, end_ms = sorted(random_source.randrange(-10, 1010) for _ in range(2))
            begin, end = first_at(timestamps, begin_ms), first_at(timestamps, end_ms)
            found = planned(config, at(begin_ms), at(end_ms))
            assert found.begin == begin
            assert found.end == {each: max(begin[each], end[each]) for each in end}
            assert planned(config, at(begin_ms), None).end == {each: len(own) for each, own in enumerate(timestamps)}


@pytest.mark.parametrize("seed", range(4))
def test_the_stream_goes_on_where_the_backfill_ended(spark, bootstrap, unique, tmp_path, seed):
    random_source = random.Random(seed)
    topic, timestamps = unique("input"), [[] for _ in range(PARTITIONS)]
    create_topic(bootstrap, topic, PARTITIONS)
    send_random(random_source, bootstrap, topic, timestamps, 80)
    config = config_of(bootstrap, topic, tmp_path)
    begin_ms = random_source.randrange(-10, 1010)
    end = at(random_source.randrange(begin_ms, 1010)) if seed % 2 else None
    begin = first_at(timestamps, begin_ms)
    first = backfill(spark, config, at(begin_ms), end)
    send_random(random_source, bootstrap, topic, timestamps, 80)
    assert backfill(spark, config, at(begin_ms), end) == first
    run_available(spark, config)
    send_random(random_source, bootstrap, topic, timestamps, 80)
    run_available(spark, config)
    rows = table(spark, config.tables, "raw").read().select("partition", "offset", f.unix_millis("timestamp")).collect()
    assert sorted(map(tuple, rows)) == [
        (partition, offset, NOON_MS + each)
        for partition, own in enumerate(timestamps)
        for offset, each in enumerate(own)
        if offset >= begin[partition]
    ]


def test_a_backfill_comes_before_the_first_run(spark, bootstrap, topic, tmp_path):
    create_topic(bootstrap, topic, PARTITIONS)
    sent(bootstrap, topic, [Record(value=b"x")])
    config = config_of(bootstrap, topic, tmp_path)
    run_available(spark, config)
    with pytest.raises(ConfigError, match="backfill: the tables exist"):
        backfill(spark, config, at(0), None)
