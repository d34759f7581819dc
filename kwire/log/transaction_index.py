"""Aborted transactions of a segment: the .txnindex file.

    int16 version (0), int64 producer id, int64 first offset, int64 last offset (the marker's), int64 last stable offset

Entries are in the order of their markers. They are appended as they happen, because read_committed fetches need them,
and derived again from the batches when the segment is recovered.
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
"""About what an entry takes of memory: a tuple and its numbers."""
_ENTRY: Final = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """One transaction whose records read_committed consumers must skip."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions whose markers are in one segment; no file unless there is one."""

    def __init__(self, disk: Disk, stem: str, suffix: str = "") -> None:
        self._disk = disk
        self._stem = stem
        self._suffix = suffix
        self._file: DiskFile | None = None
        self._entries: list[AbortedTransaction] | None = None
        self._pending = bytearray()
        """Entries that a full disk did not take."""
        self.is_believed = False
        """Whether what was found in the file was compared with the log; what was appended since needs no comparison."""
        self.check: Iterator[None] | None = None
        """The rest of a comparison that has begun."""
        self.is_held = False
        """Whether the entries were derived from the log and a full disk did not take them: they are in memory only."""
        self.is_malformed = False
        """Whether the file has something else than whole entries."""
        self.is_doubted = False
        """True after the segment's other indexes were rebuilt, until this one is rebuilt as well."""
        self.has_new_name = False
        """Whether the file was made and its directory is not synced since; a flush sees to that. A power cut after a
        clean shutdown would take the name, and nobody would look for it."""

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
        """What the entries take of memory."""
        return 0 if self._entries is None else ENTRY_MEMORY_BYTES * len(self._entries)

    def unload(self) -> None:
        """Give the memory back, unless a full disk has kept some from the file."""
        if not self._pending and not self.is_held:
            self._entries = None

    def append(self, transaction: AbortedTransaction) -> None:
        """Note a transaction whose marker was stored; what a full disk keeps from the file is written by write()."""
        self.entries().append(transaction)
        if self.is_held:
            return  # the file takes all of them or none
        self._pending += _ENTRY.pack(0, *transaction)
        try:
            self.write()
        except DiskFullError as error:
            logger.warning("The disk is full: %s; the aborted transaction is written with the next flush", error)

    def write(self) -> None:
        """Append what is pending. Raises DiskFullError."""
        if self._pending:
            if self._file is None:
                self.has_new_name |= not self._disk.exists(self.path)
                self._file = self._disk.open(self.path, create=True)
            self._file.append(self._pending)
            self._pending = bytearray()

    def truncate(self, end_offset: int) -> None:
        """Forget transactions whose marker is at or after end_offset."""
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
        """Forget everything, for a rebuild of a log that is not served before it is complete."""
        file = self.file()
        if file is not None and file.size:
            file.truncate(0)
        self._believe([])

    def replace(self, transactions: list[AbortedTransaction]) -> None:
        """Take what was derived from the log, durably; a full disk leaves the file as it is, and them in memory.

        Raises DiskFullError.
        """
        self._entries = transactions
        self._pending = bytearray()
        self.is_held = True
        if transactions or self._disk.exists(self.path):
            self.close()
            self._disk.replace(self.path, b"".join(_ENTRY.pack(0, *each) for each in transactions), sync=True)
            self.has_new_name = False
        self._believe(transactions)

    def _believe(self, transactions: list[AbortedTransaction]) -> None:
        self._entries = transactions
        self._pending = bytearray()
        self.check = None
        self.is_believed, self.is_malformed, self.is_doubted, self.is_held = True, False, False, False

    def file(self) -> DiskFile | None:
        """The file, None if there is none."""
        if self._file is None and self._disk.exists(self.path):
            self._file = self._disk.open(self.path)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
