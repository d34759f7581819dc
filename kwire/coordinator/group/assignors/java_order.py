"""Iteration order of Java's HashMap and HashSet, on which Kafka's assignments depend.

A HashMap has a table of bins; its size is a power of two. The bin of a key is `spread(hash) & (size - 1)`. Iteration
visits the bins in ascending order. The order within a bin depends on the method that inserted the key: `put` appends to
the bin, `computeIfAbsent` inserts at its head. A resize keeps the order within a bin. The table never shrinks.

The table doubles:

- after a `put` if more than 3/4 of the size are then in use; `computeIfAbsent` tests this before it inserts;
- after `put` inserts a ninth key into one bin, or `computeIfAbsent` an eighth, if the size is below 64.

At a size of 64 or more, such a bin becomes a red-black tree instead, and the order within it is different. This module
does not reproduce the order within trees. For keys with random hashes, trees are too rare to matter. Partitions and
member indexes reach them only if more than ten are equal modulo 64 and the whole set has fewer than 49 elements.

Keys within a bin need the order of insertion. Sets of Python do not store it, so that the callers assume an order:

- members: the order of `AssignmentInput.members`;
- subscribed topics, and topics of a target: the iteration order of the collection in the input;
- partitions: ascending.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import and_, mul
from struct import unpack
from typing import Final, TypeVar
from uuid import UUID

T = TypeVar("T")

_MASK: Final = 0xFFFF_FFFF
_DEFAULT_SIZE: Final = 16
_TREE_SIZE: Final = 64
"""Smallest table whose bins become trees; a smaller table doubles instead."""
_BLOCK: Final = 1024
"""Code units that are hashed together."""
_LONG_BIN_OF_PUT: Final = 9
_LONG_BIN_OF_COMPUTE: Final = 8


@lru_cache(maxsize=256)
def _weights(length: int) -> tuple[int, ...]:
    """Return the powers of 31 for String.hashCode, highest first."""
    return tuple(pow(31, exponent, 1 << 32) for exponent in reversed(range(length)))


def string_hash(text: str) -> int:
    """Return String.hashCode as an unsigned number: a polynomial of the UTF-16 code units."""
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        encoded = text.encode("utf-16-le", "surrogatepass")
        units = unpack(f"<{len(encoded) // 2}H", encoded)
    if len(units) <= _BLOCK:
        total: int = sum(map(mul, units, _weights(len(units))))
        return total & _MASK
    total = 0
    for start in range(0, len(units), _BLOCK):
        block = units[start : start + _BLOCK]
        total = total * pow(31, len(block), 1 << 32) + sum(map(mul, block, _weights(len(block)))) & _MASK
    return total


def uuid_hash(topic_id: UUID) -> int:
    """Return Uuid.hashCode as an unsigned number: the exclusive or of the four 32-bit words."""
    bits = topic_id.int
    halves = bits >> 64 ^ bits
    return (halves >> 32 ^ halves) & _MASK


def spread(code: int) -> int:
    """Return a hash code as HashMap uses it: the upper 16 bits also change the lower ones."""
    return code ^ code >> 16


def string_order_key(text: str) -> bytes:
    """Return a key that sorts as String.compareTo does, by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def size_for(capacity: int) -> int:
    """Return the size of a table that is created for this capacity."""
    return 1 << max(capacity - 1, 0).bit_length()


