"""Disks in memory that lose unsynced data at a power cut, and fail on request.

A Device is the hardware of a host: it survives processes and power cuts. A SimulatedDisk is one process's view of it, a
kwire.log.disk.Disk; the view of a killed process raises ProcessKilled. A Device subclass may observe the changes:
tests/crash records them all, to enumerate the states that a power cut may leave.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from kwire.log.disk import Data, Disk, DiskFailure
from kwire.simulation.device import Device, failure
from kwire.simulation.files import DirectoryNode, FileNode, Node
from kwire.simulation.open_files import SimulatedFile, SimulatedLock
from kwire.simulation.power_cut import Entry


class ProcessKilled(BaseException):
    """Operation of a process that was killed."""


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
        if operation == "fsync":
            self._note(f"fsync {path}")
        for fault in self.device.faults:
            found = fault(operation, path)
            if found is not None:
                self._note(f"{operation} {path} fails: {found.error.strerror}")
                raise found

    # --- finding

    def find(self, path: str) -> Node | None:
        """Return the node of a path, or None."""
        return self.device.root.find(path)

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
        self.device.change(directory, Entry("", name, node))
        return node

    def _emptied(self, path: str) -> FileNode:
        """Return an empty file: a new one, or the existing one truncated."""
        if self.find(path) is None:
            return self._create(path)
        node = self.file_at(path, "open")
        if node.content:
            self.device.truncate(node, 0)
        return node

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        self.check("replace", path)
        temporary = f"{path}.tmp"
        node = self._emptied(temporary)
        try:
            self.device.write(node, data, path)
            if sync:
                self.check("fsync", path)
                self.device.sync(node)
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
        self.device.change(directory, Entry(old_name, new_name, directory.entries[old_name]))

    def unlink(self, path: str) -> None:
        self.check("unlink", path)
        directory, name = self._parent(path, "delete")
        node = directory.entries.get(name)
        if isinstance(node, DirectoryNode):
            raise failure("delete", path, errno.EISDIR)
        if node is not None:
            self.device.change(directory, Entry(name, "", None))

    def make_directory(self, path: str) -> None:
        made = ""
        for name in path.split("/")[1:]:
            made = f"{made}/{name}"
            node = self.find(made)
            if node is None:
                self.check("make directory", path)
                directory, _ = self._parent(made, "make directory")
                self.device.change(directory, Entry("", name, DirectoryNode()))
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
        self.device.change(directory, Entry(name, "", None))

    def sync_file(self, path: str) -> None:
        self.check("fsync", path)
        self.device.sync(self.file_at(path, "fsync"))

    def sync_directory(self, path: str) -> None:
        self.check("fsync", path)
        self.device.sync(self._directory_at(path, "fsync"))

    def lock(self, path: str) -> SimulatedLock | None:
        self.check("lock", path)
        node = self.find(path) or self._create(path)
        assert isinstance(node, FileNode)
        holder = node.lock_of
        if isinstance(holder, SimulatedDisk) and not holder.is_dead:
            return None
        node.lock_of = self
        return SimulatedLock(self, node)
