"""Reading all of a segment's bytes, for who must see every batch whole: recovery, and the end of a log that moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.log.disk import DiskFile
from kwire.protocol.records import BATCH_HEADER_BYTES, LENGTH_OVERHEAD, BatchHeader, parse_header

SCAN_CHUNK_BYTES: Final = 1024 * 1024
"""What a scan reads at once: large enough to be cheap, small enough to be kept by the thousand."""
LENGTH_MIN: Final = BATCH_HEADER_BYTES - LENGTH_OVERHEAD


def scan(file: DiskFile) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of each whole batch, checked for its length only; stops before a partial one."""
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
