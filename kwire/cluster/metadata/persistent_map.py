"""Immutable mapping whose next version is made at the cost of the changes.

Each key has a place, in the order of insertion. The index of places only grows, and a map shares it with all maps made
from it. Values are stored in blocks, each value at its key's place. The next map shares every block without changes.
Differences of two maps are found by comparing blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import compress
from operator import is_not
from typing import Any, Final, Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")

BLOCK_BITS: Final = 7
BLOCK: Final = 1 << BLOCK_BITS
"""Values in a block; the whole block is copied when one of them changes."""
UNUSED_MAX: Final = 1024
"""Limit of unused places, in addition to the number of keys. Above it the next map gets a new index."""


class _Nothing:
    """Marker at the place of a key that a map does not have."""


_NOTHING: Final = _Nothing()
Block = tuple[Any, ...]


class _Index(Generic[K]):
    """Places of keys."""

    __slots__ = ("keys", "places")

    def __init__(self) -> None:
        self.places: dict[K, int] = {}
        self.keys: list[K] = []

    def place_of(self, key: K) -> int:
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = len(self.keys)
            self.keys.append(key)
        return place


def _present_keys(index: _Index[K], blocks: Iterable[Sequence[Any]]) -> Iterator[K]:
    for number, block in enumerate(blocks):
        for place, value in enumerate(block, number << BLOCK_BITS):
            if value is not _NOTHING:
                yield index.keys[place]


def _value_at(index: _Index[K], blocks: Sequence[Sequence[Any]], key: Any) -> Any:
    """Return the value of a key; _NOTHING if there is none."""
    place = index.places.get(key)
    if place is None or place >> BLOCK_BITS >= len(blocks):
        return _NOTHING
    return blocks[place >> BLOCK_BITS][place & BLOCK - 1]


class PersistentMap(Mapping[K, V]):
    """Immutable map in the order of first insertion; unlike in a dict, a key that returns keeps its place."""

    __slots__ = ("_count", "blocks", "index")

    def __init__(self, index: _Index[K] | None = None, blocks: tuple[Block, ...] = (), count: int = 0) -> None:
        self.index: _Index[K] = _Index() if index is None else index
        self.blocks = blocks
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        return _present_keys(self.index, self.blocks)

    def __getitem__(self, key: K) -> V:
        value = _value_at(self.index, self.blocks, key)
        if value is _NOTHING:
            raise KeyError(key)
        return cast("V", value)

    def __contains__(self, key: object) -> bool:
        return _value_at(self.index, self.blocks, key) is not _NOTHING

    def get(self, key: Any, default: Any = None) -> Any:
        value = _value_at(self.index, self.blocks, key)
        return default if value is _NOTHING else value

    def draft(self) -> MapDraft[K, V]:
        """Return a draft of the next map."""
        return MapDraft(self.index, self.blocks, self._count)


class MapDraft(MutableMapping[K, V]):
    """Mutable draft of the next map: changes go to copies of the affected blocks."""

    __slots__ = ("_copied", "_count", "blocks", "index")

    def __init__(self, index: _Index[K], blocks: tuple[Block, ...], count: int) -> None:
        self.index = index
        self.blocks: list[Block | list[Any]] = list(blocks)
        self._copied: dict[int, list[Any]] = {}
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        return _present_keys(self.index, self.blocks)

    def __getitem__(self, key: K) -> V:
        value = _value_at(self.index, self.blocks, key)
        if value is _NOTHING:
            raise KeyError(key)
        return cast("V", value)

    def __setitem__(self, key: K, value: V) -> None:
        self._count += key not in self
        place = self.index.place_of(key)
        while place >> BLOCK_BITS >= len(self.blocks):
            self.blocks.append((_NOTHING,) * BLOCK)
        self._copy(place >> BLOCK_BITS)[place & BLOCK - 1] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        place = self.index.places[key]
        self._copy(place >> BLOCK_BITS)[place & BLOCK - 1] = _NOTHING
        self._count -= 1

    def _copy(self, number: int) -> list[Any]:
        copied = self._copied.get(number)
        if copied is None:
            copied = self._copied[number] = self.blocks[number] = list(self.blocks[number])
        return copied

    def finish(self) -> PersistentMap[K, V]:
        """Return the finished map. The draft must not be used afterwards."""
        if len(self.index.keys) > 2 * self._count + UNUSED_MAX:
            return persistent(self)
        for number, block in self._copied.items():
            self.blocks[number] = tuple(block)
        return PersistentMap(self.index, tuple(cast("list[Block]", self.blocks)), self._count)


def persistent(mapping: Mapping[K, V]) -> PersistentMap[K, V]:
    """Return a map with the same keys and values that shares nothing with another map."""
    draft: MapDraft[K, V] = MapDraft(_Index(), (), 0)
    draft.update(mapping)
    return draft.finish()


def changed_keys(old: Mapping[K, V], new: Mapping[K, V]) -> list[K]:
    """Return the keys whose values are not the same object in both maps, including keys that one map lacks."""
    return list(iter_changed_keys(old, new))


def iter_changed_keys(old: Mapping[K, V], new: Mapping[K, V]) -> Iterator[K]:
    """Yield what changed_keys returns; neither map may change meanwhile."""
    if old is new:
        return
    if isinstance(old, PersistentMap) and isinstance(new, PersistentMap) and old.index is new.index:
        yield from _changed(old, new)
        return
    missing = cast("Any", object())
    yield from (key for key, value in old.items() if new.get(key, missing) is not value)
    yield from (key for key in new if key not in old)


def _changed(old: PersistentMap[K, V], new: PersistentMap[K, V]) -> Iterator[K]:
    keys = old.index.keys
    nothing = (_NOTHING,) * BLOCK
    count = max(len(old.blocks), len(new.blocks))
    old_blocks = old.blocks + (nothing,) * (count - len(old.blocks))
    new_blocks = new.blocks + (nothing,) * (count - len(new.blocks))
    for number in _different(old_blocks, new_blocks):
        for place in _different(old_blocks[number], new_blocks[number]):
            yield keys[(number << BLOCK_BITS) + place]


def _different(old: Sequence[Any], new: Sequence[Any]) -> Iterator[int]:
    """Return the positions with different objects; the loop runs in C."""
    return compress(range(len(old)), map(is_not, old, new))
