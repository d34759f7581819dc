"""Simulated disk that records every change; tests/crash/journal.py derives the states after a power cut from these.

Files and directories have numbers, which the recorded operations use. A replacement consists of its parts: create,
write, fsync, rename, fsync of the directory. The machine's own files are never used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kwire.log.disk import Data
from kwire.simulation.device import Device
from kwire.simulation.disk import SimulatedDisk
from kwire.simulation.files import DirectoryNode, FileNode, Node
from kwire.simulation.power_cut import Entry

Tree = dict[str, "Tree | bytes"]
"""Directory by name: contents of files, trees of directories. It is the initial and the final state of a disk."""


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


class RecordingDevice(Device):
    """Device with an initial tree that records all changes."""

    def __init__(self, tree: Mapping[str, Tree | bytes]) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.numbers: dict[Node, int] = {node: number for number, node in enumerate(grow(self.root, tree))}

    def write(self, node: FileNode, data: Data, path: str) -> None:
        if data:
            position = len(node.content)
            self.operations.append(Operation("write", self.numbers[node], position=position, data=bytes(data)))
        super().write(node, data, path)

    def truncate(self, node: FileNode, size: int) -> None:
        self.operations.append(Operation("truncate", self.numbers[node], position=size))
        super().truncate(node, size)

    def change(self, directory: DirectoryNode, entry: Entry[Node]) -> None:
        number = self.numbers[directory]
        if entry.node is None:
            kind = "unlink" if isinstance(directory.entries[entry.removed], FileNode) else "remove"
            operation = Operation(kind, number, entry.removed)
        elif entry.removed:
            operation = Operation("rename", number, entry.removed, entry.added, entry=self.numbers[entry.node])
        else:
            kind = "create" if isinstance(entry.node, FileNode) else "make"
            self.numbers[entry.node] = len(self.numbers)
            operation = Operation(kind, number, entry.added, entry=self.numbers[entry.node])
        self.operations.append(operation)
        super().change(directory, entry)

    def sync(self, node: Node) -> None:
        self.operations.append(Operation("sync", self.numbers[node]))
        super().sync(node)


class RecordingDisk(SimulatedDisk):
    """Disk of one process after the other on a recording device of its own."""

    device: RecordingDevice

    def __init__(self, tree: Mapping[str, Tree | bytes] | None = None) -> None:
        super().__init__(RecordingDevice(tree or {}))

    @property
    def operations(self) -> list[Operation]:
        return self.device.operations

    def kill(self) -> None:
        """End the process: its locks are released; written data stays, durable or not."""
        for node in self.device.numbers:
            if isinstance(node, FileNode):
                node.lock_of = None

    def tree(self) -> Tree:
        """Return all current data, durable or not."""
        return tree_of(self.device.root)


def grow(directory: DirectoryNode, tree: Mapping[str, Tree | bytes]) -> Iterator[Node]:
    """Add a durable tree to an empty directory; yield the directory and its nodes in the order of their numbers."""
    yield directory
    for name, what in tree.items():
        if isinstance(what, dict):
            child = directory.entries[name] = DirectoryNode()
            yield from grow(child, what)
        else:
            file = directory.entries[name] = FileNode(what)
            yield file


def tree_of(directory: DirectoryNode) -> Tree:
    return {
        name: tree_of(node) if isinstance(node, DirectoryNode) else bytes(node.content)
        for name, node in directory.entries.items()
    }
