"""Reader of a closed segment from its first to its last byte; checks the CRC of each batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from kwire.log.compaction.plan import SourceSegment
from kwire.log.disk import Disk
from kwire.log.errors import CorruptLogError
from kwire.log.scanning import LENGTH_MIN
from kwire.log.segment import segment_name
from kwire.protocol.records import ATTRIBUTES_POSITION, BATCH_HEADER_BYTES, BatchHeader, read_header

CHUNK_BYTES: Final = 1024 * 1024
"""Bytes per read, and the minimum between two progress reports."""

Batches = list[tuple[BatchHeader, memoryview]]


def segment_path(directory: str, base_offset: int) -> str:
    return f"{directory}/{segment_name(base_offset)}.log"


def chunks(disk: Disk, directory: str, source: SourceSegment) -> Iterator[Batches]:
    """Yield the segment's batches, about one chunk at a time. Raises CorruptLogError, DiskFailure."""
    path = segment_path(directory, source.base_offset)
    file = disk.open(path)
    try:
        position = 0
        while position < source.size:
            chunk = file.read(position, min(CHUNK_BYTES, source.size - position))
            size = _first_size(chunk, path, position)
            if size > len(chunk):
                chunk = file.read(position, min(size, source.size - position))
            found, used = _batches_of(chunk, path, position)
            if not used:
                raise CorruptLogError(f"{path}: the batch at position {position} ends behind its segment")
            yield found
            position += used
    finally:
        file.close()


def _first_size(chunk: bytes, path: str, position: int) -> int:
    if len(chunk) < BATCH_HEADER_BYTES:
        raise CorruptLogError(f"{path} ends inside a batch header")
    return _checked_header(chunk, 0, path, position).size_in_bytes


def _checked_header(chunk: bytes, at: int, path: str, position: int) -> BatchHeader:
    header = read_header(chunk, at)
    if header.magic != 2 or header.length < LENGTH_MIN:
        raise CorruptLogError(f"{path}: no batch at position {position + at}")
    return header


def _batches_of(chunk: bytes, path: str, position: int) -> tuple[Batches, int]:
    """Return the whole batches at the start of a chunk, and their total size."""
    found: Batches = []
    view = memoryview(chunk)
    at, end = 0, len(chunk)
    while at + BATCH_HEADER_BYTES <= end:
        header = _checked_header(chunk, at, path, position)
        batch = view[at : at + header.size_in_bytes]
        if len(batch) < header.size_in_bytes:
            break
        if crc32c(batch[ATTRIBUTES_POSITION:]) != header.crc:
            raise CorruptLogError(f"{path}: the batch at position {position + at} fails its CRC")
        found.append((header, batch))
        at += header.size_in_bytes
    return found, at
