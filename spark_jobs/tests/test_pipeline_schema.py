"""Check of events: what is one, and the reason of each record that is none."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from spark_jobs.dead_letters import dead_letters
from spark_jobs.pipeline.schema import ORIGIN, Bounds, checked, valid

BOUNDS = Bounds(ahead=60, behind=3600)
RECEIVED = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
EVENT = {
    "event_id": "e-1",
    "device_id": "d-1",
    "kind": "temperature",
    "time": "2026-01-01T12:00:00.250Z",
    "value": 21.5,
}
COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)


def text(**changes):
    fields = EVENT | changes
    return json.dumps({name: value for name, value in fields.items() if value is not None})


CASES = [
    (text(), None),
    (f"  {text()}\n", None),
    (text(firmware="1.2", colour="red"), None),
    (text(value="3.000001"), None),
    (text(time="2026-01-01T13:00:00+01:00"), None),
    (None, "no value"),
    ("", "not one JSON object"),
    ("null", "not one JSON object"),
    ("[]", "not one JSON object"),
    (f"[{text()}]", "not one JSON object"),
    (f"{text()} garbage", "not one JSON object"),
    (f"{text()}{text()}", "not one JSON object"),
    (f"{text()},{text()}", "not one JSON object"),
    (f"{text()}] garbage", "not one JSON object"),
    (text()[:-1], "not one JSON object"),
    (text(value=float("nan")), "not one JSON object"),
    (text(event_id=None), "no event_id"),
    (text(device_id=""), "no device_id"),
    (text(kind="k" * 65), "kind is longer than 64"),
    (text(time=None), "no time"),
    (text(time="2026-01-01"), "time is not RFC 3339 with a zone"),
    (text(time="2026-01-01T12:00:00"), "time is not RFC 3339 with a zone"),
    (text(time="2026-13-01T12:00:00Z"), "time is not RFC 3339 with a zone"),
    (text(time=1767268800), "time is not RFC 3339 with a zone"),
    (text(value=None), "no decimal number as value"),
    (text(time="2026-01-01T12:01:01Z"), "time is too far in the future"),
    (text(time="2027-01-01T12:00:00Z"), "time is too far in the future"),
    (text(time="2026-01-01T10:59:59Z"), "time is too far in the past"),
]


@pytest.fixture(scope="module")
def records(spark):
    rows = [
        (b"k", None if value is None else value.encode(), "events", 3, offset, RECEIVED, [("trace", b"1")])
        for offset, (value, _) in enumerate(CASES)
    ]
    return checked(spark.createDataFrame(rows, COLUMNS), BOUNDS).cache()


def test_each_record_has_the_reason_why_it_is_no_event(records):
    found = {row.offset: row.reason for row in records.select("offset", "reason").collect()}
    assert found == {offset: reason for offset, (_, reason) in enumerate(CASES)}


def test_valid_events_have_their_fields_and_their_origin(records):
    found = {row.origin.offset: row for row in valid(records).collect()}
    assert found.keys() == {offset for offset, (_, reason) in enumerate(CASES) if reason is None}
    assert {row.origin.topic for row in found.values()} == {"events"}
    assert found[0].value == Decimal("21.5")
    assert found[2].firmware == "1.2"
    assert found[3].value == Decimal("3.000001")
    assert [found[number].time.timestamp() for number in (0, 4)] == [RECEIVED.timestamp() + 0.25, RECEIVED.timestamp()]


def test_dead_letters_keep_the_record_and_name_its_origin(records):
    found = {dict(row.headers)["offset"].decode(): row for row in dead_letters(records, ORIGIN).collect()}
    assert len(found) == sum(reason is not None for _, reason in CASES)
    row = found["10"]
    assert (bytes(row.key), bytes(row.value)) == (b"k", CASES[10][0].encode())
    headers = {name: bytes(value) for name, value in row.headers}
    assert headers["trace"] == b"1"
    assert headers["reason"] == b"not one JSON object"
    assert headers["partition"] == b"3"
