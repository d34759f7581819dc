"""Duplicates in a request: which elements are repeated, and each element once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from kwire.chunks import Pieces, chunks

T = TypeVar("T")
K = TypeVar("K")
ITEMS_PER_STEP: Final = 1024
"""Elements of one step, each of which takes a fraction of a microsecond."""


def repeated(items: Iterable[T]) -> Pieces[set[T]]:
    """Return the items that occur more than once; yield after some items."""
    seen: set[T] = set()
    repeats: set[T] = set()
    for chunk in chunks(items, ITEMS_PER_STEP):
        for item in chunk:
            (repeats if item in seen else seen).add(item)
        if len(chunk) == ITEMS_PER_STEP:
            yield
    return repeats


def once_each(groups: Iterable[tuple[K, Iterable[T]]]) -> Pieces[dict[K, dict[T, None]]]:
    """Return the distinct elements of each group; groups with the same key are merged. Yield after some elements."""
    joined: dict[K, dict[T, None]] = {}
    count = 0
    for key, elements in groups:
        distinct = joined.setdefault(key, {})
        for chunk in chunks(elements, ITEMS_PER_STEP):
            distinct.update(dict.fromkeys(chunk))
            count += len(chunk)
            if count >= ITEMS_PER_STEP:
                count = 0
                yield
        count += 1
        if count >= ITEMS_PER_STEP:
            count = 0
            yield
    return joined
