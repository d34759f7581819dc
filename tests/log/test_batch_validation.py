"""Validation of batches: Kafka's error for each kind of bad batch, and the fields that are changed in good ones."""

from __future__ import annotations

import struct

import pytest

from kwire.log.batch_validation import AppendOrigin, check_assigned_offsets, check_frame, validate_batch
from kwire.log.config import INT64_MAX, LogConfig
from kwire.log.record_walk import FAULTS_MAX
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import (
    BatchHeader,
    Record,
    assemble_batch,
    crc_matches,
    decode_batch,
    encode_batch,
    parse_header,
)
from tests.log.support import NOW_MS, batch, changed, marker


def validated(
    data: bytes | bytearray, config: LogConfig | None = None, origin: AppendOrigin = AppendOrigin.CLIENT
) -> tuple[bytes, BatchHeader]:
    batch = bytes(data)
    return validate_batch(batch, check_frame(batch), config or LogConfig(), origin, NOW_MS)


def rejection(data: bytes | bytearray, config: LogConfig | None = None) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        validated(data, config)
    return caught.value.code


def with_header(data: bytearray, **changes: int) -> bytearray:
    """Return the batch with other header fields and a correct CRC."""
    return assemble_batch(changed(parse_header(data), **changes), bytes(data[61:]))


def patched(data: bytearray, layout: str, position: int, value: int) -> bytearray:
    """Return the batch with one field changed, and its CRC unchanged."""
    struct.pack_into(layout, data, position, value)
    return data


GOOD = batch(b"one", b"two", b"three")


