"""Batches of a segment or of a metadata snapshot, in order, with their flaws."""

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
    read_varint,
)

STORED_BYTES_MAX: Final = 256 * 1024**2
"""Size above which a batch is checked without decoding its records."""
RECORDS_AT_ONCE: Final = 512


@dataclass(slots=True, kw_only=True, frozen=True)
class StoredBatch:
    """Stored batch whose length fits into the file."""

    position: int
    header: BatchHeader
    crc_found: int
    """CRC of the bytes in the file."""

    @property
    def is_intact(self) -> bool:
        return self.crc_found == self.header.crc


@dataclass(slots=True, kw_only=True, frozen=True)
class Damage:
    """Position from which the file cannot be read further."""

    position: int
    what: str


def stored_batches(file: InputFile, first_offset: int = 0) -> Iterator[StoredBatch | Damage]:
    """Yield each batch that ends at or after first_offset; a Damage is last, since the next batch cannot be found."""
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
    """Compute the CRC in pieces, because a corrupt length may span the whole file."""
    crc, at, end = 0, position + ATTRIBUTES_POSITION, position + size
    while at < end:
        data = file.read(at, min(WINDOW_BYTES, end - at))
        if not data:
            break
        crc = int(crc32c(data, crc))
        at += len(data)
    return crc


def records_of(file: InputFile, batch: StoredBatch) -> Iterator[Record]:
    """Yield the batch's records, decoding a few at a time. Raises InvalidRecordsError or CompressionError."""
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
    """Yield (start, end, count) of runs of whole records."""
    start = position = count = 0
    while position < len(body):
        try:
            length, position = read_varint(body, position)
        except IndexError as error:
            raise InvalidRecordsError("a record's length ends early") from error
        position += length
        if length < 0 or position > len(body):
            raise InvalidRecordsError("a record is longer than its batch")
        count += 1
        if count == RECORDS_AT_ONCE:
            yield start, position, count
            start, count = position, 0
    if count:
        yield start, position, count


RECORD_ERRORS: Final = (InvalidRecordsError, CompressionError)
"""Exceptions that records_of raises for bytes that are not valid records."""
