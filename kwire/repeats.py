"""Elements that a request names more than once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kwire.chunks import CHUNK, Pieces, chunks

T = TypeVar("T")


def repeated(items: Iterable[T]) -> Pieces[set[T]]:
    """Return the items that occur more than once; yield after every CHUNK items."""
    seen: set[T] = set()
    again: set[T] = set()
    for some in chunks(items):
        for item in some:
            (again if item in seen else seen).add(item)
        if len(some) == CHUNK:
            yield
    return again
