"""Hardware of a simulated disk: its content, the durable part of it, and its faults."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kwire.log.disk import Data, DiskFailure, DiskFullError
from kwire.simulation.files import DirectoryNode, FileNode, Node
from kwire.simulation.power_cut import Choices, Entry
from kwire.simulation.random_source import SeededRandomSource

Fault = Callable[[str, str], DiskFailure | None]
"""Returns the failure of an operation on a path, or None if it succeeds.

Operations are append, read, truncate, fsync, create, replace, rename, unlink, lock, list and stat.
"""
CAPACITY_BYTES = 1 << 40


def failure(operation: str, path: str, code: int) -> DiskFailure:
    kind = DiskFullError if code in (errno.ENOSPC, errno.EDQUOT) else DiskFailure
    return kind(operation, path, OSError(code, os.strerror(code)))


class Device:
    """Storage device of one host. Disks change its content with write, truncate, change and sync only."""

    def __init__(self, wall_ms: Callable[[], int] = lambda: 0) -> None:
        self.root = DirectoryNode()
        self.capacity_bytes = CAPACITY_BYTES
        self.used_bytes = 0
        self.slowness = 1.0
        """Factor of the durations of workers' calls."""
        self.is_cold: Callable[[], bool] = lambda: False
        """Returns True if the next read is not in the page cache."""
        self.faults: list[Fault] = []
        """Faults that are checked before each operation. Remove a fault to heal it."""
        self._wall_ms = wall_ms

    # --- changes

    def write(self, node: FileNode, data: Data, path: str) -> None:
        """Append to a file, if there is space."""
        size = len(data)
        if self.used_bytes + size > self.capacity_bytes:
            raise failure("append", path, errno.ENOSPC)
        node.append(data)
        node.modified_ms = self._wall_ms()
        self.used_bytes += size

    def truncate(self, node: FileNode, size: int) -> None:
        """Shorten a file, or extend it with zeros."""
        self.used_bytes += size - len(node.content)
        node.truncate(size)

    def change(self, directory: DirectoryNode, entry: Entry[Node]) -> None:
        """Change a directory; a file that is removed or replaced frees its space."""
        gone = directory.entries.get(entry.added or entry.removed)
        if isinstance(gone, FileNode):
            self.used_bytes -= len(gone.content)
        directory.change(entry)

    def sync(self, node: Node) -> None:
        """Make a file or a directory durable."""
        node.sync()

    # --- faults

    def fail(self, operation: str, *, path: str = "", code: int = errno.EIO) -> Fault:
        """Let operations of this kind (empty for any) fail on paths that contain `path`, until heal(it)."""

        def fault(asked: str, asked_path: str) -> DiskFailure | None:
            matches = operation in ("", asked) and path in asked_path
            return failure(asked, asked_path, code) if matches else None

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
        node = self.root.find(path)
        assert isinstance(node, FileNode)
        node.content[position] ^= mask

    def wipe(self) -> None:
        """Replace the device by an empty one."""
        self.root = DirectoryNode()
        self.used_bytes = 0

    def lose_power(self, random_source: SeededRandomSource) -> None:
        """Keep what was fsynced, and a random part of the rest."""
        self.root = self.root.after_cut(Choices(random_source=random_source.numbers))
        self.used_bytes = self.root.size()
