"""States that a power cut may leave after recorded operations.

A journal follows the operations. For each file, it stores the durable contents and the writes and truncations since the
last fsync; for each directory, the same for its entries. A state selects which of these changes reached the disk before
the power cut:

- of a file's un-synced changes, those that kwire.simulation.power_cut selects;
- of a directory's un-synced changes, all up to some point; or, with free order, any of them whose predecessors on the
  same names are selected too.

Files and directories are independent of each other. An fsync of a file makes its contents and size durable, but not the
entry that names it; XFS and ext4 usually do more. A rename over a name is atomic. All data after a power cut is
durable.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kwire.simulation.power_cut import PAGE_BYTES, SECTOR_BYTES, Choices, applied, content_after
from tests.crash.disk import ROOT, Operation, Tree

__all__ = ["PAGE_BYTES", "SECTOR_BYTES", "Choices", "Journal"]


class Entry(NamedTuple):
    """Change of a directory."""

    removed: str
    """Name that is removed; empty if none is."""
    added: str
    node: int


class FileHistory:
    """Durable contents of a file and its changes since."""

    __slots__ = ("durable", "pending")

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable
        self.pending: list[tuple[int, bytes | None]] = []
        """(position, data) of a write, (size, None) of a truncation."""


class DirectoryHistory:
    """Durable entries of a directory and their changes since."""

    __slots__ = ("durable", "pending")

    def __init__(self) -> None:
        self.durable: dict[str, int] = {}
        self.pending: list[Entry] = []


class Journal:
    """Journal of operations that start from a durable tree."""

    def __init__(self, tree: Tree) -> None:
        self._count = 0
        self._files: dict[int, FileHistory] = {}
        self._directories: dict[int, DirectoryHistory] = {}
        self._grow(ROOT, tree)

    def _grow(self, number: int, tree: Tree) -> None:
        """Number the nodes in the order of RecordingDisk."""
        directory = self._directories[number] = DirectoryHistory()
        for name, what in tree.items():
            self._count += 1
            child = self._count
            directory.durable[name] = child
            if isinstance(what, dict):
                self._grow(child, what)
            else:
                self._files[child] = FileHistory(what)

    def follow(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self._follow(operation)

    def _follow(self, operation: Operation) -> None:
        kind, number = operation.kind, operation.node
        if kind == "write":
            self._files[number].pending.append((operation.position, operation.data))
        elif kind == "truncate":
            self._files[number].pending.append((operation.position, None))
        elif kind == "sync":
            self._sync(number)
        else:
            if kind == "create":
                self._files[operation.entry] = FileHistory()
            elif kind == "make":
                self._directories[operation.entry] = DirectoryHistory()
            self._directories[number].pending.append(_entry(operation))

    def _sync(self, number: int) -> None:
        file = self._files.get(number)
        if file is not None:
            file.durable = applied(file.durable, file.pending)
            file.pending = []
        else:
            directory = self._directories[number]
            directory.durable = _entries(directory.durable, directory.pending)
            directory.pending = []

    # --- states

    def state(self, choices: Choices, *, free_order: int = 0) -> Tree:
        """Return the state after a power cut now; directories down to the depth `free_order` have a free order of
        names.
        """
        return self._state(ROOT, choices, free_order)

    def _state(self, number: int, choices: Choices, free_order: int) -> Tree:
        directory = self._directories[number]
        pending: Sequence[Entry] = directory.pending
        if pending:
            if free_order > 0:
                pending = _some(pending, choices)
            else:
                pending = pending[: len(pending) - choices.pick(len(pending) + 1)]
        tree: Tree = {}
        for name, child in sorted(_entries(directory.durable, pending).items()):
            if child in self._directories:
                tree[name] = self._state(child, choices, free_order - 1)
            else:
                tree[name] = content_after(self._files[child].durable, self._files[child].pending, choices)
        return tree

    def states(self, *, limit: int, seed: int, free_order: int = 0) -> Iterator[tuple[list[int], Tree]]:
        """Yield (choices, state) of all states if they are at most `limit`, else of that many random ones."""
        found = []
        for state in self._all(free_order):
            found.append(state)
            if len(found) > limit:
                break
        if len(found) <= limit:
            yield from found
            return
        random_source = random.Random(seed)
        for _ in range(limit):
            choices = Choices(random_source=random_source)
            tree = self.state(choices, free_order=free_order)
            yield choices.taken, tree

    def _all(self, free_order: int) -> Iterator[tuple[list[int], Tree]]:
        given: list[int] = []
        while True:
            choices = Choices(given)
            tree = self.state(choices, free_order=free_order)
            yield choices.taken, tree
            index = len(choices.taken) - 1
            while index >= 0 and choices.taken[index] + 1 >= choices.options[index]:
                index -= 1
            if index < 0:
                return
            given = [*choices.taken[:index], choices.taken[index] + 1]


def _entry(operation: Operation) -> Entry:
    match operation.kind:
        case "create" | "make":
            return Entry("", operation.name, operation.entry)
        case "rename":
            return Entry(operation.name, operation.new_name, operation.entry)
        case _:
            return Entry(operation.name, "", -1)


def _entries(durable: dict[str, int], pending: Iterable[Entry]) -> dict[str, int]:
    entries = dict(durable)
    for removed, added, node in pending:
        if removed:
            entries.pop(removed, None)
        if added:
            entries[added] = node
    return entries


def _some(pending: Sequence[Entry], choices: Choices) -> list[Entry]:
    """Select any of the changes, but none without the earlier ones on its names."""
    kept: list[Entry] = []
    lost: set[str] = set()
    for entry in pending:
        names = {name for name in entry[:2] if name}
        if lost & names or choices.pick(2):
            lost |= names
        else:
            kept.append(entry)
    return kept
