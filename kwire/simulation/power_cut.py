"""Possible results of a power cut for unsynced changes.

- File content, simple cases: all changes since the last fsync are kept, or none, or those up to some point. The last
  one may be cut at any byte or at a sector.
- File content, blocks: the size grew, and any of the sectors (512 bytes) or pages (4 KiB) written since then hold their
  earlier content, or zeros where there was none. The reasons are delayed allocation, and reordered writes.
- Directory: the changes up to some point are kept. With a free order, any of them are, if the earlier changes of the
  same names are.

An fsync of a file makes its content and size durable but not its directory entry; XFS and ext4 usually do more. A
rename over a name is atomic. The content after a power cut is durable.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

SECTOR_BYTES = 512
PAGE_BYTES = 4096

Change = tuple[int, int, bytes]
"""Change of a file that can be undone: (position, bytes added there, bytes cut off there)."""
Write = tuple[int, bytes | None]
"""Change of a file that can be redone: (position, data) of a write, (size, None) of a truncation."""

N = TypeVar("N")


class Choices:
    """Numbers that decide about the result: the given ones first, then random ones, or 0 without a generator.

    A random number first decides how much is kept: otherwise a result that loses just one
    of many changes would be rare.
    """

    def __init__(self, given: Sequence[int] = (), random_source: random.Random | None = None) -> None:
        self._given = given
        self._random_source = random_source
        self._kept = 0.0 if random_source is None else random_source.choice((0.0, 0.5, 0.9))
        self.taken: list[int] = []
        self.options: list[int] = []

    def pick(self, options: int) -> int:
        """Return a number below `options`; 0 always means that everything is kept."""
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
        if self._random_source is None or self._random_source.random() < self._kept:
            return 0
        return self._random_source.randrange(options)


class Entry(NamedTuple, Generic[N]):
    """Change of a directory."""

    removed: str
    """Removed name, empty if there is none."""
    added: str
    node: N | None
    """Node of the added name."""


def kept_entries(
    durable: Mapping[str, N], pending: Sequence[Entry[N]], choices: Choices, *, in_any_order: bool = False
) -> dict[str, N]:
    """Return a directory's entries after the cut."""
    kept = _some(pending, choices) if in_any_order else pending[: len(pending) - choices.pick(len(pending) + 1)]
    entries = dict(durable)
    for removed, added, node in kept:
        if removed:
            entries.pop(removed, None)
        if node is not None:
            entries[added] = node
    return entries


def _some(pending: Sequence[Entry[N]], choices: Choices) -> list[Entry[N]]:
    """Select any of the changes, but none without the earlier ones of its names."""
    kept: list[Entry[N]] = []
    lost: set[str] = set()
    for entry in pending:
        names = {name for name in (entry.removed, entry.added) if name}
        if lost & names or choices.pick(2):
            lost |= names
        else:
            kept.append(entry)
    return kept


def kept_content(now: bytes, pending: Sequence[Change], choices: Choices) -> bytes:
    """Return a file's content after the cut, from its current content and the changes since the last fsync."""
    if not pending:
        return now
    durable = bytearray(now)
    writes: list[Write] = []
    for position, added, cut in reversed(pending):
        if cut:
            writes.append((position, None))
            durable += cut
        else:
            writes.append((position, bytes(durable[position : position + added])))
            del durable[position:]
    return content_after(bytes(durable), writes[::-1], choices)


def applied(durable: bytes, pending: Iterable[Write]) -> bytes:
    """Return the content after these changes."""
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


def content_after(durable: bytes, pending: Sequence[Write], choices: Choices) -> bytes:
    """Return the content after the cut of a file with this durable content and these changes."""
    if not pending:
        return durable
    match choices.pick(6):
        case 0:
            return applied(durable, pending)
        case 1:
            return durable
        case 2:
            return _cut(durable, pending, choices, 1)
        case 3:
            return _cut(durable, pending, choices, SECTOR_BYTES)
        case 4:
            return _blocks(durable, pending, choices, SECTOR_BYTES)
        case _:
            return _blocks(durable, pending, choices, PAGE_BYTES)


def _cut(durable: bytes, pending: Sequence[Write], choices: Choices, unit: int) -> bytes:
    """Return the content after the changes up to one that is cut at a multiple of `unit` bytes."""
    last = choices.pick(len(pending))
    position, data = pending[last]
    before = applied(durable, pending[:last])
    if data is None:
        return before
    cuts = range(-(-(position + 1) // unit) * unit, position + len(data), unit)
    if not cuts:
        return before
    end = cuts[choices.pick(len(cuts))]
    return applied(before, [(position, data[: end - position])])


def _blocks(durable: bytes, pending: Sequence[Write], choices: Choices, unit: int) -> bytes:
    """Return the content after the changes up to some point; blocks that they wrote may hold their earlier content."""
    kept = pending[: len(pending) - choices.pick(len(pending))]
    after = applied(durable, kept)
    old = applied(durable, [change for change in kept if change[1] is None])
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
