"""Files and directories in memory: their current content, and their changes since the last fsync.

They are nodes without names, so that an open file stays the same when its name changes or is removed. Changes since the
last fsync are kept as a list, so that an append stays cheap. kwire.simulation.power_cut describes what a power cut
leaves of them.
"""

from __future__ import annotations

from kwire.log.disk import Data
from kwire.simulation.power_cut import Change, Choices, Entry, kept_content, kept_entries


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

    def append(self, data: Data) -> None:
        self.pending.append((len(self.content), len(data), b""))
        self.content += data

    def truncate(self, size: int) -> None:
        """Shorten the file, or extend it with zeros."""
        before = len(self.content)
        if size < before:
            self.pending.append((size, 0, bytes(self.content[size:])))
            del self.content[size:]
        elif size > before:
            self.pending.append((before, size - before, b""))
            self.content.extend(bytes(size - before))

    def sync(self) -> None:
        """Make all changes durable."""
        self.pending.clear()

    def after_cut(self, choices: Choices) -> FileNode:
        """Return the file after a power cut now."""
        left = FileNode(kept_content(bytes(self.content), self.pending, choices))
        left.modified_ms = self.modified_ms
        return left


class DirectoryNode:
    """Directory: names and their nodes."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, FileNode | DirectoryNode] = {}
        self.durable: dict[str, FileNode | DirectoryNode] = {}
        """Entries at the last fsync; only used while changes are pending."""
        self.pending: list[Entry[FileNode | DirectoryNode]] = []

    def find(self, path: str) -> FileNode | DirectoryNode | None:
        """Return the node of a path that starts in this directory, or None."""
        node: FileNode | DirectoryNode | None = self
        for name in path.split("/"):
            if name:
                if not isinstance(node, DirectoryNode):
                    return None
                node = node.entries.get(name)
        return node

    def size(self) -> int:
        """Return the number of bytes in all files."""
        nodes = self.entries.values()
        return sum(node.size() if isinstance(node, DirectoryNode) else len(node.content) for node in nodes)

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

    def after_cut(self, choices: Choices, *, free_levels: int = 0) -> DirectoryNode:
        """Return the directory after a power cut now.

        Names of directories in the first `free_levels` levels become durable in any order.
        """
        entries = self.entries
        if self.pending:
            entries = kept_entries(self.durable, self.pending, choices, in_any_order=free_levels > 0)
        left = DirectoryNode()
        for name, node in sorted(entries.items()):
            if isinstance(node, DirectoryNode):
                left.entries[name] = node.after_cut(choices, free_levels=free_levels - 1)
            else:
                left.entries[name] = node.after_cut(choices)
        return left


Node = FileNode | DirectoryNode
