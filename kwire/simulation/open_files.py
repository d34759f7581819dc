"""Open files and locks of one process on a simulated disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.log.disk import Data
from kwire.simulation.files import FileNode

if TYPE_CHECKING:
    from kwire.simulation.disk import SimulatedDisk


class SimulatedFile:
    """Open file; after close it is opened again by its path, like a real one."""

    __slots__ = ("_disk", "_node", "cuts", "path")

    def __init__(self, disk: SimulatedDisk, path: str, node: FileNode) -> None:
        self._disk = disk
        self._node: FileNode | None = node
        self.path = path
        self.cuts = 0

    @property
    def size(self) -> int:
        return len((self._node or self._reopened()).content)

    @size.setter
    def size(self, size: int) -> None:
        raise AttributeError("the size follows from the content")

    def _reopened(self) -> FileNode:
        node = self._disk.file_at(self.path, "open")
        self._node = node
        return node

    def append(self, *parts: Data) -> None:
        disk = self._disk
        node = self._node or self._reopened()
        disk.check("append", self.path)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        disk.device.write(node, data, self.path)

    def read(self, position: int, length: int) -> bytes:
        node = self._node or self._reopened()
        self._disk.check("read", self.path)
        return bytes(node.content[position : position + length])

    def is_cached(self, position: int, length: int) -> bool:
        return not self._disk.device.is_cold()

    def truncate(self, size: int) -> None:
        node = self._node or self._reopened()
        self._disk.check("truncate", self.path)
        self._disk.device.truncate(node, size)
        self.cuts += 1

    def sync(self) -> None:
        node = self._node or self._reopened()
        self._disk.check("fsync", self.path)
        self._disk.device.sync(node)

    def pin(self) -> None:
        if self._node is None:
            self._reopened()

    def unpin(self) -> None:
        """Do nothing: a simulated file has no descriptor."""

    def close(self) -> None:
        self._node = None
        self.cuts += 1


class SimulatedLock:
    """Lock that a process holds until it releases it or is killed."""

    def __init__(self, disk: SimulatedDisk, node: FileNode) -> None:
        self._disk = disk
        self._node = node

    def release(self) -> None:
        if self._node.lock_of is self._disk:
            self._node.lock_of = None
