"""Records that every client sends: each unusual kind of record, with known bytes."""

import random
from dataclasses import dataclass, field

#: Fixed time (2024-07-03), so that a sent timestamp differs from one that a broker sets.
FIRST_TIMESTAMP_MS = 1_720_000_000_000
TIMESTAMP_STEP_MS = 10

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Header = tuple[str, bytes | None]


@dataclass(slots=True, kw_only=True, frozen=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = field(default=FIRST_TIMESTAMP_MS)


ALL_BYTES = bytes(range(256))
HEADERS: tuple[tuple[Header, ...], ...] = (
    (),
    (("trace", b"\x00\x01"),),
    (("same", b"first"), ("same", b"second"), ("other", b"")),
    (("grüße-日本", "ключ".encode()), ("", b"the name is empty")),
)
NULL_HEADER: tuple[Header, ...] = (("null", None), ("same", b"x"), ("same", None))


def varied_records(count: int = 40, *, null_headers: bool = True, both_null: bool = True) -> list[Record]:
    """Return records of all kinds in a fixed order; the switches omit kinds that a client cannot send."""
    random_source = random.Random(20240703)
    header_sets = (*HEADERS, NULL_HEADER) if null_headers else HEADERS
    values = _values(random_source)
    keys = [None, b"key", b"", ALL_BYTES, "schlüssel".encode()]
    records = []
    for index in range(count):
        value, key = values[index % len(values)], keys[index % len(keys)]
        if value is None and key is None and not both_null:
            key = b"only key"
        records.append(
            Record(
                value=value,
                key=key,
                headers=header_sets[index % len(header_sets)],
                timestamp_ms=FIRST_TIMESTAMP_MS + index * TIMESTAMP_STEP_MS,
            )
        )
    return records


def _values(random_source: random.Random) -> list[bytes | None]:
    return [
        b"plain",
        None,
        b"",
        ALL_BYTES,
        b"compresses well " * 600,
        random_source.randbytes(3000),
        b"\xff" * 7,
        b"{}",
    ]


def numbered(count: int, start: int = 0) -> list[Record]:
    """Return small records whose value is their number: for order, gaps and duplicates."""
    return [
        Record(
            value=b"%d" % number,
            key=b"k%d" % (number % 7),
            timestamp_ms=FIRST_TIMESTAMP_MS + number * TIMESTAMP_STEP_MS,
        )
        for number in range(start, start + count)
    ]


def large_value(size: int) -> bytes:
    """Return bytes that no codec compresses well."""
    return random.Random(size).randbytes(size)
