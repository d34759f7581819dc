"""Hardware of a simulated disk: its content, the durable part of it, and its faults."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kwire.log.disk import Data, DiskFailure, DiskFullError
from kwire.simulation.power_cut import Change, Choices, Entry, kept_content, kept_entries
from kwire.simulation.random_source import SeededRandomSource

Fault = Callable[[str, str], DiskFailure | None]
"""Returns the failure of an operation on a path, or None if it succeeds.

Operations are append, read, truncate, fsync, create, replace, rename, unlink, lock, list and stat.
"""
CAPACITY_BYTES = 1 << 40


def failure(operation: str, path: str, code: int) -> DiskFailure:
    kind = DiskFullError if code in (errno.ENOSPC, errno.EDQUOT) else DiskFailure
    return kind(operation, path, OSError(code, os.strerror(code)))


class FileNode:
    """File without a name."""

    __slots__ = ("content", "lock_of", "modified_ms", "pending")

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.pending: list[Change] = []
        """Changes since the last fsync."""
        self.modified_ms = 0
        self.lock_of: object = None
        """Disk of the process that holds a lock on the file."""


class DirectoryNode:
    """Directory: names and their nodes."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, FileNode | DirectoryNode] = {}
        self.durable: dict[str, FileNode | DirectoryNode] = {}
        """Entries at the last fsync; only used while changes are pending."""
        self.pending: list[Entry[FileNode | DirectoryNode]] = []

    def change(self, entry: Entry[FileNode | DirectoryNode]) -> None:
        """Apply a change that is not durable yet."""
        if not self.pending:
            self.durable = dict(self.entries)
        self.pending.append(entry)
        if entry.removed:
            del self.entries[entry.removed]
        if entry.node is not None:
            self.entries[entry.added] = entry.node

    def sync(self) -> None:
        """Make all changes durable."""
        self.pending.clear()
        self.durable = {}


class Device:
    """Storage device of one host."""

    def __init__(self, wall_ms: Callable[[], int] = lambda: 0) -> None:
        self.root = DirectoryNode()
        self.capacity_bytes = CAPACITY_BYTES
        self.used_bytes = 0
        self.operations = 0
        """Number of operations so far."""
        self.slowness = 1.0
        """Factor of the durations of workers' calls."""
        self.is_cold: Callable[[], bool] = lambda: False
        """Returns True if the next read is not in the page cache."""
        self.faults: list[Fault] = []
        """Faults that are checked before each operation. Remove a fault to heal it."""
        self._wall_ms = wall_ms

    # --- contents

    def write(self, node: FileNode, data: Data, path: str) -> None:
        """Append to a file, if there is space."""
        size = len(data)
        if self.used_bytes + size > self.capacity_bytes:
            raise failure("append", path, errno.ENOSPC)
        node.pending.append((len(node.content), size, b""))
        node.content += data
        node.modified_ms = self._wall_ms()
        self.used_bytes += size

    def truncate(self, node: FileNode, size: int) -> None:
        """Shorten a file, or extend it with zeros."""
        before = len(node.content)
        if size < before:
            node.pending.append((size, 0, bytes(node.content[size:])))
            del node.content[size:]
        elif size > before:
            node.pending.append((before, size - before, b""))
            node.content.extend(bytes(size - before))
        self.used_bytes += size - before

    # --- faults

    def fail(self, operation: str, *, path: str = "", code: int = errno.EIO) -> Fault:
        """Let operations of this kind (empty for any) fail on paths that contain `path`, until heal(it)."""

        def fault(asked: str, asked_path: str) -> DiskFailure | None:
            wanted = operation in ("", asked) and path in asked_path
            return failure(asked, asked_path, code) if wanted else None

        self.faults.append(fault)
        return fault

    def heal(self, fault: Fault) -> None:
        """Remove a fault."""
        self.faults.remove(fault)

    @contextmanager
    def sound(self) -> Iterator[None]:
        """Disable all faults in the block: for checks, whose result must not depend on faults."""
        faults, self.faults = self.faults, []
        try:
            yield
        finally:
            self.faults = faults

    def fill(self, *, free_bytes: int = 0) -> None:
        """Leave no more free space than this."""
        self.capacity_bytes = self.used_bytes + free_bytes

    def empty(self) -> None:
        """Restore the whole capacity."""
        self.capacity_bytes = CAPACITY_BYTES

    def flip(self, path: str, position: int, mask: int = 1) -> None:
        """Flip bits of a file silently."""
        node: FileNode | DirectoryNode = self.root
        for name in filter(None, path.split("/")):
            assert isinstance(node, DirectoryNode)
            node = node.entries[name]
        assert isinstance(node, FileNode)
        node.content[position] ^= mask

    def wipe(self) -> None:
        """Replace the device by an empty one."""
        self.root = DirectoryNode()
        self.used_bytes = 0

    def lose_power(self, random_source: SeededRandomSource) -> None:
        """Keep what was fsynced, and a random part of the rest."""
        self.root = self._after_cut(self.root, Choices(random_source=random_source.numbers))
        self.used_bytes = _used(self.root)

    def _after_cut(self, directory: DirectoryNode, choices: Choices) -> DirectoryNode:
        entries = (
            kept_entries(directory.durable, directory.pending, choices) if directory.pending else directory.entries
        )
        left = DirectoryNode()
        for name, node in sorted(entries.items()):
            if isinstance(node, DirectoryNode):
                left.entries[name] = self._after_cut(node, choices)
            else:
                left.entries[name] = kept = FileNode(kept_content(bytes(node.content), node.pending, choices))
                kept.modified_ms = node.modified_ms
        return left


def _used(directory: DirectoryNode) -> int:
    return sum(
        _used(node) if isinstance(node, DirectoryNode) else len(node.content) for node in directory.entries.values()
    )
