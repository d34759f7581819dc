"""Binary search in an index file that is too large to be loaded: each search reads a few entries and one page.

Loading would verify that the entries increase; a search does not. Instead the segment verifies each entry that it uses:
the log must contain the entry's batch.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from kwire.log.errors import CorruptIndexError

PAGE_ENTRIES: Final = 512
"""Entries of the cached page; by default they cover 2 MiB of the log, where a consumer continues."""
FIRST_BYTES: Final = 200
"""Memory of a cached entry, in a dict."""

Entry = tuple[int, int]


class IndexPages:
    """Entries of an index file of a closed segment; both numbers of an entry increase from one to the next."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, layout: Struct) -> None:
        """Create a search. `read` reads bytes at a position of the file, which contains whole entries of `layout`."""
        self._read = read
        self._layout = layout
        self._count = size // layout.size
        self._firsts: dict[int, Entry] = {}
        """First entries of pages that searches have read, by page number; each search reads the same few."""
        self._page = b""
        """Page of the last search."""
        self._page_number = -1

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory of the page and the cached first entries."""
        return len(self._page) + FIRST_BYTES * len(self._firsts)

    def entry(self, number: int) -> Entry:
        """Return one entry. Raises CorruptIndexError."""
        return self._entry_at(self._read(number * self._layout.size, self._layout.size), 0)

    def entries(self) -> list[Entry]:
        """Return all entries."""
        return [self.entry(number) for number in range(self._count)]

    def last_up_to(self, column: int, value: int) -> Entry | None:
        """Return the last entry whose number in `column` (0 or 1) is at most `value`, or None."""
        if not self._page_holds(column, value):
            number = self._page_of(column, value)
            if number < 0:
                return None
            size = PAGE_ENTRIES * self._layout.size
            self._page, self._page_number = self._read(number * size, size), number
        low, high = 0, self._page_entries
        while low < high:
            middle = (low + high) // 2
            if self._in_page(middle)[column] > value:
                high = middle
            else:
                low = middle + 1
        return self._in_page(low - 1) if low else None

    def _page_of(self, column: int, value: int) -> int:
        """Return the number of the last page whose first entry is at most `value`, -1 if there is none."""
        low, high = 0, (self._count + PAGE_ENTRIES - 1) // PAGE_ENTRIES
        while low < high:
            middle = (low + high) // 2
            first = self._firsts.get(middle)
            if first is None:
                first = self._firsts[middle] = self.entry(middle * PAGE_ENTRIES)
            if first[column] > value:
                high = middle
            else:
                low = middle + 1
        return low - 1

    def _page_holds(self, column: int, value: int) -> bool:
        """Return True if the current page is known to contain the entry."""
        if self._page_number < 0 or self._in_page(0)[column] > value:
            return False
        is_last = (self._page_number + 1) * PAGE_ENTRIES >= self._count
        return is_last or self._in_page(self._page_entries - 1)[column] > value

    @property
    def _page_entries(self) -> int:
        return len(self._page) // self._layout.size

    def _in_page(self, number: int) -> Entry:
        return self._entry_at(self._page, number)

    def _entry_at(self, data: bytes, number: int) -> Entry:
        first, second = self._layout.unpack_from(data, number * self._layout.size)
        if first < 0 or second < 0:
            raise CorruptIndexError(f"an entry has a negative number: {first}, {second}")
        return first, second
