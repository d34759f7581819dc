"""Duplicates in a request: which elements are repeated, and each element once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from kwire.chunks import Pieces, chunks

T = TypeVar("T")
K = TypeVar("K")
LOOKED_AT_ONCE: Final = 1024
"""Elements of one step, each of which takes a fraction of a microsecond."""


def repeated(items: Iterable[T]) -> Pieces[set[T]]:
    """Return the items that occur more than once; yield after some items."""
    seen: set[T] = set()
    again: set[T] = set()
    for some in chunks(items, LOOKED_AT_ONCE):
        for item in some:
            (again if item in seen else seen).add(item)
        if len(some) == LOOKED_AT_ONCE:
            yield
    return again


def once_each(groups: Iterable[tuple[K, Iterable[T]]]) -> Pieces[dict[K, dict[T, None]]]:
    """Return the distinct elements of each group; groups with the same key are merged. Yield after some elements."""
    joined: dict[K, dict[T, None]] = {}
    taken = 0
    for key, elements in groups:
        known = joined.setdefault(key, {})
        for some in chunks(elements, LOOKED_AT_ONCE):
            known.update(dict.fromkeys(some))
            taken += len(some)
            if taken >= LOOKED_AT_ONCE:
                taken = 0
                yield
        taken += 1
        if taken >= LOOKED_AT_ONCE:
            taken = 0
            yield
    return joined
