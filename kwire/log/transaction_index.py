"""Aborted transactions of a segment: the .txnindex file.

    int16 version (0), int64 producer id, int64 first offset, int64 last offset (the marker's), int64 last stable offset

Entries are in the order of their markers. They are appended at once, because read_committed fetches need them, and
rebuilt from the batches when the segment is recovered.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kwire.log.disk import Disk, DiskFile, DiskFullError
from kwire.log.files import TRANSACTION_INDEX_SUFFIX

logger = logging.getLogger(__name__)

ENTRY_MEMORY_BYTES: Final = 250
"""Approximate memory of an entry: a tuple and its numbers."""
_ENTRY: Final = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """Aborted transaction, whose records read_committed consumers must skip."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Aborted transactions whose markers are in one segment; there is no file if there are none."""

    def __init__(self, disk: Disk, stem: str, suffix: str = "") -> None:
        self._disk = disk
        self._stem = stem
        self._suffix = suffix
        self._file: DiskFile | None = None
        self._entries: list[AbortedTransaction] | None = None
        self._pending = bytearray()
        """Entries that could not be written because the disk was full."""
        self.is_checked = False
        """True if the entries in the file were compared with the log; entries appended since need no comparison."""
        self.check: Iterator[None] | None = None
        """Remaining steps of a comparison that has begun."""
        self.is_in_memory_only = False
        """True if the entries were derived from the log and exist in memory only, because the disk was full."""
        self.is_malformed = False
        """True if the file contains anything but whole entries."""
        self.is_suspect = False
        """True after the segment's other indexes were rebuilt, until this one is rebuilt as well."""
        self.has_new_name = False
        """True if the file was created and its directory was not synced since; the next flush syncs it.

        Otherwise a power failure after a clean shutdown could remove the file, which no start would notice.
        """

    @property
    def path(self) -> str:
        return self._stem + TRANSACTION_INDEX_SUFFIX + self._suffix

    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            file = self.file()
            data = file.read(0, file.size) if file is not None else b""
            whole = len(data) - len(data) % _ENTRY.size
            found = list(_ENTRY.iter_unpack(data[:whole]))
            self._entries = [AbortedTransaction(*entry[1:]) for entry in found]
            self.is_malformed = whole < len(data) or any(entry[0] != 0 for entry in found)
        return self._entries

    @property
    def memory_bytes(self) -> int:
        """Memory of the entries in bytes."""
        return 0 if self._entries is None else ENTRY_MEMORY_BYTES * len(self._entries)

    def unload(self) -> None:
        """Release the memory, unless some entries are not in the file because the disk was full."""
        if not self._pending and not self.is_in_memory_only:
            self._entries = None

    def append(self, transaction: AbortedTransaction) -> None:
        """Add a transaction whose marker was stored; if the disk is full, write() adds it to the file later."""
        self.entries().append(transaction)
        if self.is_in_memory_only:
            return  # the file gets all entries or none
        self._pending += _ENTRY.pack(0, *transaction)
        try:
            self.write()
        except DiskFullError as error:
            logger.warning("The disk is full: %s; the aborted transaction is written with the next flush", error)

    def write(self) -> None:
        """Append pending entries to the file. Raises DiskFullError."""
        if self._pending:
            if self._file is None:
                self.has_new_name |= not self._disk.exists(self.path)
                self._file = self._disk.open(self.path, create=True)
            self._file.append(self._pending)
            self._pending = bytearray()

    def truncate(self, end_offset: int) -> None:
        """Remove transactions whose marker is at or after end_offset."""
        self.check = None
        kept = [entry for entry in self.entries() if entry.last_offset < end_offset]
        file = self.file()
        written = file.size if file is not None else 0
        size = len(kept) * _ENTRY.size
        del self._pending[max(0, size - written) :]
        if file is not None and size < written:
            file.truncate(size)
        self._entries = kept

    def reset(self) -> None:
        """Remove all entries. Call it only before the log is served, or if there are no entries."""
        file = self.file()
        if file is not None and file.size:
            file.truncate(0)
        self._set_checked([])

    def replace(self, transactions: list[AbortedTransaction]) -> None:
        """Replace the entries durably by those derived from the log; on a full disk they are in memory only.

        Raises DiskFullError.
        """
        self._entries = transactions
        self._pending = bytearray()
        self.is_in_memory_only = True
        if transactions or self._disk.exists(self.path):
            self.close()
            self._disk.replace(self.path, b"".join(_ENTRY.pack(0, *each) for each in transactions), sync=True)
            self.has_new_name = False
        self._set_checked(transactions)

    def _set_checked(self, transactions: list[AbortedTransaction]) -> None:
        self._entries = transactions
        self._pending = bytearray()
        self.check = None
        self.is_checked, self.is_malformed, self.is_suspect, self.is_in_memory_only = True, False, False, False

    def file(self) -> DiskFile | None:
        """Return the file, None if there is none."""
        if self._file is None and self._disk.exists(self.path):
            self._file = self._disk.open(self.path)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
