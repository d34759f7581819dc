"""What a power cut may leave of recorded operations.

Followed operation by operation, a journal knows for each file what is durable and which writes and truncations came
after its last fsync, and for each directory the same of its entries. A state picks, for each of them, what got to the
disk before the power went:

- of a file's un-synced changes all, none, or those up to some point, the last of them cut at any byte or at a sector;
  or its size grew and any of the sectors (512 bytes) or pages (4 KiB) written since hold what they held before, which
  are zeros where there was nothing: delayed allocation, and writes that went to the disk in another order;
- of a directory's un-synced changes those up to some point; or, where the order is free, any of them whose
  predecessors on the same names are there, too.

Files and directories choose independently of each other. An fsync of a file makes its content and size durable but not
the entry that names it: XFS and ext4 usually do more. A rename over a name is atomic. What a power cut leaves is
durable.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.crash.disk import ROOT, Operation, Tree

SECTOR_BYTES = 512
PAGE_BYTES = 4096


class Choices:
    """Numbers that decide: first those given, then those of chance, or 0 without any.

    Chance decides at first how much is kept: else a state in which just one of many things is lost would be rare.
    """

    def __init__(self, given: Sequence[int] = (), chance: random.Random | None = None) -> None:
        self._given = given
        self._chance = chance
        self._kept = 0.0 if chance is None else chance.choice((0.0, 0.5, 0.9))
        self.taken: list[int] = []
        self.options: list[int] = []

    def pick(self, options: int) -> int:
        """A number below options; the first option is always that everything is kept."""
        if options <= 1:
            return 0
        index = len(self.taken)
        if index < len(self._given):
            value = self._given[index]
        else:
            value = self._drawn(options)
        assert 0 <= value < options, f"choice {index} is {value} of {options}"
        self.taken.append(value)
        self.options.append(options)
        return value

    def _drawn(self, options: int) -> int:
        if self._chance is None or self._chance.random() < self._kept:
            return 0
        return self._chance.randrange(options)


class Entry(NamedTuple):
    """A change of a directory."""

    removed: str
    """The name that goes, empty if none does."""
    added: str
    node: int


class FileHistory:
    """A file's durable content and what was done to it since."""

    __slots__ = ("durable", "pending")

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable
        self.pending: list[tuple[int, bytes | None]] = []
        """(position, data) of a write, (size, None) of a truncation."""


class DirectoryHistory:
    """A directory's durable entries and what was done to them since."""

    __slots__ = ("durable", "pending")

    def __init__(self) -> None:
        self.durable: dict[str, int] = {}
        self.pending: list[Entry] = []


class Journal:
    """Follows operations from a tree on, all of which was durable."""

    def __init__(self, tree: Tree) -> None:
        self._count = 0
        self._files: dict[int, FileHistory] = {}
        self._directories: dict[int, DirectoryHistory] = {}
        self._grow(ROOT, tree)

    def _grow(self, number: int, tree: Tree) -> None:
        """Numbers are given as RecordingDisk gives them."""
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
        """What is left when the power goes now; the order of names is free in directories down to that depth."""
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
                tree[name] = content(self._files[child], choices)
        return tree

    def states(self, *, limit: int, seed: int, free_order: int = 0) -> Iterator[tuple[list[int], Tree]]:
        """All states if there are no more than limit, else so many drawn by the seed: (choices, what is left)."""
        found = []
        for state in self._all(free_order):
            found.append(state)
            if len(found) > limit:
                break
        if len(found) <= limit:
            yield from found
            return
        chance = random.Random(seed)
        for _ in range(limit):
            choices = Choices(chance=chance)
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
    """Any of the changes, but none without the earlier ones on its names."""
    kept: list[Entry] = []
    lost: set[str] = set()
    for entry in pending:
        names = {name for name in entry[:2] if name}
        if lost & names or choices.pick(2):
            lost |= names
        else:
            kept.append(entry)
    return kept


# --- contents of files


def applied(durable: bytes, pending: Iterable[tuple[int, bytes | None]]) -> bytes:
    """The content after these changes."""
    out = bytearray(durable)
    for position, data in pending:
        size = position if data is None else position + len(data)
        if data is None and size < len(out):
            del out[size:]
        elif size > len(out):
            out.extend(bytes(size - len(out)))
        if data is not None:
            out[position:size] = data
    return bytes(out)


def content(file: FileHistory, choices: Choices) -> bytes:
    """What is left of a file."""
    pending = file.pending
    if not pending:
        return file.durable
    match choices.pick(6):
        case 0:
            return applied(file.durable, pending)
        case 1:
            return file.durable
        case 2:
            return _cut(file, choices, 1)
        case 3:
            return _cut(file, choices, SECTOR_BYTES)
        case 4:
            return _blocks(file, choices, SECTOR_BYTES)
        case _:
            return _blocks(file, choices, PAGE_BYTES)


def _cut(file: FileHistory, choices: Choices, unit: int) -> bytes:
    """The changes up to one that is cut at a multiple of unit bytes."""
    last = choices.pick(len(file.pending))
    position, data = file.pending[last]
    before = applied(file.durable, file.pending[:last])
    if data is None:
        return before
    cuts = range(-(-(position + 1) // unit) * unit, position + len(data), unit)
    if not cuts:
        return before
    end = cuts[choices.pick(len(cuts))]
    return applied(before, [(position, data[: end - position])])


def _blocks(file: FileHistory, choices: Choices, unit: int) -> bytes:
    """The changes up to some point; blocks that they wrote may hold what was there before them."""
    kept = file.pending[: len(file.pending) - choices.pick(len(file.pending))]
    after = applied(file.durable, kept)
    old = applied(file.durable, [change for change in kept if change[1] is None])
    old = old[: len(after)] + bytes(len(after) - len(old))
    dirty = sorted(
        {
            block
            for position, data in kept
            if data
            for block in range(position // unit, (position + len(data) - 1) // unit + 1)
            if block * unit < len(after)
        }
    )
    mask = choices.pick(2 ** len(dirty))
    if not mask:
        return after
    out = bytearray(after)
    for index, block in enumerate(dirty):
        if mask >> index & 1:
            out[block * unit : (block + 1) * unit] = old[block * unit : (block + 1) * unit]
    return bytes(out)
