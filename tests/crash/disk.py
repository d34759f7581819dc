"""Disk in memory that records every operation; tests/crash/journal.py derives the states after a power cut from these.

Files and directories are nodes with numbers. A directory's entries are separate from the contents of its files, so an
open file stays the same node when it is renamed or removed. A replacement consists of its parts: create, write, fsync,
rename, fsync of the directory. The machine's own files are never used.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import NamedTuple

from kwire.log.disk import Data, DiskFailure

Tree = dict[str, "Tree | bytes"]
"""Directory by name: contents of files, trees of directories. It is the initial and the final state of a disk."""

ROOT = 0
"""Number of the root directory."""


class Operation(NamedTuple):
    """Operation that changed a file or a directory, or made it durable."""

    kind: str
    """Kind: create, make, rename, unlink, remove (entries of a directory); write, truncate (contents); sync."""
    node: int
    """Number of the file written or synced, or of the directory whose entry changed."""
    name: str = ""
    new_name: str = ""
    entry: int = -1
    """Node of the entry that is created or renamed."""
    position: int = 0
    data: bytes = b""


class FileNode:
    """File contents without a name."""

    __slots__ = ("content", "modified_ms", "number")

    def __init__(self, number: int, content: bytes = b"") -> None:
        self.number = number
        self.content = bytearray(content)
        self.modified_ms = 0


class DirectoryNode:
    """Directory: names and their nodes."""

    __slots__ = ("entries", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: dict[str, FileNode | DirectoryNode] = {}


def failure(operation: str, path: str, code: int) -> DiskFailure:
    return DiskFailure(operation, path, OSError(code, errno.errorcode[code]))


class MemoryFile:
    """Open file; after close it is found again by its path, like a real file."""

    __slots__ = ("_disk", "_node", "cuts", "path")

    def __init__(self, disk: RecordingDisk, path: str, node: FileNode) -> None:
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
        data = b"".join(parts)
        node = self._node or self._reopened()
        self._disk.note(Operation("write", node.number, position=len(node.content), data=data))
        node.content += data

    def read(self, position: int, length: int) -> bytes:
        node = self._node or self._reopened()
        return bytes(node.content[position : position + length])

    def is_cached(self, position: int, length: int) -> bool:
        return True

    def truncate(self, size: int) -> None:
        node = self._node or self._reopened()
        self._disk.note(Operation("truncate", node.number, position=size))
        _resize(node.content, size)
        self.cuts += 1

    def sync(self) -> None:
        node = self._node or self._reopened()
        self._disk.note(Operation("sync", node.number))

    def pin(self) -> None:
        if self._node is None:
            self._reopened()

    def unpin(self) -> None:
        """Do nothing: descriptors are unlimited here."""

    def close(self) -> None:
        self._node = None
        self.cuts += 1


class MemoryLock:
    """Lock that a process holds until it releases it or is killed."""

    def __init__(self, held: set[int], number: int) -> None:
        self._held = held
        self._number = number

    def release(self) -> None:
        self._held.discard(self._number)


class RecordingDisk:
    """Implementation of kwire.log.disk.Disk that records its operations."""

    def __init__(self, tree: Mapping[str, Tree | bytes] | None = None) -> None:
        self._count = 0
        self._locked: set[int] = set()
        self.root = DirectoryNode(ROOT)
        self._grow(self.root, tree or {})
        self.operations: list[Operation] = []

    def _grow(self, directory: DirectoryNode, tree: Mapping[str, Tree | bytes]) -> None:
        for name, what in tree.items():
            if isinstance(what, dict):
                child = DirectoryNode(self._next_number())
                directory.entries[name] = child
                self._grow(child, what)
            else:
                directory.entries[name] = FileNode(self._next_number(), what)

    def _next_number(self) -> int:
        self._count += 1
        return self._count

    def note(self, operation: Operation) -> None:
        self.operations.append(operation)

    def kill(self) -> None:
        """End the process: its locks are released; written data stays, durable or not."""
        self._locked.clear()

    def tree(self) -> Tree:
        """Return all current data, durable or not."""
        return _tree_of(self.root)

    # --- lookups

    def _find(self, path: str) -> FileNode | DirectoryNode | None:
        node: FileNode | DirectoryNode | None = self.root
        for name in path.strip("/").split("/") if path.strip("/") else ():
            if not isinstance(node, DirectoryNode):
                return None
            node = node.entries.get(name)
        return node

    def _parent(self, path: str, operation: str) -> tuple[DirectoryNode, str]:
        parent, _, name = path.rpartition("/")
        node = self._find(parent) if parent else self.root
        if not isinstance(node, DirectoryNode):
            raise failure(operation, path, errno.ENOENT)
        return node, name

    def file_at(self, path: str, operation: str) -> FileNode:
        node = self._find(path)
        if not isinstance(node, FileNode):
            raise failure(operation, path, errno.ENOENT if node is None else errno.EISDIR)
        return node

    def _directory_at(self, path: str, operation: str) -> DirectoryNode:
        node = self._find(path)
        if not isinstance(node, DirectoryNode):
            raise failure(operation, path, errno.ENOENT if node is None else errno.ENOTDIR)
        return node

    def part(self, count: int) -> RecordingDisk:
        return self

    def adopt(self, part: object) -> None:
        """Do nothing: the parts of a broker share the disk."""

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), DirectoryNode)

    def list(self, directory: str) -> list[str]:
        return sorted(self._directory_at(directory, "list").entries)

    def size(self, path: str) -> int:
        return len(self.file_at(path, "stat").content)

    def modified_ms(self, path: str) -> int:
        return self.file_at(path, "stat").modified_ms

    def space(self, path: str) -> tuple[int, int]:
        return 1 << 40, 1 << 39

    def read(self, path: str) -> bytes:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, path)
        if isinstance(node, DirectoryNode):
            raise failure("read", path, errno.EISDIR)
        return bytes(node.content)

    # --- changes

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if create and self._find(path) is None:
            self._create(path)
        return MemoryFile(self, path, self.file_at(path, "open"))

    def _create(self, path: str) -> FileNode:
        directory, name = self._parent(path, "open")
        node = directory.entries[name] = FileNode(self._next_number())
        self.note(Operation("create", directory.number, name, entry=node.number))
        return node

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        temporary = f"{path}.tmp"
        node = self._find(temporary)
        if node is None:
            node = self._create(temporary)
        assert isinstance(node, FileNode)
        if node.content:
            self.note(Operation("truncate", node.number))
            node.content.clear()
        content = bytes(data)
        if content:
            self.note(Operation("write", node.number, data=content))
            node.content += content
        if sync:
            self.note(Operation("sync", node.number))
        self.rename(temporary, path)
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def rename(self, old: str, new: str) -> None:
        directory, old_name = self._parent(old, "rename")
        other, new_name = self._parent(new, "rename")
        assert directory is other, "nothing is moved from one directory to another"
        if old_name not in directory.entries:
            raise failure("rename", old, errno.ENOENT)
        node = directory.entries.pop(old_name)
        there = directory.entries.get(new_name)
        assert not isinstance(there, DirectoryNode), "no directory is replaced"
        directory.entries[new_name] = node
        self.note(Operation("rename", directory.number, old_name, new_name, entry=node.number))

    def unlink(self, path: str) -> None:
        directory, name = self._parent(path, "delete")
        node = directory.entries.get(name)
        if isinstance(node, DirectoryNode):
            raise failure("delete", path, errno.EISDIR)
        if node is not None:
            del directory.entries[name]
            self.note(Operation("unlink", directory.number, name))

    def make_directory(self, path: str) -> None:
        made = ""
        for name in path.split("/")[1:]:
            made = f"{made}/{name}"
            node = self._find(made)
            if node is None:
                directory, _ = self._parent(made, "make directory")
                child = directory.entries[name] = DirectoryNode(self._next_number())
                self.note(Operation("make", directory.number, name, entry=child.number))
            elif isinstance(node, FileNode):
                raise failure("make directory", path, errno.EEXIST)

    def remove_directory(self, path: str) -> None:
        node = self._find(path)
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
        del directory.entries[name]
        self.note(Operation("remove", directory.number, name))

    def sync_file(self, path: str) -> None:
        self.note(Operation("sync", self.file_at(path, "fsync").number))

    def sync_directory(self, path: str) -> None:
        self.note(Operation("sync", self._directory_at(path, "fsync").number))

    def lock(self, path: str) -> MemoryLock | None:
        node = self._find(path) or self._create(path)
        if node.number in self._locked:
            return None
        self._locked.add(node.number)
        return MemoryLock(self._locked, node.number)


def _resize(content: bytearray, size: int) -> None:
    if size <= len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _tree_of(directory: DirectoryNode) -> Tree:
    return {
        name: _tree_of(node) if isinstance(node, DirectoryNode) else bytes(node.content)
        for name, node in directory.entries.items()
    }
