"""Record batches: round trips, comparison with kafka-python's, and damage."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.protocol.compression import Codec, CompressionError
from kwire.protocol.control_records import (
    ControlRecordType,
    EndTransactionMarker,
    control_record_key,
    control_record_type,
    decode_marker,
    encode_marker_batch,
)
from kwire.protocol.records import (
    BATCH_HEADER,
    BatchHeader,
    InvalidRecordsError,
    Record,
    crc_matches,
    decode_all,
    decode_batch,
    encode_batch,
    iterate_headers,
    parse_header,
    set_max_timestamp,
)
from kwire.protocol.wrapping import SEQUENCE_MAX, next_sequence
from tests.log.support import with_deltas

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas through a deprecated function
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

NOW_MS = 1_700_000_000_000

records_strategy = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=80),
        value=st.none() | st.binary(max_size=200),
        timestamp=st.integers(0, 2**42),
        headers=st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def content(records):
    return [(record.key, record.value, record.timestamp, list(record.headers)) for record in records]


@given(records_strategy, st.sampled_from(list(Codec)), st.integers(0, 2**60))
def test_round_trip(records, codec, base_offset):
    data = encode_batch(records, codec=codec, base_offset=base_offset)
    header = parse_header(data)
    assert header.size_in_bytes == len(data)
    assert (header.base_offset, header.last_offset) == (base_offset, base_offset + len(records) - 1)
    assert header.codec is codec
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert crc_matches(data, 0, header)
    decoded = decode_batch(data)
    assert content(decoded) == content(records)
    assert [record.offset for record in decoded] == list(range(base_offset, base_offset + len(records)))


@given(records_strategy)
def test_the_same_bytes_as_another_implementation(records):
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**20)
    for index, record in enumerate(records):
        assert builder.append(index, record.timestamp, record.key, record.value, list(record.headers)) is not None
    theirs = bytes(builder.build())
    # kafka-python writes leader epoch 0, Java and kwire -1; the CRC does not cover it, and the leader sets it.
    ours = bytes(encode_batch(records, partition_leader_epoch=0))
    assert ours[:12] == theirs[:12]
    assert ours[16:] == theirs[16:]


@given(records_strategy, st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_another_implementation_reads_ours(records, codec):
    batch = DefaultRecordBatch(bytes(encode_batch(records, codec=codec)))
    assert batch.validate_crc()
    found = [(record.key, record.value, record.timestamp, list(record.headers)) for record in batch]
    assert found == content(records)


def test_header_flags():
    header = parse_header(
        encode_batch(
            [Record()],
            transactional=True,
            control=True,
            log_append_time=NOW_MS,
            producer_id=9,
            producer_epoch=3,
            base_sequence=SEQUENCE_MAX,
        )
    )
    assert header.is_transactional
    assert header.is_control
    assert header.is_log_append_time
    assert not header.has_delete_horizon
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, SEQUENCE_MAX)
    assert header.max_timestamp == NOW_MS


def test_sequences_wrap_to_zero():
    assert next_sequence(SEQUENCE_MAX, 0) == SEQUENCE_MAX
    assert next_sequence(SEQUENCE_MAX, 1) == 0
    assert next_sequence(SEQUENCE_MAX - 1, 3) == 1
    header = parse_header(encode_batch([Record()] * 4, producer_id=1, producer_epoch=0, base_sequence=SEQUENCE_MAX - 1))
    assert header.last_sequence == 1
    assert parse_header(encode_batch([Record()])).last_sequence == -1


def test_log_append_time_is_every_records_timestamp():
    data = encode_batch([Record(timestamp=1), Record(timestamp=2)], log_append_time=NOW_MS)
    assert [record.timestamp for record in decode_batch(data)] == [NOW_MS, NOW_MS]


def test_timestamps_can_be_rewritten_in_place():
    data = encode_batch([Record(timestamp=1)], codec=Codec.ZSTD, transactional=True)
    set_max_timestamp(data, 0, parse_header(data), log_append_time=True, max_timestamp=NOW_MS)
    header = parse_header(data)
    assert crc_matches(data, 0, header)
    assert (header.max_timestamp, header.is_log_append_time, header.is_transactional) == (NOW_MS, True, True)
    assert header.codec is Codec.ZSTD


def test_compacted_batches_keep_their_gaps():
    records = [Record(offset=12, value=b"a"), Record(offset=17, value=b"b")]
    data = encode_batch(records, base_offset=10, keep_offsets=True, last_offset=19)
    header = parse_header(data)
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 19, 2)
    assert [record.offset for record in decode_batch(data)] == [12, 17]
    empty = parse_header(encode_batch([], base_offset=10, last_offset=12))
    assert (empty.last_offset, empty.record_count) == (12, 0)


def test_iteration_stops_before_a_partial_batch():
    whole = encode_batch([Record(value=b"a")]) + encode_batch([Record(value=b"b")], base_offset=1)
    first = len(whole) // 2
    for length in range(len(whole) + 1):
        assert [position for position, _ in iterate_headers(whole[:length])] == [0, first][: length // first]
    assert [record.value for record in decode_all(whole + whole[:30])] == [b"a", b"b"]


def test_a_length_smaller_than_a_header_is_no_batch():
    data = encode_batch([Record()])
    data[8:12] = (20).to_bytes(4, "big")
    with pytest.raises(InvalidRecordsError):
        list(iterate_headers(data))


def test_every_truncation_is_detected():
    data = bytes(encode_batch([Record(key=b"k", value=b"v", headers=[("h", b"1"), ("n", None)])] * 2))
    for length in range(len(data)):
        with pytest.raises(InvalidRecordsError):
            decode_batch(data[:length])


@given(st.integers(61, 160), st.integers(0, 255), st.sampled_from(list(Codec)))
def test_damage_ends_in_an_error_or_a_value(position, byte, codec):
    data = encode_batch([Record(key=b"k" * 20, value=b"v" * 40, headers=[("h", b"1")])] * 2, codec=codec)
    data[min(position, len(data) - 1)] = byte
    try:
        assert len(decode_batch(data)) == 2
    except (InvalidRecordsError, CompressionError):
        return


def test_an_unknown_codec_is_an_error():
    data = encode_batch([Record()])
    data[22] |= 6
    with pytest.raises(InvalidRecordsError):
        decode_batch(data)
    with pytest.raises(ValueError, match="6"):
        _ = parse_header(data).codec


def test_header_keys_that_are_no_utf8_survive():
    records = [Record(headers=[(b"\xff\xfe".decode("utf-8", "surrogateescape"), b"x")])]
    data = encode_batch(records)
    assert b"\xff\xfe" in data
    assert content(decode_batch(data)) == content(records)


# Control records


@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_round_trip(is_commit):
    marker = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=5)
    data = encode_marker_batch(marker, producer_id=7, producer_epoch=2, timestamp=NOW_MS, base_offset=40)
    header = parse_header(data)
    assert (header.is_control, header.is_transactional, header.producer_id, header.base_offset) == (True, True, 7, 40)
    assert decode_marker(data) == marker
    record = decode_batch(data)[0]
    assert record.key == bytes([0, 0, 0, 1 if is_commit else 0])
    assert record.value == bytes([0, 0, 0, 0, 0, 5])


def test_other_control_records_are_no_markers():
    key = control_record_key(ControlRecordType.LEADER_CHANGE)
    assert control_record_type(key) == 2
    assert decode_marker(encode_batch([Record(key=key, value=b"")], control=True)) is None
    assert decode_marker(encode_batch([], control=True, last_offset=0)) is None
    for bad in (Record(key=None), Record(key=b"\x00"), Record(key=b"\x00\x00\x00\x00", value=b"\x00")):
        with pytest.raises(InvalidRecordsError):
            decode_marker(encode_batch([bad], control=True))


def test_headers_are_read_as_they_are_laid_out():
    values = (2**40, 49, 7, -3, 2**32 - 1, -2, 9, -(2**62), 2**63 - 1, -1, -9, 2**31 - 1, -5)
    data = BATCH_HEADER.pack(*values)
    for buffer in (data, bytearray(data), memoryview(data)):
        assert parse_header(buffer).values() == BatchHeader(*values).values() == values
    with pytest.raises(InvalidRecordsError):
        parse_header(data, 1)


def test_timestamps_wrap_where_they_leave_64_bits():
    """Java's longs wrap around too: a client may send any delta."""
    batch = with_deltas((0, b"a", b""), (2**63 - 1, b"b", b""), (-(2**63), b"c", b""))
    assert [record.timestamp for record in decode_batch(batch)] == [
        NOW_MS,
        NOW_MS - 2**63 - 1,
        NOW_MS - 2**63,
    ]


def test_an_offset_delta_beyond_32_bits_is_no_record():
    with pytest.raises(InvalidRecordsError, match="offset delta 4611686018427387904"):
        decode_batch(with_deltas((0, b"a", b""), offset_delta=2**62))
