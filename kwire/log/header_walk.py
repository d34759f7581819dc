"""Iteration over batch headers in a segment's file that reads few bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from kwire.log.batch_order import check_order
from kwire.log.errors import CorruptIndexError, CorruptLogError
from kwire.log.scanning import LENGTH_MIN
from kwire.protocol.records import BATCH_HEADER_BYTES, BatchHeader, parse_header

WALK_CHUNK_BYTES: Final = 4096 + BATCH_HEADER_BYTES
"""Bytes that a search reads at once: one index interval."""
NO_LIMIT: Final = 2**63 - 1


class Readable(Protocol):
    """Source of batch headers."""

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end."""


def walk(
    source: Readable, stem: str, base_offset: int, position: int, end: int, batches_max: int = NO_LIMIT
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of the batches from a batch's position to the end of a segment.

    Raises CorruptLogError for an invalid batch, and CorruptIndexError after batches_max batches, because an index that
    leads to a longer walk lacks entries.
    """
    window, window_start = b"", position
    previous: BatchHeader | None = None
    while position < end:
        if position + BATCH_HEADER_BYTES > window_start + len(window):
            window, window_start = source.read(position, WALK_CHUNK_BYTES), position
            if len(window) < BATCH_HEADER_BYTES:
                raise CorruptLogError(f"{stem}.log ends inside a batch header")
        header = parse_header(window, position - window_start)
        if header.magic != 2 or header.length < LENGTH_MIN or position + header.size_in_bytes > end:
            raise CorruptLogError(f"{stem}.log: no batch at position {position}")
        check_order(stem, base_offset, previous, header, position)
        yield position, header
        position += header.size_in_bytes
        previous = header
        batches_max -= 1
        if batches_max == 0 and position < end:
            raise CorruptIndexError(f"an entry is missing for the batches before position {position}")
