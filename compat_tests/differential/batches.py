"""Record batches for Produce: valid batches, batches with wrong header fields, and arbitrary bytes."""

import struct
import time

from compat_tests.differential.lazy import Known, Made
from compat_tests.differential.random_source import RandomSource
from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS
from kwire.protocol.compression import Codec
from kwire.protocol.records import BATCH_HEADER, BATCH_HEADER_BYTES, Record, encode_batch, seal

HOUR_MS = 3_600_000
#: Position, layout and values of a wrong header field; the CRC is recomputed except for the last field.
LIES = {
    "base offset": (0, ">q", (7, -1, 2**40)),
    "length": (8, ">i", (0, 1, 13, 48, 49, -1, 2**31 - 1)),
    "leader epoch": (12, ">i", (0, 5, -2)),
    "magic": (16, ">b", (0, 1, 3, -1)),
    "codec": (21, ">h", (5, 7)),
    "attributes": (21, ">h", (0x08, 0x40, 0x80, 0x100, -0x8000)),
    "control": (21, ">h", (0x20, 0x30)),
    "last offset delta": (23, ">i", (0, 1, -1, 5, 2**31 - 1)),
    "base timestamp": (27, ">q", (-1, 0, 2**62, -5)),
    "max timestamp": (35, ">q", (-1, 0, 2**62, -5)),
    "producer id": (43, ">q", (9_000_001,)),
    "producer epoch": (51, ">h", (0, 3, -2)),
    "base sequence": (53, ">i", (0, 5, -2, 2**31 - 1)),
    "record count": (57, ">i", (0, 1, 2, -1, 2**31 - 1)),
    "crc": (17, ">I", (0,)),
}


def records(random_source: RandomSource, topic: str, partition: int) -> object:
    """Return the records field of one partition in a Produce request."""
    kind = random_source.one_of(
        (70, "good"), (15, "lie"), (4, "cut"), (3, "two"), (2, "junk"), (1, "empty"), (4, "time")
    )
    if kind == "empty":
        return b""
    if kind == "junk":
        return random_source.randbytes(random_source.choice((1, 12, 16, 17, 60, 61, 100)))
    made = _settings(random_source, topic, partition, strange_times=kind == "time")
    if kind == "lie":
        made["lie"] = (name := random_source.choice(sorted(LIES)), random_source.choice(LIES[name][2]))
    elif kind == "cut":
        made["keep"] = random_source.choice((11, 12, 16, 17, 50, 60, 61, 62, -1, -7))
    elif kind == "two":
        made["times"] = 2
    return Made(batch, made)


def is_unreadable(made: object) -> bool:
    """Return True if no batch boundary can be found, not even the first: Kafka then rejects the whole request."""
    if not isinstance(made, Made):
        return made != b""
    if made.values.get("transactional") or made.values.get("lie") == ("control", 0x30):
        return True
    return "keep" in made.values or made.values.get("lie", ("",))[0] in ("length", "magic")


def spoils_the_request(made: object) -> bool:
    """Return True if Kafka also rejects, or fails over, the other partitions of the request."""
    return is_unreadable(made) or (isinstance(made, Made) and made.values.get("lie", ("",))[0] == "codec")


def _settings(random_source: RandomSource, topic: str, partition: int, *, strange_times: bool) -> dict[str, object]:
    count = random_source.choice((1, 1, 1, 2, 3, 5))
    made: dict[str, object] = {
        "seed": random_source.randrange(10**6),
        "count": count,
        "codec": random_source.one_of((8, 0), (1, 1), (1, 2), (1, 3), (1, 4)),
        "transactional": random_source.often(0.01),
    }
    if strange_times:
        made["shift_ms"] = random_source.choice(
            (2 * HOUR_MS, -2 * HOUR_MS, -FIRST_TIMESTAMP_MS, 10 * 365 * 24 * HOUR_MS)
        )
    if random_source.often(0.4):
        made |= _identity(random_source, topic, partition, count)
    return made


def _identity(random_source: RandomSource, topic: str, partition: int, count: int) -> dict[str, object]:
    """Return an idempotent producer's id, epoch and sequence: mostly correct, sometimes old or never assigned."""
    number = random_source.producer()
    expected = random_source.sequences.get((number, topic, partition), 0)
    sequence = random_source.one_of(
        (75, expected), (10, max(0, expected - count)), (6, expected + 1), (4, 0), (1, 2**31 - 1)
    )
    if sequence == expected:
        random_source.sequences[number, topic, partition] = expected + count
    is_unknown = random_source.often(0.05)
    return {
        "producer_id": 9_000_000 + number if is_unknown else Known(("producer id", number), 9_000_000 + number),
        "producer_epoch": random_source.one_of((92, Known(("producer epoch", number), 0)), (3, 1), (3, 0), (1, -1)),
        "base_sequence": sequence,
    }


def batch(
    *,
    seed: int,
    count: int,
    codec: int,
    lie: tuple[str, int] | None = None,
    keep: int | None = None,
    times: int = 1,
    shift_ms: int | None = None,
    **header: object,
) -> bytes:
    """Return a batch with these settings; only the producer's identity differs between the brokers."""
    random_source = RandomSource(seed)
    first = (int(time.time() * 1000) // HOUR_MS * HOUR_MS if (shift_ms or 0) > 0 else FIRST_TIMESTAMP_MS) + (
        shift_ms or 0
    )
    made = [_record(random_source, first + index * 10) for index in range(count)]
    encoded = encode_batch(made, codec=Codec(codec), **header)
    if lie:
        _tell(encoded, *lie)
    whole = bytes(encoded) * times
    return whole[:keep] if keep is not None else whole


def _record(random_source: RandomSource, timestamp: int) -> Record:
    key = random_source.choice((b"k", b"key", b"", None))
    value = random_source.choice((b"v", b"value" * 20, b"", None, b"x" * 300))
    headers = random_source.choice(((), (), (("h", b"1"),), (("same", None), ("same", b""))))
    return Record(key=key, value=value, headers=headers, timestamp=timestamp)


def _tell(encoded: bytearray, name: str, value: int) -> None:
    position, layout, _ = LIES[name]
    if name == "codec":
        value |= BATCH_HEADER.unpack_from(encoded)[5]
    struct.pack_into(layout, encoded, position, value)
    if name != "crc" and len(encoded) >= BATCH_HEADER_BYTES:
        seal(encoded, 0, len(encoded))