def size_of_copy(count: int) -> int:
    """Return the initial size of `new HashSet<>(collection)`."""
    return size_for(max(4 * count // 3 + 1, _DEFAULT_SIZE))


def size_of_expected(count: int) -> int:
    """Return the initial size of Kafka's `AssignorHelpers.newHashMap(count)`."""
    return size_for(4 * (count + 1) // 3 + 1)


def size_after_puts(codes: Sequence[int], size: int = _DEFAULT_SIZE) -> int:
    """Return the size of a table after `put` of different keys, given their spread codes."""
    if size < _TREE_SIZE and len(codes) >= _LONG_BIN_OF_PUT:
        size = _size_with_long_bins(codes, size, _LONG_BIN_OF_PUT)
    return _size_for_count(len(codes), size)


def size_after_computes(codes: Sequence[int], size: int, *, is_last_call_new: bool) -> int:
    """Return the size of a table after computeIfAbsent, given the spread codes of the inserted keys.

    The last call inserted the last key, or found its key (is_last_call_new false).
    """
    if size < _TREE_SIZE and len(codes) >= _LONG_BIN_OF_COMPUTE:
        size = _size_with_long_bins(codes, size, _LONG_BIN_OF_COMPUTE)
    return _size_for_count(len(codes) - is_last_call_new, size)


def _size_for_count(count: int, size: int) -> int:
    while 4 * count > 3 * size:
        size *= 2
    return size


def _size_with_long_bins(codes: Sequence[int], size: int, long_bin: int) -> int:
    """Return the size, at most 64, of a small table after these insertions. `put` tests the count after each."""
    bins: dict[int, int] = {}
    is_put = long_bin == _LONG_BIN_OF_PUT
    for count, code in enumerate(codes):
        before = size
        if not is_put and 4 * count > 3 * size:
            size, bins = _doubled(codes[:count], size)
        bins[code & size - 1] = length = bins.get(code & size - 1, 0) + 1
        if length >= long_bin:
            size, bins = _doubled(codes[: count + 1], size)
        if is_put and 4 * (count + 1) > 3 * size:
            size, bins = _doubled(codes[: count + 1], size)
        if size != before and size >= _TREE_SIZE:
            break
    return size


def _doubled(codes: Sequence[int], size: int) -> tuple[int, dict[int, int]]:
    """Return the doubled size, and the length of each bin that is not empty."""
    size *= 2
    bins: dict[int, int] = {}
    for code in codes:
        bins[code & size - 1] = bins.get(code & size - 1, 0) + 1
    return size, bins


def in_bins(keys: Iterable[T], codes: Sequence[int], size: int) -> list[T]:
    """Return the keys of a table of this size in iteration order, from keys in order of `put`."""
    bins = list(map(and_, codes, repeat(size - 1)))
    ordered = list(keys)
    return [ordered[index] for index in sorted(range(len(bins)), key=bins.__getitem__)]


def partitions_in_order(partitions: Iterable[int]) -> list[int]:
    """Return the iteration order of a HashSet<Integer> that was copied from a list, as targets in records are."""
    ascending = sorted(partitions)
    size = size_of_copy(len(ascending))
    if not ascending or ascending[-1] < size:
        return ascending
    codes = list(map(spread, ascending))
    return in_bins(ascending, codes, size_after_puts(codes, size))


def numbers_after_adds(numbers: Sequence[int], size: int | None = None) -> list[int]:
    """Return the iteration order of a HashSet<Integer> to which these numbers were added in this order."""
    codes = list(map(spread, numbers))
    return in_bins(numbers, codes, size_after_puts(codes) if size is None else size)


def topics_in_order(topic_ids: Iterable[UUID]) -> list[UUID]:
    """Return the iteration order of a HashMap<Uuid, ?> to which these topics were added in this order."""
    ordered = list(topic_ids)
    if len(ordered) < 2:
        return ordered
    codes = [spread(uuid_hash(topic_id)) for topic_id in ordered]
    return in_bins(ordered, codes, size_after_puts(codes))


def strings_in_order(keys: Iterable[str], size: int = _DEFAULT_SIZE) -> list[str]:
    """Return the iteration order of a HashMap<String, ?> to which these different keys were added in this order."""
    ordered = list(keys)
    if len(ordered) < 2:
        return ordered
    codes = [spread(string_hash(key)) for key in ordered]
    return in_bins(ordered, codes, size_after_puts(codes, size))
