"""Targets of frames, headers, record batches and codecs."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kwire.log.batch_validation import AppendOrigin, check_frame, validate_batch
from kwire.log.config import LogConfig
from kwire.log.record_keys import keyed_records
from kwire.protocol.codec import decode
from kwire.protocol.compression import Codec, CompressionError, compress, decompress
from kwire.protocol.control_records import decode_marker
from kwire.protocol.error_codes import KafkaError, ProtocolError
from kwire.protocol.framing import parse_request_header
from kwire.protocol.messages.header import RequestHeader
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.produce_exchange import decode_exchange
from kwire.protocol.records import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    InvalidRecordsError,
    Record,
    batch_body,
    decode_all,
    decode_batch,
    encode_batch,
    parse_header,
    seal,
)
from kwire.protocol.schema import find_message, schema_of
from kwire.server.apis import SERVED
from kwire.server.network.arriving_frame import LENGTH_BYTES, ArrivingFrame
from tests.fuzz.parsers.target import Target
from tests.fuzz.parsers.targets.messages import bytes_of
from tests.log.support import NOW_MS, marker
from tests.protocol.samples import sample_bytes

DECOMPRESSED_MAX: Final = 64 * 1024
FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
_INVALID: Final = (InvalidRecordsError, CompressionError)
_OTHER_CODEC: Final[dict[int, str]] = {
    Codec.GZIP: "uncompressed",
    Codec.SNAPPY: "gzip",
    Codec.LZ4: "snappy",
    Codec.ZSTD: "lz4",
}
"""Codec of a topic for which a batch must be opened; batches of the topic's own codec are stored unopened."""
_SIZES: Final = b"\1\2\3\5\x11\xff"
"""Sizes of the pieces in which bytes arrive."""


# --- frames


def _read_frames(data: bytes) -> None:
    """Receive a stream in pieces of the size that the first byte chooses: the frames are those of the whole stream."""
    size, stream = _SIZES[(data[0] if data else 0) % len(_SIZES)], memoryview(data)[1:]
    arriving, frames, position = ArrivingFrame(), [], 0
    while position < len(stream):
        view = stream[position : position + size]
        position += len(view)
        while view:
            view = view[arriving.take(view, _length_in) :]
            assert arriving._capacity_bytes <= 2 * len(stream), "a declared size allocates memory"
            if arriving.is_whole:
                frames.append(arriving.end())
    whole = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    assert bytes(stream[: len(whole)]) == whole, "the frames are not those of the stream"


def _length_in(buffer: bytes, position: int) -> int:
    (length,) = struct.unpack_from(">i", buffer, position)
    if not 0 <= length <= FRAME_BYTES_MAX:
        raise ProtocolError("a frame has an invalid size")
    return int(length)


def _frame_seeds() -> list[bytes]:
    sizes = (0, 1, 4, 5, 300, FRAME_BYTES_MAX)
    frames = [struct.pack(">i", size) + bytes(min(size, 300)) for size in sizes]
    return [bytes([piece]) + b"".join(frames[:count]) for piece in range(6) for count in (1, 3, 6)]


# --- requests


def _read_header(data: bytes) -> None:
    """Parse a request header: the result equals that of the compiled decoder."""
    header = parse_request_header(data)
    schema = find_message("request", header.api_key)
    assert schema is not None, "an unknown API is rejected"
    flexible = schema.flexible
    expected = decode(RequestHeader, 2 if header.api_version >= flexible.low <= flexible.high else 1, data)
    assert header.client_id == expected.client_id
    assert (header.api_key, header.correlation_id) == (expected.request_api_key, expected.correlation_id)


def _header_seeds() -> list[bytes]:
    client = struct.pack(">ih", 7, 6) + b"client"
    return [
        struct.pack(">hh", api.key, version) + client + (b"\0" if version in schema_of(api.request).flexible else b"")
        for api in SERVED
        for version in {api.min_version, api.max_version}
    ] + [struct.pack(">hhih", 18, 4, 1, -1) + b"\2\0\1a\1\2bc"]


def _read_exchange(data: bytes) -> None:
    """Decode a produce request with its own decoder: its fields equal those of the compiled decoder."""
    version = 3 + (data[0] if data else 0) % 11
    exchange, _ = decode_exchange(data, 1, version)
    request = decode(ProduceRequest, version, data, 1)
    assert (exchange.transactional_id, exchange.acks, exchange.timeout_ms) == (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
    )
    found = [(part.index, part.records) for topic in exchange.topics for part in topic.partitions]
    expected = [(part.index, part.records) for topic in request.topic_data for part in topic.partition_data]
    assert found == [(index, None if records is None else bytes(records)) for index, records in expected]


