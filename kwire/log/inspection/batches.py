"""The batches of a segment or of a metadata snapshot, one after another, with what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from kwire.log.inspection.reading import WINDOW_BYTES, InputFile
from kwire.protocol.compression import CompressionError
from kwire.protocol.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    LENGTH_OVERHEAD,
    BatchHeader,
    InvalidRecordsError,
    Record,
    batch_body,
    iterate_records,
    parse_header,
)

STORED_BYTES_MAX: Final = 256 * 1024**2
"""A batch of more bytes is checked, but its records are not opened."""
RECORDS_AT_ONCE: Final = 512


@dataclass(slots=True, kw_only=True, frozen=True)
class StoredBatch:
    """A batch that is whole as far as its length goes."""

    position: int
    header: BatchHeader
    crc_found: int
    """The CRC of the bytes that are there."""

    @property
    def is_intact(self) -> bool:
        return self.crc_found == self.header.crc


@dataclass(slots=True, kw_only=True, frozen=True)
class Damage:
    """Where reading cannot go on."""

    position: int
    what: str


def stored_batches(file: InputFile, first_offset: int = 0) -> Iterator[StoredBatch | Damage]:
    """Each batch that ends after first_offset; a Damage comes last, because nothing says where the next batch is."""
    position = 0
    while position < file.size:
        if file.size - position < BATCH_HEADER_BYTES:
            yield Damage(position=position, what=f"the file ends inside a batch header: {file.size - position} bytes")
            return
        header = parse_header(file.read(position, BATCH_HEADER_BYTES))
        what = _header_flaw(header, file.size - position)
        if what is not None:
            yield Damage(position=position, what=what)
            return
        if header.last_offset >= first_offset:
            yield StoredBatch(position=position, header=header, crc_found=_crc(file, position, header.size_in_bytes))
        position += header.size_in_bytes


def _header_flaw(header: BatchHeader, size: int) -> str | None:
    if header.length == 0 and header.magic == 0 and header.crc == 0:
        return f"zeros in place of a batch: {size} bytes are left"
    if header.magic in (0, 1):
        return f"a message set of magic {header.magic}, as Kafka wrote before 0.11: not read here"
    if header.magic != 2:
        return f"no batch: magic {header.magic}"
    if header.length < BATCH_HEADER_BYTES - LENGTH_OVERHEAD:
        return f"no batch: length {header.length} is smaller than a header"
    if header.size_in_bytes > size:
        return f"the file ends inside a batch: {size} of {header.size_in_bytes} bytes"
    return None


def _crc(file: InputFile, position: int, size: int) -> int:
    """In pieces: a length that is a lie may claim the whole file."""
    crc, at, end = 0, position + ATTRIBUTES_POSITION, position + size
    while at < end:
        data = file.read(at, min(WINDOW_BYTES, end - at))
        if not data:
            break
        crc = int(crc32c(data, crc))
        at += len(data)
    return crc


def records_of(file: InputFile, batch: StoredBatch) -> Iterator[Record]:
    """The batch's records, decoded a few at a time; raises InvalidRecordsError or CompressionError."""
    header = batch.header
    if header.size_in_bytes > STORED_BYTES_MAX:
        raise InvalidRecordsError(f"{header.size_in_bytes} bytes are too many to open")
    body = batch_body(file.read(batch.position, header.size_in_bytes), 0, header)
    count = 0
    for start, end, records in _frames(body):
        part = BatchHeader(*header.values())
        part.record_count = records
        yield from iterate_records(part, body[start:end])
        count += records
    if count != header.record_count:
        raise InvalidRecordsError(f"the batch declares {header.record_count} records and holds {count}")


def _frames(body: bytes) -> Iterator[tuple[int, int, int]]:
    """(start, end, count) of runs of whole records."""
    start = position = count = 0
    while position < len(body):
        length, position = _varint(body, position)
        position += length
        if length < 0 or position > len(body):
            raise InvalidRecordsError("a record is longer than its batch")
        count += 1
        if count == RECORDS_AT_ONCE:
            yield start, position, count
            start, count = position, 0
    if count:
        yield start, position, count


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(body):
            break
        byte = body[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), position
    raise InvalidRecordsError("a record's length is no varint")


RECORD_ERRORS: Final = (InvalidRecordsError, CompressionError)
"""What records_of raises for bytes that are no records."""
