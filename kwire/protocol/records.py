"""Record batches, format v2: the bytes that producers send, segments store and consumers read.

A batch is a header of fixed layout and a body of records. The broker uses the headers; bodies stay bytes unless their
records are needed.

    width  field
        8  base_offset               first record's offset; not covered by the CRC, so that the leader may change it
        4  length                    of all that follows this field
        4  partition_leader_epoch    not covered by the CRC either
        1  magic                     2
        4  crc                       CRC-32C of all that follows this field
        2  attributes                bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
        4  last_offset_delta         last offset - base offset; survives compaction
        8  base_timestamp            first record's timestamp, or the delete horizon
        8  max_timestamp
        8  producer_id               -1: none
        2  producer_epoch
        4  base_sequence
        4  record_count
           records                   compressed as one block if the codec says so

    A record, where "varint" is zigzag encoded:
    varint length of what follows, int8 attributes (0), varint timestamp delta, varint offset delta,
    varint key length (-1: null), key, varint value length (-1: null), value,
    varint header count, per header: varint key length, key, varint value length (-1: null), value
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from crc32c import crc32c
from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be

from kwire.protocol.compression import DECOMPRESSED_BYTES_MAX, Codec, CompressionError, compress, decompress
from kwire.protocol.primitives import Buffer
from kwire.protocol.wrapping import as_int64, next_sequence

BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
BATCH_HEADER_BYTES: Final = 61
LENGTH_OVERHEAD: Final = 12
"""Size of base_offset and length, which length does not include."""
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21

CODEC_MASK: Final = 0x07
_CODECS: Final = tuple(Codec)
"""Codecs by number; an enum's own lookup takes half a microsecond."""
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_OFFSET_LENGTH_EPOCH: Final = struct.Struct(">qii")
_HEAD: Final = struct.Struct(">qiibI")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES_TO_MAX_TIMESTAMP: Final = struct.Struct(">hiqq")


class InvalidRecordsError(ValueError):
    """Bytes that are not a well-formed batch or record, from any source."""


