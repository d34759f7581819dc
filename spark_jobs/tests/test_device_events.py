"""Generator of device events: the same seed gives the same ones, and each is what it says."""

import json
from collections import Counter
from datetime import UTC, datetime
from itertools import islice

from spark_jobs.pipeline.device_events import Kind, device_events
from spark_jobs.pipeline.schema import Bounds, checked
from spark_jobs.tests.test_pipeline_schema import COLUMNS

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
COUNT = 4000


def first(seed, count=COUNT):
    return list(islice(device_events(seed, start=START, per_second=1000), count))


def test_a_seed_gives_the_same_events_and_another_gives_others():
    assert first(1) == first(1)
    assert first(1) != first(2)


def test_events_of_each_kind_occur():
    found = Counter(each.kind for each in first(1))
    assert all(found[kind] > COUNT / 200 for kind in Kind)
    assert found[Kind.COUNTED] > COUNT * 0.9


def test_ids_are_unique_but_for_duplicates():
    events = first(1)
    ids = Counter(json.loads(each.text)["event_id"] for each in events if each.kind is Kind.COUNTED)
    assert set(ids.values()) == {1}
    assert all(json.loads(each.text)["event_id"] in ids for each in events if each.kind is Kind.DUPLICATE)


def test_the_schema_grows():
    with_firmware = [number for number, each in enumerate(first(1)) if '"firmware"' in each.text]
    assert min(with_firmware) >= 1000


def test_the_check_agrees_with_what_each_event_says(spark):
    events = first(7)
    rows = [(each.key, each.text.encode(), "events", 0, offset, START, None) for offset, each in enumerate(events)]
    found = checked(spark.createDataFrame(rows, COLUMNS), Bounds(ahead=60, behind=3600)).select("offset", "reason")
    rejected = {row.offset for row in found.where("reason is not null").collect()}
    assert rejected == {offset for offset, each in enumerate(events) if each.kind is Kind.DEAD_LETTER}