def _exchange_seeds() -> list[bytes]:
    random_source = random.Random("produce")
    records = bytes(encode_batch([Record(value=b"value", timestamp=NOW_MS)]))
    data = [TopicProduceData(name="topic", partition_data=[PartitionProduceData(index=1, records=records)])]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data)
    schema = schema_of(ProduceRequest)
    seeds = [bytes([version - 3]) + sample_bytes(schema, version, random_source) for version in range(3, 14)]
    return seeds + [bytes([version - 3]) + bytes_of(request, version) for version in (3, 8, 9, 11)]


# --- batches


def _sealed(data: bytes) -> bytes:
    """Return one batch with a right length, magic and CRC, so that the rest of the bytes reaches the readers."""
    batch = bytearray(data.ljust(BATCH_HEADER_BYTES, b"\0"))
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    batch[16] = 2
    seal(batch, 0, len(batch))
    return bytes(batch)


def _read_batches(data: bytes) -> None:
    for record in decode_all(data, DECOMPRESSED_MAX):
        again = decode_batch(encode_batch([record], base_offset=0))[0]
        assert (again.key, again.value, again.headers) == (record.key, record.value, record.headers)


def _validate(data: bytes) -> None:
    """Validate a batch for a topic with another codec: consumers and compaction can read an accepted one."""
    batch = _sealed(data)
    frame = check_frame(batch)
    config = LogConfig(compression_type=_OTHER_CODEC.get(frame.attributes & CODEC_MASK, "producer"))
    stored, header = validate_batch(batch, frame, config, AppendOrigin.CLIENT, NOW_MS)
    records = decode_batch(stored)
    assert len(records) == header.record_count
    keyed = keyed_records(batch_body(stored, 0, header), header.record_count)
    assert keyed.keys == [record.key for record in records]
    assert keyed.tombstones == {index for index, record in enumerate(records) if record.value is None}
    assert [header.base_offset + delta for delta in keyed.offset_deltas] == [record.offset for record in records]


def _read_marker(data: bytes) -> None:
    batch = _sealed(data)
    if parse_header(batch).is_control:
        decode_marker(batch)


def batch_seeds() -> list[bytes]:
    records = [
        Record(key=b"key", value=b"value" * 9, timestamp=NOW_MS),
        Record(value=b"", timestamp=NOW_MS + 1, headers=[("name", b"header"), ("null", None)]),
        Record(key=b"", timestamp=NOW_MS - 1),
    ]
    alike = [Record(key=b"k%02d" % index, value=b"value", timestamp=NOW_MS) for index in range(20)]
    transactional = encode_batch(records, transactional=True, producer_id=9, producer_epoch=1, base_sequence=0)
    return [
        *(bytes(encode_batch(some, codec=codec)) for codec in Codec for some in (records, alike)),
        bytes(encode_batch(records, log_append_time=NOW_MS)),
        bytes(transactional),
        bytes(encode_batch(records) + encode_batch(alike, base_offset=3)),
        *(bytes(marker(9, 1, commit=commit)) for commit in (True, False)),
    ]


# --- codecs


def _decompress(codec: Codec, data: bytes) -> None:
    found = decompress(codec, data, DECOMPRESSED_MAX)
    assert len(found) <= DECOMPRESSED_MAX
    assert decompress(codec, compress(codec, found), DECOMPRESSED_MAX) == found


def _compressed(codec: Codec) -> Callable[[], Sequence[bytes]]:
    noise = random.Random("noise").randbytes(300)
    texts = (b"", b"a", b"record " * 40, noise, bytes(5000), bytes(DECOMPRESSED_MAX + 1))
    return lambda: [compress(codec, text) for text in texts]


WIRE: Final = [
    Target("frames", _read_frames, (ProtocolError,), _frame_seeds),
    Target("request header", _read_header, (ProtocolError,), _header_seeds),
    Target("produce exchange", _read_exchange, (ProtocolError,), _exchange_seeds),
    Target("record batches", _read_batches, _INVALID, batch_seeds, DECOMPRESSED_MAX),
    Target("produced batch", _validate, (KafkaError,), batch_seeds, 64 * DECOMPRESSED_MAX),
    Target("transaction marker", _read_marker, _INVALID, batch_seeds),
    *(
        Target(
            codec.name.lower(), partial(_decompress, codec), (CompressionError,), _compressed(codec), DECOMPRESSED_MAX
        )
        for codec in Codec
        if codec is not Codec.NONE
    ),
]
assert LENGTH_BYTES == 4, "the frames of the seeds have a size of four bytes"
