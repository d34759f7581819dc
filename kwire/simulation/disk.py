"""Disks in memory that lose unsynced data at a power cut, and fail on request.

A Device is the hardware of a host: it survives processes and power cuts. A SimulatedDisk is one process's view of it, a
kwire.log.disk.Disk; the view of a killed process raises ProcessKilled. Files and directories are nodes, so that an open
file stays the same when its name changes or is removed. Changes since the last fsync are kept as a list, so that an
append stays cheap. kwire.simulation.power_cut describes what a power cut leaves of them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from kwire.log.disk import Data, Disk, DiskFailure
from kwire.simulation.device import Device, DirectoryNode, FileNode, failure
from kwire.simulation.power_cut import Entry


class ProcessKilled(BaseException):
    """Operation of a process that was killed."""


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
        node.pending.clear()

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


class SimulatedDisk:
    """View of one process on its host's device."""

    def __init__(self, device: Device, note: Callable[[str], object] = str) -> None:
        self.device = device
        self.is_dead = False
        self._note = note

    def check(self, operation: str, path: str) -> None:
        """Raise the failure of an operation, if it fails."""
        if self.is_dead:
            raise ProcessKilled(f"{operation} of {path}")
        self.device.operations += 1
        if operation == "fsync":
            self._note(f"fsync {path}")
        for fault in self.device.faults:
            found = fault(operation, path)
            if found is not None:
                self._note(f"{operation} {path} fails: {found.error.strerror}")
                raise found

    # --- finding

    def find(self, path: str) -> FileNode | DirectoryNode | None:
        """Return the node of a path, or None."""
        node: FileNode | DirectoryNode | None = self.device.root
        for name in path.split("/"):
            if name:
                if not isinstance(node, DirectoryNode):
                    return None
                node = node.entries.get(name)
        return node

    def _parent(self, path: str, operation: str) -> tuple[DirectoryNode, str]:
        parent, _, name = path.rpartition("/")
        return self._directory_at(parent, operation), name

    def file_at(self, path: str, operation: str) -> FileNode:
        node = self.find(path)
        if not isinstance(node, FileNode):
            raise failure(operation, path, errno.ENOENT if node is None else errno.EISDIR)
        return node

    def _directory_at(self, path: str, operation: str) -> DirectoryNode:
        node = self.find(path)
        if not isinstance(node, DirectoryNode):
            raise failure(operation, path, errno.ENOENT if node is None else errno.ENOTDIR)
        return node

    def part(self, count: int) -> SimulatedDisk:
        return self

    def adopt(self, part: Disk) -> None:
        """Do nothing: a part is the disk itself."""

    def exists(self, path: str) -> bool:
        return self.find(path) is not None

    def is_directory(self, path: str) -> bool:
        self.check("stat", path)
        return isinstance(self.find(path), DirectoryNode)

    def list(self, directory: str) -> list[str]:
        self.check("list", directory)
        return sorted(self._directory_at(directory, "list").entries)

    def size(self, path: str) -> int:
        return len(self.file_at(path, "stat").content)

    def modified_ms(self, path: str) -> int:
        return self.file_at(path, "stat").modified_ms

    def space(self, path: str) -> tuple[int, int]:
        if self.find(path) is None:
            raise failure("stat", path, errno.ENOENT)
        return self.device.capacity_bytes, max(0, self.device.capacity_bytes - self.device.used_bytes)

    def read(self, path: str) -> bytes:
        self.check("read", path)
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, path)
        if isinstance(node, DirectoryNode):
            raise failure("read", path, errno.EISDIR)
        return bytes(node.content)

    # --- changing

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        node = self.find(path)
        if create and node is None:
            self.check("create", path)
            node = self._create(path)
        return SimulatedFile(self, path, self.file_at(path, "open"))

    def _create(self, path: str) -> FileNode:
        directory, name = self._parent(path, "open")
        node = FileNode()
        directory.change(Entry("", name, node))
        return node

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        self.check("replace", path)
        temporary = f"{path}.tmp"
        self.unlink(temporary)
        node = self._create(temporary)
        try:
            self.device.write(node, data, path)
            if sync:
                self.check("fsync", path)
                node.pending.clear()
            self.rename(temporary, path)
        except DiskFailure:
            self.unlink(temporary)
            raise
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def rename(self, old: str, new: str) -> None:
        self.check("rename", old)
        directory, old_name = self._parent(old, "rename")
        other, new_name = self._parent(new, "rename")
        assert directory is other, "nothing is moved from one directory to another"
        if old_name not in directory.entries:
            raise failure("rename", old, errno.ENOENT)
        there = directory.entries.get(new_name)
        assert not isinstance(there, DirectoryNode), "no directory is replaced"
        if there is not None:
            self.device.used_bytes -= len(there.content)
        directory.change(Entry(old_name, new_name, directory.entries[old_name]))

    def unlink(self, path: str) -> None:
        self.check("unlink", path)
        directory, name = self._parent(path, "delete")
        node = directory.entries.get(name)
        if isinstance(node, DirectoryNode):
            raise failure("delete", path, errno.EISDIR)
        if node is not None:
            self.device.used_bytes -= len(node.content)
            directory.change(Entry(name, "", None))

    def make_directory(self, path: str) -> None:
        made = ""
        for name in path.split("/")[1:]:
            made = f"{made}/{name}"
            node = self.find(made)
            if node is None:
                self.check("make directory", path)
                directory, _ = self._parent(made, "make directory")
                directory.change(Entry("", name, DirectoryNode()))
            elif isinstance(node, FileNode):
                raise failure("make directory", path, errno.EEXIST)

    def remove_directory(self, path: str) -> None:
        node = self.find(path)
        if node is None:
            return
        if isinstance(node, FileNode):
            raise failure("delete", path, errno.ENOTDIR)
        for name in list(node.entries):
            if isinstance(node.entries[name], DirectoryNode):
                self.remove_directory(f"{path}/{name}")
            else:
                self.unlink(f"{path}/{name}")
        directory, name = self._parent(path, "delete")
        directory.change(Entry(name, "", None))

    def sync_file(self, path: str) -> None:
        self.check("fsync", path)
        self.file_at(path, "fsync").pending.clear()

    def sync_directory(self, path: str) -> None:
        self.check("fsync", path)
        self._directory_at(path, "fsync").sync()

    def lock(self, path: str) -> SimulatedLock | None:
        self.check("lock", path)
        node = self.find(path) or self._create(path)
        assert isinstance(node, FileNode)
        holder = node.lock_of
        if isinstance(holder, SimulatedDisk) and not holder.is_dead:
            return None
        node.lock_of = self
        return SimulatedLock(self, node)
