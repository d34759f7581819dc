"""Batches that a broker must not store (rows 42 and 43): each has its error code, and none is stored."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable

import cramjam
import pytest
from crc32c import crc32c

from kwire.log.batch_opening import DECOMPRESSED_BYTES_LIMIT, DECOMPRESSED_BYTES_MIN, DECOMPRESSED_FACTOR
from kwire.protocol.compression import (
    ZSTD_WINDOW_BYTES_MAX,
    Codec,
    CompressionError,
    DecompressedTooLargeError,
    compress,
    decompress,
)
from kwire.protocol.error_codes import ErrorCode
from kwire.server.network.memory.memory_return import resident_bytes
from tests.security.exploits import ATTRIBUTES, CRC, with_attributes
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce

E = ErrorCode
MIB = 1024 * 1024
LENGTH, MAGIC, LAST_DELTA, MAX_TIMESTAMP, PRODUCER_ID, SEQUENCE, COUNT, RECORDS = 8, 16, 23, 35, 43, 53, 57, 61
CONTROL = 0x20


def patched(data: bytes, position: int, format_: str, value: int, *, checks: bool = True) -> bytes:
    """Return a batch with another field, and with a matching CRC if `checks`."""
    changed = bytearray(data)
    struct.pack_into(format_, changed, position, value)
    if checks:
        struct.pack_into(">I", changed, CRC, crc32c(bytes(changed[ATTRIBUTES:])))
    return bytes(changed)


PLAIN = batch(b"one", b"two")
BATCHES: dict[str, tuple[bytes, ErrorCode]] = {
    "larger than max.message.bytes": (batch(bytes(60_000)), E.MESSAGE_TOO_LARGE),
    "another CRC": (patched(PLAIN, CRC, ">I", 7, checks=False), E.CORRUPT_MESSAGE),
    "a flipped bit": (PLAIN[:-1] + bytes([PLAIN[-1] ^ 1]), E.CORRUPT_MESSAGE),
    "one record too many": (patched(PLAIN, COUNT, ">i", 3), E.INVALID_RECORD),
    "no records": (patched(PLAIN, COUNT, ">i", 0), E.INVALID_RECORD),
    "negative count": (patched(PLAIN, COUNT, ">i", -1), E.INVALID_RECORD),
    "last offset delta above the count": (patched(PLAIN, LAST_DELTA, ">i", 5), E.INVALID_RECORD),
    "negative last offset delta": (patched(PLAIN, LAST_DELTA, ">i", -1), E.INVALID_RECORD),
    "control flag": (with_attributes(PLAIN, CONTROL), E.INVALID_RECORD),
    "negative sequence": (patched(PLAIN, PRODUCER_ID, ">q", 7), E.INVALID_RECORD),
    "two batches": (PLAIN + PLAIN, E.INVALID_RECORD),
    "half a batch": (PLAIN[:-10], E.INVALID_RECORD),
    "nothing": (b"", E.INVALID_RECORD),
    "unknown codec": (with_attributes(PLAIN, 5), E.UNSUPPORTED_COMPRESSION_TYPE),
    "magic 1": (patched(PLAIN, MAGIC, ">b", 1, checks=False), E.INVALID_RECORD),
    "magic 3": (patched(PLAIN, MAGIC, ">b", 3, checks=False), E.CORRUPT_MESSAGE),
    "length below a header": (patched(PLAIN, LENGTH, ">i", 10, checks=False), E.CORRUPT_MESSAGE),
    "a record that is longer than the batch": (patched(PLAIN, RECORDS, ">B", 0x7E), E.INVALID_RECORD),
}


@pytest.mark.parametrize("name", BATCHES)
def test_row_42_a_batch_that_breaks_a_rule_is_rejected(client: RawClient, name: str) -> None:
    data, code = BATCHES[name]
    topic, _ = create_topic(client, max_message_bytes=50_000)
    assert produce(client, topic, data).error_code == code
    assert fetch(client, topic).high_watermark == 0


def test_row_42_a_batch_above_the_segment_is_rejected(client: RawClient) -> None:
    topic, _ = create_topic(client, segment_bytes=1_048_576, max_message_bytes=2_000_000)
    assert produce(client, topic, batch(bytes(1_100_000))).error_code == E.RECORD_LIST_TOO_LARGE
    assert fetch(client, topic).high_watermark == 0


def test_row_42_timestamps_outside_of_the_bounds_are_rejected(client: RawClient) -> None:
    hour = 3_600_000
    topic, _ = create_topic(client, message_timestamp_before_max_ms=hour, message_timestamp_after_max_ms=hour)
    now = int(time.time() * 1000)
    for timestamp in (now - 2 * hour, now + 2 * hour):
        assert produce(client, topic, batch(b"v", timestamp=timestamp)).error_code == E.INVALID_TIMESTAMP
    assert produce(client, topic, batch(b"v", timestamp=now)).error_code == E.NONE


def test_row_42_a_record_without_a_key_is_rejected_by_a_compacted_topic(client: RawClient) -> None:
    topic, _ = create_topic(client, cleanup_policy="compact")
    for codec in (Codec.NONE, Codec.GZIP, Codec.ZSTD):
        assert produce(client, topic, batch(b"v", key=None, codec=codec)).error_code == E.INVALID_RECORD
    assert fetch(client, topic).high_watermark == 0


@pytest.mark.parametrize(("version", "code"), [(6, E.UNSUPPORTED_COMPRESSION_TYPE), (7, E.NONE)])
def test_row_42_zstd_needs_a_version_that_has_it(client: RawClient, version: int, code: ErrorCode) -> None:
    topic, _ = create_topic(client)
    assert produce(client, topic, batch(b"v", codec=Codec.ZSTD), version=version).error_code == code


def test_row_42_the_size_is_checked_before_the_crc_and_both_before_decompression(client: RawClient) -> None:
    """A broken batch that is too large is too large; a bomb with a wrong CRC is never opened."""
    topic, _ = create_topic(client, max_message_bytes=50_000, cleanup_policy="compact")
    large = patched(batch(bytes(60_000)), CRC, ">I", 7, checks=False)
    assert produce(client, topic, large).error_code == E.MESSAGE_TOO_LARGE
    bomb = patched(compressed(Codec.GZIP, bytes(40 * MIB)), CRC, ">I", 7, checks=False)
    before = resident_bytes()
    assert produce(client, topic, bomb).error_code == E.CORRUPT_MESSAGE
    assert resident_bytes() - before < 8 * MIB


# --- row 43


def compressed(codec: Codec, body: bytes) -> bytes:
    """Return a batch of one record whose compressed body decompresses to `body`."""
    data = with_attributes(batch(b"v"), codec)[:RECORDS] + compress(codec, body)
    return patched(data, LENGTH, ">i", len(data) - 12)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.LZ4])
def test_row_43_a_bomb_is_rejected_at_its_cap(client: RawClient, codec: Codec) -> None:
    assert (DECOMPRESSED_FACTOR, DECOMPRESSED_BYTES_MIN, DECOMPRESSED_BYTES_LIMIT) == (8, 8 * MIB, 64 * MIB)
    topic, _ = create_topic(client, cleanup_policy="compact")
    bomb = compressed(codec, bytes(200 * MIB))
    before = resident_bytes()
    assert produce(client, topic, bomb).error_code == E.MESSAGE_TOO_LARGE
    assert resident_bytes() - before < 64 * MIB
    assert fetch(client, topic).high_watermark == 0


def snappy_that_declares(size: int) -> bytes:
    encoded = bytearray()
    while size > 127:
        encoded.append(size & 127 | 128)
        size >>= 7
    return bytes(encoded + bytes([size])) + b"\x00a"


def zstd_frame(*, window_log: int, size: int = 0) -> bytes:
    """Return a frame with an empty last block; with a size it is a single segment, whose window is its content."""
    magic, last_block = b"\x28\xb5\x2f\xfd", b"\x01\x00\x00"
    if size:
        return magic + bytes([0xA0]) + struct.pack("<I", size) + last_block
    return magic + bytes([0x00, (window_log - 10) << 3]) + last_block


SKIPPED = struct.pack("<II", 0x184D2A53, 5) + b"12345"
HONEST = bytes(cramjam.zstd.compress(b"honest" * 100))


@pytest.mark.parametrize(
    "data",
    [
        zstd_frame(window_log=31),
        zstd_frame(window_log=24),
        SKIPPED + zstd_frame(window_log=27),
        HONEST + zstd_frame(window_log=27),
        HONEST + SKIPPED + HONEST + zstd_frame(window_log=27),
        zstd_frame(window_log=0, size=100 * MIB),
        HONEST + zstd_frame(window_log=0, size=100 * MIB),
    ],
    ids=[
        "2 GiB",
        "16 MiB",
        "after a skipped frame",
        "second frame",
        "fourth frame",
        "single segment",
        "second segment",
    ],
)
def test_row_43_a_zstd_frame_cannot_ask_for_a_large_window(data: bytes) -> None:
    assert ZSTD_WINDOW_BYTES_MAX == 8 * MIB
    before = resident_bytes()
    with pytest.raises(DecompressedTooLargeError, match="window"):
        decompress(Codec.ZSTD, data, 8 * MIB)
    assert resident_bytes() - before < MIB


def test_row_43_valid_zstd_frames_are_decompressed() -> None:
    data = HONEST + SKIPPED + bytes(cramjam.zstd.compress(bytes(300_000)))
    assert decompress(Codec.ZSTD, data) == b"honest" * 100 + bytes(300_000)


def test_row_43_zstd_data_of_tiny_blocks_are_rejected_soon() -> None:
    head = zstd_frame(window_log=17)[:-3]
    data = head + b"\x00\x00\x00" * 300_000 + b"\x01\x00\x00"
    with pytest.raises(CompressionError, match="blocks"):
        decompress(Codec.ZSTD, data, 8 * MIB)


@pytest.mark.parametrize("size", [2**32 - 1, 2**31 - 1, 100 * MIB])
def test_row_43_a_length_in_snappy_data_is_not_trusted(size: int) -> None:
    before = resident_bytes()
    with pytest.raises(CompressionError):
        decompress(Codec.SNAPPY, snappy_that_declares(size), 64 * MIB)
    assert resident_bytes() - before < MIB


def gzip_bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return packer.compress(bytes(size)) + packer.flush()


@pytest.mark.parametrize(
    "make",
    [lambda: gzip_bomb(100 * MIB), lambda: gzip_bomb(5 * MIB) * 20, lambda: gzip_bomb(0) * 1000 + gzip_bomb(100 * MIB)],
    ids=["one member", "many members", "empty members first"],
)
def test_row_43_gzip_stops_at_the_cap(make: Callable[[], bytes]) -> None:
    data = make()
    before = resident_bytes()
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.GZIP, data, 8 * MIB)
    assert resident_bytes() - before < 24 * MIB
