"""Full scan of a segment, used where every batch must be complete: recovery, and the end offset of a moved log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.log.disk import DiskFile
from kwire.protocol.records import BATCH_HEADER_BYTES, LENGTH_OVERHEAD, BatchHeader, parse_header

SCAN_CHUNK_BYTES: Final = 1024 * 1024
"""Bytes that a scan reads at once: large enough to be efficient, small enough for many scans."""
LENGTH_MIN: Final = BATCH_HEADER_BYTES - LENGTH_OVERHEAD


def scan(file: DiskFile) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield (position, header, bytes) of each whole batch, with only its length checked; stop before a partial one."""
    size = file.size
    position = chunk_start = 0
    chunk = b""
    while position + BATCH_HEADER_BYTES <= size:
        relative = position - chunk_start
        if relative + BATCH_HEADER_BYTES > len(chunk):
            chunk, chunk_start, relative = file.read(position, SCAN_CHUNK_BYTES), position, 0
        header = parse_header(chunk, relative)
        if header.length < LENGTH_MIN or position + header.size_in_bytes > size:
            return
        if relative + header.size_in_bytes > len(chunk):
            length = max(SCAN_CHUNK_BYTES, header.size_in_bytes)
            chunk, chunk_start, relative = file.read(position, length), position, 0
        yield position, header, memoryview(chunk)[relative : relative + header.size_in_bytes]
        position += header.size_in_bytes
