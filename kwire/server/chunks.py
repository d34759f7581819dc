"""What a handler in pieces goes through (dispatch.Handler)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

CHUNK: Final = 64


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items, a few at a time: some microseconds for each make less than a millisecond."""
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
