"""Fast and thorough record walk: both agree with decoding, and with each other, on any input."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwire.chunks import at_once
from kwire.log.record_walk import WalkRules, walk_plain, walk_records
from kwire.protocol.records import InvalidRecordsError, Record, encode_batch, iterate_records, parse_header
from tests.log.support import changed

RULES = WalkRules(needs_key=False, oldest=-(2**62), newest=2**62, fixed_timestamp=None)

records_strategy = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=300),
        timestamp=st.integers(0, 20_000) | st.integers(0, 2**40),
        headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=150,
)


@given(records_strategy)
def test_both_record_walks_accept_encoded_batches(records):
    data = encode_batch(records)
    header = parse_header(data)
    body = bytes(data[61:])
    largest = max(record.timestamp for record in records)
    assert at_once(walk_records(body, len(records), header.base_timestamp, RULES, [])) == largest
    span = walk_plain(body, len(records), needs_key=False)
    if span is not None:
        assert header.base_timestamp + span[1] == largest
        assert header.base_timestamp + span[0] == min(record.timestamp for record in records)


def test_the_fast_walk_handles_ordinary_batches():
    """A fast walk that gives up on ordinary batches would be useless."""
    for size in (0, 10, 63, 64, 100, 5000):
        records = [Record(value=b"x" * size, key=None if size % 2 else b"k", timestamp=i * 20) for i in range(300)]
        body = bytes(encode_batch(records)[61:])
        assert walk_plain(body, 300, needs_key=False) == (0, 299 * 20)


def test_the_fast_walk_leaves_missing_keys_to_the_thorough_one():
    body = bytes(encode_batch([Record(value=b"v")])[61:])
    assert walk_plain(body, 1, needs_key=False) == (0, 0)
    assert walk_plain(body, 1, needs_key=True) is None


def well_formed(body: bytes, count: int) -> bool:
    header = changed(parse_header(encode_batch([Record(timestamp=0)])), record_count=count)
    with contextlib.suppress(InvalidRecordsError):
        records = list(iterate_records(header, body))
        return [record.offset for record in records] == list(range(count))
    return False


@given(records_strategy, st.data())
def test_both_record_walks_agree_on_damaged_bodies(records, data):
    records = records[:5]
    body = bytearray(encode_batch(records)[61:])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    agree(bytes(body), len(records))


alike_strategy = st.builds(
    lambda count, size, key, steps: [
        Record(key=key, value=bytes(size), timestamp=index // 8 * steps[index % len(steps)]) for index in range(count)
    ],
    st.integers(8, 200),
    st.integers(0, 130),
    st.sampled_from([None, b"", b"key", bytes(70)]),
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
)


@given(alike_strategy)
def test_the_fast_walk_handles_records_of_equal_layout(records):
    data = encode_batch(records)
    body = bytes(data[61:])
    stamps = [record.timestamp - records[0].timestamp for record in records]
    span = walk_plain(body, len(records), needs_key=False)
    assert span == (0, max(stamps)) or len(records[0].key or b"") == 70
    assert walk_plain(body, len(records) - 1, needs_key=False) is None
    agree(body, len(records) + 1)
    if records[0].key is None:
        assert walk_plain(body, len(records), needs_key=True) is None


@given(alike_strategy, st.data())
def test_both_record_walks_agree_on_damage_among_records_of_equal_layout(records, data):
    body = bytearray(encode_batch(records)[61:])
    start = len(body) // len(records) * data.draw(st.integers(0, len(records) - 1))
    for _ in range(data.draw(st.integers(1, 2))):
        at = min(start + data.draw(st.integers(-3, 12)), len(body) - 1)
        body[max(at, 0)] = data.draw(st.integers(0, 255))
    agree(bytes(body), len(records))


@given(st.binary(max_size=40), st.integers(0, 4))
@example(b"\x0d\x00\x00\x00\x01\x01\x00", 1)
@example(b"\x0c\x00\x00\x00\x01\x01\x00", 1)
def test_both_record_walks_agree_on_random_bytes(body, count):
    agree(body, count)


def agree(body: bytes, count: int) -> None:
    expected = well_formed(body, count)
    if expected:
        at_once(walk_records(body, count, 0, RULES, []))
    else:
        with pytest.raises(InvalidRecordsError):
            at_once(walk_records(body, count, 0, RULES, []))
        assert walk_plain(body, count, needs_key=False) is None
