"""Record keys of a batch for compaction: equal for each layout, and damage raises an error."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwire.log.record_keys import keyed_records
from kwire.protocol.records import InvalidRecordsError, Record, encode_record

Field = bytes | None


def body_of(records: Sequence[tuple[int, int, Field, Field]]) -> tuple[bytes, list[int]]:
    """Return the body of (offset delta, timestamp delta, key, value) records, each record's start, and the last one's
    end.
    """
    body = bytearray()
    starts = [0]
    for offset_delta, timestamp_delta, key, value in records:
        encode_record(body, Record(key=key, value=value), offset_delta, timestamp_delta)
        starts.append(len(body))
    return bytes(body), starts


ALIKE = range(20)
LAYOUTS: dict[str, list[tuple[int, int, Field, Field]]] = {
    "tombstones": [(index, 0, b"%02d" % index, None) for index in ALIKE],
    "without keys": [(index, 0, None, b"value") for index in ALIKE],
    "without keys and values": [(index, 0, None, None) for index in ALIKE],
    "empty keys and values": [(index, 0, b"", b"") for index in ALIKE],
    "deltas of one, two and three bytes": [(index, 0, b"%04d" % index, b"v") for index in range(8300)],
    "wide deltas from the first record on": [(20_000 + index, 0, b"%02d" % index, b"v") for index in ALIKE],
    "of one size, but for the widths of their deltas": [
        (62 + index, 100 if index < 2 else 1, b"%02d" % index, b"v") for index in ALIKE
    ],
    "tombstones among others": [(index, 0, b"%02d" % index, None if index % 3 else b"v") for index in range(100)],
    "long keys and values": [(index, index * 70, b"k" * index, b"v" * (9000 * (index % 2))) for index in range(70)],
}


@pytest.mark.parametrize("records", LAYOUTS.values(), ids=LAYOUTS)
def test_records_of_each_layout_are_found(records: list[tuple[int, int, Field, Field]]) -> None:
    body, starts = body_of(records)
    found = keyed_records(body, len(records))
    assert found.keys == [key for _, _, key, _ in records]
    assert found.offset_deltas == [delta for delta, _, _, _ in records]
    assert found.starts == starts
    assert found.tombstones == {index for index, record in enumerate(records) if record[3] is None}


SOUND, _ = body_of(LAYOUTS["empty keys and values"])
FEW, _ = body_of([(index, 0, b"key", b"value") for index in range(3)])


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param(SOUND, 21, id="fewer records than declared"),
        pytest.param(SOUND, 19, id="more records than declared"),
        pytest.param(SOUND[:-1], 20, id="the last record ends early"),
        pytest.param(FEW[:-1], 3, id="the last of a few records ends early"),
        pytest.param(FEW + b"\x00", 3, id="a byte too many"),
        pytest.param(b"", 1, id="no record at all"),
        pytest.param(b"\x80" * 20, 1, id="a varint without an end"),
        pytest.param(b"\x02" + FEW[1:], 3, id="a record shorter than its fields"),
        pytest.param(FEW[:8] + b"\x40" + FEW[9:], 3, id="a value longer than its record"),
        pytest.param((b"\x08" + bytes(4)) * 20, 20, id="records without room for a header count"),
        pytest.param(bytes(20), 20, id="records without a byte"),
    ],
)
def test_a_body_that_is_not_its_records_is_rejected(body: bytes, count: int) -> None:
    with pytest.raises(InvalidRecordsError):
        keyed_records(body, count)