def test_a_valid_batch_is_stored_unchanged():
    data, header = validated(GOOD)
    assert bytes(data) == bytes(GOOD)
    assert header.record_count == 3


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("nothing", b"", ErrorCode.INVALID_RECORD),
        ("a few bytes", bytes(GOOD[:12]), ErrorCode.INVALID_RECORD),
        ("half a batch", bytes(GOOD[:70]), ErrorCode.INVALID_RECORD),
        ("two batches", bytes(GOOD + GOOD), ErrorCode.INVALID_RECORD),
        ("a batch and some bytes", bytes(GOOD + b"rest"), ErrorCode.INVALID_RECORD),
        ("message format 1", patched(batch(), ">b", 16, 1), ErrorCode.INVALID_RECORD),
        ("message format 3", patched(batch(), ">b", 16, 3), ErrorCode.CORRUPT_MESSAGE),
        ("negative length", patched(batch(), ">i", 8, -5), ErrorCode.CORRUPT_MESSAGE),
        ("small length", patched(batch(), ">i", 8, 20), ErrorCode.CORRUPT_MESSAGE),
        ("wrong CRC", patched(batch(), ">I", 17, 1), ErrorCode.CORRUPT_MESSAGE),
        ("flipped value", patched(batch(), ">b", 65, 1), ErrorCode.CORRUPT_MESSAGE),
        ("base offset", with_header(GOOD, base_offset=7), ErrorCode.INVALID_RECORD),
        ("count too small", with_header(GOOD, record_count=2), ErrorCode.INVALID_RECORD),
        ("no count", with_header(GOOD, record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        ("negative delta", with_header(GOOD, last_offset_delta=-3), ErrorCode.INVALID_RECORD),
        ("count and delta too large", with_header(GOOD, record_count=9, last_offset_delta=8), ErrorCode.INVALID_RECORD),
        ("control batch", with_header(GOOD, attributes=0x20), ErrorCode.INVALID_RECORD),
        ("producer without sequence", with_header(GOOD, producer_id=5), ErrorCode.INVALID_RECORD),
        ("codec 5", with_header(GOOD, attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ("late timestamps", batch(timestamp=NOW_MS + 3600_001), ErrorCode.INVALID_TIMESTAMP),
        ("late compressed", batch(timestamp=NOW_MS + 3600_001, codec=Codec.ZSTD), ErrorCode.INVALID_TIMESTAMP),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_batch_gets_kafkas_code(name, data, code):
    assert rejection(data) is code


NO_INDEX = b"\xfe" + b"\xff" * 8 + b"\x7f"
"""A length of ten bytes: the next position after it is above 2^63."""


def record_body(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return bytes([len(body) * 2]) + body


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("length beyond the batch", b"\x40" + b"\x00" * 6),
        ("negative length", b"\x0d" + b"\x00\x00\x00\x01\x01\x00"),
        ("wrong offset delta", record_body(b"\x00\x00\x02\x01\x01\x00")),
        ("negative offset delta", record_body(b"\x00\x00\x01\x01\x01\x00")),
        ("key beyond the record", record_body(b"\x00\x00\x00\x20\x01\x00")),
        ("negative key length", record_body(b"\x00\x00\x00\x03\x01\x00")),
        ("negative value length", record_body(b"\x00\x00\x00\x01\x05\x00")),
        ("value beyond the record", record_body(b"\x00\x00\x00\x01\x7e\x00")),
        ("negative header count", record_body(b"\x00\x00\x00\x01\x01\x01")),
        ("header count beyond the record", record_body(b"\x00\x00\x00\x01\x01\x7e")),
        ("header without a name", record_body(b"\x00\x00\x00\x01\x01\x02\x01\x01")),
        ("header value beyond the record", record_body(b"\x00\x00\x00\x01\x01\x02\x00\x7e")),
        ("header value that ends in what follows", record_body(b"\x00\x00\x00\x01\x01\x02\x00\x06")),
        ("key whose end is no index", record_body(b"\x00\x00\x00" + NO_INDEX + b"\x01\x00")),
        ("value whose end is no index", record_body(b"\x00\x00\x00\x01" + NO_INDEX + b"\x00")),
        ("header name whose end is no index", record_body(b"\x00\x00\x00\x01\x01\x02" + NO_INDEX + b"\x00")),
        ("header value whose end is no index", record_body(b"\x00\x00\x00\x01\x01\x04\x00" + NO_INDEX + b"\x00")),
        ("bytes behind the fields", record_body(b"\x00\x00\x00\x01\x01\x00\x00")),
        ("endless varint", b"\xff" * 12),
        ("nothing", b""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_records_are_rejected(name, body):
    header = changed(parse_header(batch()), record_count=1, last_offset_delta=0)
    assert rejection(assemble_batch(header, body)) is ErrorCode.INVALID_RECORD


def test_a_batch_larger_than_the_topic_allows_is_rejected():
    config = LogConfig(max_message_bytes=len(GOOD) - 1)
    assert rejection(GOOD, config) is ErrorCode.MESSAGE_TOO_LARGE
    assert validated(GOOD, LogConfig(max_message_bytes=len(GOOD)))[1].record_count == 3


def test_a_wrong_base_offset_is_reported_before_the_size():
    config = LogConfig(max_message_bytes=len(GOOD) - 1)
    assert rejection(with_header(GOOD, base_offset=7), config) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compacted_topic_needs_keys(codec):
    config = LogConfig(cleanup_policy=("compact",))
    assert rejection(batch(b"value", key=None, codec=codec), config) is ErrorCode.INVALID_RECORD
    assert validated(batch(b"value", key=b"", codec=codec), config)[1].codec is codec


def test_a_rejected_batch_lists_its_invalid_records():
    records = [Record(key=b"a"), Record(key=None), Record(key=b"b"), Record(key=None)]
    with pytest.raises(KafkaError) as caught:
        validated(encode_batch(records), LogConfig(cleanup_policy=("compact", "delete")))
    assert [index for index, _ in caught.value.record_errors] == [1, 3]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_old_timestamps_are_rejected_where_the_topic_bounds_them(codec):
    config = LogConfig(message_timestamp_before_max_ms=1000)
    records = [Record(timestamp=NOW_MS), Record(timestamp=NOW_MS - 1001)]
    assert rejection(encode_batch(records, codec=codec), config) is ErrorCode.INVALID_TIMESTAMP
    records[1].timestamp = NOW_MS - 1000
    assert validated(encode_batch(records, codec=codec), config)[1].record_count == 2


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_timestamp_above_int64_is_rejected_even_without_timestamp_bounds(codec):
    config = LogConfig(message_timestamp_after_max_ms=INT64_MAX)
    records = [Record(timestamp=INT64_MAX), Record(timestamp=INT64_MAX)]
    assert validated(encode_batch(records, codec=codec), config)[1].max_timestamp == INT64_MAX
    data = with_header(encode_batch([Record(timestamp=0), Record(timestamp=1)], codec=codec), base_timestamp=INT64_MAX)
    assert rejection(data, config) is ErrorCode.INVALID_TIMESTAMP


def test_records_without_timestamp_are_taken():
    _, header = validated(batch(timestamp=-1), LogConfig(message_timestamp_before_max_ms=1000))
    assert header.max_timestamp == -1


def test_a_wrong_max_timestamp_is_corrected():
    data, header = validated(with_header(GOOD, max_timestamp=NOW_MS + 50))
    assert header.max_timestamp == NOW_MS
    assert crc_matches(data, 0, header)


@pytest.mark.parametrize("codec", list(Codec))
def test_log_append_time_stamps_the_batch(codec):
    config = LogConfig(message_timestamp_type="LogAppendTime")
    data, header = validated(batch(b"a", b"b", timestamp=5, codec=codec), config)
    assert header.is_log_append_time
    assert crc_matches(data, 0, header)
    assert [record.timestamp for record in decode_batch(data)] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_clients_must_not_set_log_append_time_themselves(codec):
    data = encode_batch([Record()], codec=codec, log_append_time=NOW_MS)
    assert rejection(data, LogConfig(message_timestamp_type="LogAppendTime")) is ErrorCode.INVALID_TIMESTAMP


def test_a_create_time_topic_clears_the_log_append_time_flag():
    data, header = validated(encode_batch([Record(timestamp=3)], log_append_time=NOW_MS))
    assert not header.is_log_append_time
    assert header.max_timestamp == NOW_MS
    assert crc_matches(data, 0, header)


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", list(Codec))
def test_a_batch_is_recompressed_with_the_codec_of_the_topic(source, target):
    sent = batch(b"a" * 100, b"b" * 100, codec=source, producer_id=4, producer_epoch=1, sequence=8)
    data, header = validated(sent, LogConfig(compression_type=target))
    assert header.codec.name.lower() == target.replace("uncompressed", "none")
    assert crc_matches(data, 0, header)
    assert [record.value for record in decode_batch(data)] == [b"a" * 100, b"b" * 100]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 8)


def test_a_conversion_that_grows_beyond_the_limit_is_rejected():
    sent = batch(b"a" * 5000, codec=Codec.GZIP)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=1000)
    assert rejection(sent, config) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_bomb_is_rejected_when_it_must_be_opened():
    bomb = encode_batch([Record(key=b"k", value=bytes(20_000_000))], codec=Codec.GZIP)
    config = LogConfig(cleanup_policy=("compact",), max_message_bytes=100_000)
    assert rejection(bomb, config) is ErrorCode.MESSAGE_TOO_LARGE


def test_garbage_in_a_compressed_body_is_rejected_when_it_must_be_opened():
    header = parse_header(batch(codec=Codec.GZIP))
    data = assemble_batch(header, b"this is not gzip")
    assert rejection(data, LogConfig(cleanup_policy=("compact",))) is ErrorCode.CORRUPT_MESSAGE
    assert validated(data)[1].codec is Codec.GZIP


def test_coordinators_may_write_markers_and_skip_sequences():
    data, header = validated(marker(5, 0, commit=True), origin=AppendOrigin.COORDINATOR)
    assert header.is_control
    records = encode_batch([Record(key=b"k", timestamp=NOW_MS)], producer_id=5, producer_epoch=0, transactional=True)
    assert validated(records, origin=AppendOrigin.COORDINATOR)[1].is_transactional
    assert crc_matches(data, 0, header)


@pytest.mark.parametrize(
    "lie",
    [{"max_timestamp": 0}, {"max_timestamp": 2**62}, {"base_timestamp": -5}, {"base_timestamp": 2**62}],
    ids=str,
)
def test_a_compressed_batch_with_impossible_header_timestamps_is_decompressed(lie: dict[str, int]) -> None:
    plain, compressed = batch(b"one", b"two"), batch(b"one", b"two", codec=Codec.GZIP)
    outcomes: list[object] = []
    for data in (plain, compressed):
        try:
            outcomes.append(validated(with_header(data, **lie))[1].max_timestamp)
        except KafkaError as error:
            outcomes.append((error.code, [index for index, _ in error.record_errors]))
    assert outcomes[0] == outcomes[1], "whether it is compressed or not"


def test_a_compressed_batch_with_valid_header_is_not_decompressed():
    sent = assemble_batch(parse_header(batch(b"one", codec=Codec.GZIP)), b"no gzip at all")
    assert bytes(validated(sent)[0]) == bytes(sent)


def fragment(length: int, magic: int, size: int) -> bytes:
    """Return the first bytes of a batch, fewer than a header has."""
    return (struct.pack(">qiib", 0, length, 0, magic) + bytes(60))[:size]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(fragment(100, 2, 11), ErrorCode.INVALID_RECORD, id="no length"),
        pytest.param(fragment(100, 2, 60), ErrorCode.INVALID_RECORD, id="a part of a batch"),
        pytest.param(fragment(13, 2, 40), ErrorCode.CORRUPT_MESSAGE, id="smaller than any header"),
        pytest.param(fragment(13, 2, 12), ErrorCode.CORRUPT_MESSAGE, id="smaller than any header, and no magic"),
        pytest.param(fragment(100, 3, 40), ErrorCode.CORRUPT_MESSAGE, id="a part of a batch of an unknown magic"),
        pytest.param(fragment(5, 1, 61), ErrorCode.CORRUPT_MESSAGE, id="of magic 1, smaller than any header"),
        pytest.param(fragment(-1, 2, 60), ErrorCode.CORRUPT_MESSAGE, id="a negative length"),
        pytest.param(fragment(14, 0, 26), ErrorCode.INVALID_RECORD, id="whole, of magic 0"),
        pytest.param(fragment(22, 1, 60), ErrorCode.INVALID_RECORD, id="whole, of magic 1"),
        pytest.param(fragment(48, 2, 60), ErrorCode.CORRUPT_MESSAGE, id="whole, of magic 2"),
        pytest.param(fragment(48, 3, 60), ErrorCode.CORRUPT_MESSAGE, id="whole, of an unknown magic"),
    ],
)
def test_less_than_a_header_gets_kafkas_code(data: bytes, code: ErrorCode) -> None:
    assert rejection(data) is code


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_a_leaders_batch_of_an_impossible_length_is_corrupt(length: int) -> None:
    whole = bytes(batch(b"a"))
    data = whole + bytes(patched(bytearray(batch(b"b")), ">i", 8, length))
    with pytest.raises(KafkaError) as caught:
        check_assigned_offsets(memoryview(data), 0, None)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_rejected_batch_lists_a_bounded_number_of_invalid_records() -> None:
    compacted = LogConfig(cleanup_policy=("compact",))
    with pytest.raises(KafkaError) as caught:
        validated(batch(*[b"v"] * (FAULTS_MAX + 1), key=None), compacted)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == list(range(FAULTS_MAX))


def test_a_batch_of_very_many_records_is_taken_and_checked() -> None:
    """The batch has more records than the table of the fast walk has entries."""
    many = batch(*[b"v"] * 9000)
    assert validated(many)[0] == bytes(many)
    body = bytearray(many[61:])
    body[-1] = 2  # the header count of the last record
    assert rejection(with_body(many, body)) is ErrorCode.INVALID_RECORD


def with_body(data: bytearray, body: bytearray) -> bytearray:
    return assemble_batch(parse_header(data), bytes(body))