class BatchHeader:
    """Header of a batch. Not a dataclass, because each append creates one: compiled, this class is six times faster."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset_delta",
        "length",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(
        self,
        base_offset: int,
        length: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.length = length
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    def values(self) -> tuple[int, ...]:
        """Return the fields in the order in which they are stored."""
        return (
            self.base_offset,
            self.length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )

    def __repr__(self) -> str:
        return f"BatchHeader{self.values()}"

    @property
    def size_in_bytes(self) -> int:
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """Compression codec. Raises ValueError for one of the three undefined ids."""
        number = self.attributes & CODEC_MASK
        return _CODECS[number] if number < len(_CODECS) else Codec(number)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_FLAG)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return next_sequence(self.base_sequence, self.last_offset_delta)


class Record:
    """Record; its offset is set by decoding, and ignored by encoding unless keep_offsets is set."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        timestamp: int = NO_TIMESTAMP,
        headers: Sequence[tuple[str, bytes | None]] = (),
        offset: int = 0,
    ) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers
        self.offset = offset

    def _fields(self) -> tuple[object, ...]:
        return self.key, self.value, self.timestamp, self.headers, self.offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Record{self._fields()}"


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`; the buffer must contain 61 bytes from there."""
    data = buffer
    if not isinstance(data, bytes):
        data, position = bytes(buffer[position : position + BATCH_HEADER_BYTES]), 0
    try:
        return read_header(data, position)
    except IndexError as error:
        raise InvalidRecordsError("the buffer ends inside a batch header") from error


def read_header(data: bytes, position: int) -> BatchHeader:
    """Return the header at `position`. Raises IndexError if the data end inside it."""
    magic = data[position + MAGIC_POSITION]
    crc: int = read_i32_be(data, position + CRC_POSITION)
    return BatchHeader(
        read_i64_be(data, position),
        read_i32_be(data, position + 8),
        read_i32_be(data, position + 12),
        magic if magic < 128 else magic - 256,
        crc & 0xFFFFFFFF,
        read_i16_be(data, position + ATTRIBUTES_POSITION),
        read_i32_be(data, position + 23),
        read_i64_be(data, position + 27),
        read_i64_be(data, position + 35),
        read_i64_be(data, position + 43),
        read_i16_be(data, position + 51),
        read_i32_be(data, position + 53),
        read_i32_be(data, position + 57),
    )


def iterate_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch; stop before a partial one, as readers of a log must."""
    end = len(buffer)
    while position + BATCH_HEADER_BYTES <= end:
        header = parse_header(buffer, position)
        if header.length < BATCH_HEADER_BYTES - LENGTH_OVERHEAD:
            raise InvalidRecordsError(f"batch length {header.length} is smaller than a header")
        if position + header.size_in_bytes > end:
            return
        yield position, header
        position += header.size_in_bytes


def crc_matches(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return True if the batch's CRC is correct; the buffer must contain the whole batch."""
    covered = memoryview(buffer)[position + ATTRIBUTES_POSITION : position + header.size_in_bytes]
    return crc32c(covered) == header.crc


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, *, log_append_time: bool, max_timestamp: int
) -> None:
    """Rewrite timestamp type and max timestamp in place, and the CRC that covers them."""
    attributes = header.attributes & ~TIMESTAMP_TYPE_FLAG | (TIMESTAMP_TYPE_FLAG if log_append_time else 0)
    _ATTRIBUTES_TO_MAX_TIMESTAMP.pack_into(
        buffer,
        position + ATTRIBUTES_POSITION,
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        max_timestamp,
    )
    seal(buffer, position, header.size_in_bytes)


def with_offsets(batch: bytes, base_offset: int, length: int, leader_epoch: int) -> bytes:
    """Return the batch as a log stores it. The changed fields precede the data that the CRC covers."""
    return offsets_head(base_offset, length, leader_epoch) + batch[MAGIC_POSITION:]


def offsets_head(base_offset: int, length: int, leader_epoch: int) -> bytes:
    """Return the fields before a batch's magic, all of which the log sets."""
    return _OFFSET_LENGTH_EPOCH.pack(base_offset, length, leader_epoch)


def seal(buffer: bytearray | memoryview, position: int, size_in_bytes: int) -> None:
    """Write the CRC of the batch at `position`."""
    with memoryview(buffer) as view:
        crc = crc32c(view[position + ATTRIBUTES_POSITION : position + size_in_bytes])
        _CRC.pack_into(view, position + CRC_POSITION, crc)


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    compression_level: int | None = None,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    keep_offsets: bool = False,
    last_offset: int | None = None,
) -> bytearray:
    """Return a batch. Offsets count from base_offset, unless keep_offsets is set, for compacted batches with gaps."""
    base_timestamp = max_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    body = bytearray()
    delta = -1
    for delta, record in enumerate(records):
        if keep_offsets:
            delta = record.offset - base_offset  # noqa: PLW2901 the running index is replaced on purpose
        encode_record(body, record, delta, record.timestamp - base_timestamp)
        max_timestamp = max(max_timestamp, record.timestamp)
    attributes = (
        codec
        | (TIMESTAMP_TYPE_FLAG if log_append_time is not None else 0)
        | (TRANSACTIONAL_FLAG if transactional else 0)
        | (CONTROL_FLAG if control else 0)
    )
    return assemble_batch(
        BatchHeader(
            base_offset=base_offset,
            length=0,
            partition_leader_epoch=partition_leader_epoch,
            magic=2,
            crc=0,
            attributes=attributes,
            last_offset_delta=delta if last_offset is None else last_offset - base_offset,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp if log_append_time is None else log_append_time,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=len(records),
        ),
        compress(codec, body, compression_level) if codec else body,
    )


def assemble_batch(header: BatchHeader, body: Buffer) -> bytearray:
    """Return a batch of header and body; its length and CRC are computed, not taken from the header."""
    covered = BytesWriter()
    write_i16_be(covered, header.attributes)
    write_i32_be(covered, header.last_offset_delta)
    write_i64_be(covered, header.base_timestamp)
    write_i64_be(covered, header.max_timestamp)
    write_i64_be(covered, header.producer_id)
    write_i16_be(covered, header.producer_epoch)
    write_i32_be(covered, header.base_sequence)
    write_i32_be(covered, header.record_count)
    fixed = covered.getvalue()
    length = ATTRIBUTES_POSITION - LENGTH_OVERHEAD + len(fixed) + len(body)
    crc = crc32c(body, crc32c(fixed))
    head = _HEAD.pack(header.base_offset, length, header.partition_leader_epoch, header.magic, crc)
    batch = bytearray(head + fixed)
    batch += body
    return batch


def batch_body(buffer: Buffer, position: int, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return the batch's records, decompressed."""
    body = memoryview(buffer)[position + BATCH_HEADER_BYTES : position + header.size_in_bytes]
    try:
        return decompress(header.codec, body, bytes_max)
    except CompressionError:
        raise
    except ValueError as error:
        raise InvalidRecordsError(f"unknown compression codec {header.attributes & CODEC_MASK}") from error


def decode_batch(buffer: Buffer, position: int = 0, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """Return the records of the batch at `position`, without a check of its CRC."""
    header = parse_header(buffer, position)
    if position + header.size_in_bytes > len(buffer):
        raise InvalidRecordsError("the buffer ends inside a batch")
    return list(iterate_records(header, batch_body(buffer, position, header, bytes_max)))


def iterate_records(header: BatchHeader, body: bytes) -> Iterator[Record]:
    """Yield the records in a decompressed body. Raises InvalidRecordsError if they do not fill it exactly."""
    count = position = 0
    fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
    try:
        while position < len(body):
            length, position = read_varint(body, position)
            end = position + length
            if length < 0 or end > len(body):
                raise InvalidRecordsError("a record is longer than its batch")
            record = _decode_record(body, position, end, header)
            if fixed_timestamp is not None:
                record.timestamp = fixed_timestamp
            yield record
            count += 1
            position = end
    except IndexError as error:
        raise InvalidRecordsError("a record ends early") from error
    if count != header.record_count:
        raise InvalidRecordsError(f"the batch declares {header.record_count} records and holds {count}")


def decode_all(buffer: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of every whole batch in the buffer."""
    for position, header in iterate_headers(buffer):
        yield from iterate_records(header, batch_body(buffer, position, header, bytes_max))


def append_varint(output: bytearray, value: int) -> None:
    """Append a zigzag varint: seven bits per byte, lowest first."""
    value = (value << 1) ^ (value >> 63)
    while value > 127:
        output.append(value & 127 | 128)
        value >>= 7
    output.append(value)


def read_varint(body: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it. Raises IndexError if it is cut off, InvalidRecordsError."""
    byte = body[position]
    if byte < 128:  # most varints: read 1.3 times as fast as by the loop
        return (byte >> 1) ^ -(byte & 1), position + 1
    result, shift = byte & 127, 7
    while True:
        position += 1
        byte = body[position]
        result |= (byte & 127) << shift
        if byte < 128:
            return (result >> 1) ^ -(result & 1), position + 1
        shift += 7
        if shift > 63:
            raise InvalidRecordsError("a varint has more than ten bytes")


def _append_bytes(output: bytearray, data: bytes | None) -> None:
    append_varint(output, -1 if data is None else len(data))
    output += data or b""


def _read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    if length == -1:
        return None, position
    if length < 0 or position + length > end:
        raise InvalidRecordsError("a field is longer than its record")
    return body[position : position + length], position + length


def encode_record(output: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    """Append one record to a batch's body."""
    fields = bytearray(1)
    append_varint(fields, as_int64(timestamp_delta))
    append_varint(fields, offset_delta)
    _append_bytes(fields, record.key)
    _append_bytes(fields, record.value)
    append_varint(fields, len(record.headers))
    for name, value in record.headers:
        _append_bytes(fields, name.encode("utf-8", "surrogateescape"))
        _append_bytes(fields, value)
    append_varint(output, len(fields))
    output += fields


def _decode_record(body: bytes, position: int, end: int, header: BatchHeader) -> Record:
    timestamp_delta, position = read_varint(body, position + 1)  # after the attributes, of which no bit is in use
    offset_delta, position = read_varint(body, position)
    if not -(2**31) <= offset_delta < 2**31:
        raise InvalidRecordsError(f"a record has offset delta {offset_delta}")
    key, position = _read_bytes(body, position, end)
    value, position = _read_bytes(body, position, end)
    header_count, position = read_varint(body, position)
    if header_count < 0 or header_count > end - position:
        raise InvalidRecordsError(f"a record declares {header_count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(header_count):
        name, position = _read_bytes(body, position, end)
        if name is None:
            raise InvalidRecordsError("a record header has a null name")
        content, position = _read_bytes(body, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    if position != end:
        raise InvalidRecordsError("a record's length and its fields differ")
    return Record(
        offset=header.base_offset + offset_delta,
        timestamp=as_int64(header.base_timestamp + timestamp_delta),
        key=key,
        value=value,
        headers=headers,
    )
