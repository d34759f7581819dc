"""Java's PriorityQueue, on which Kafka's assignments of tasks depend: the order of elements with equal keys counts."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """Binary heap with the smallest key first. Elements with equal keys leave it in the same order as in Java."""

    __slots__ = ("_items", "_keys")

    def __init__(self) -> None:
        self._keys: list[float] = []
        self._items: list[T] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T, key: float) -> None:
        """Add an element: it rises above parents with larger keys."""
        keys, items = self._keys, self._items
        index = len(items)
        keys.append(key)
        items.append(item)
        while index > 0:
            parent = index - 1 >> 1
            if key >= keys[parent]:
                break
            keys[index], items[index] = keys[parent], items[parent]
            index = parent
        keys[index], items[index] = key, item

    def poll(self) -> T:
        """Remove the first element and return it: the last one sinks from the top below children with smaller keys."""
        keys, items = self._keys, self._items
        first, key, item = items[0], keys.pop(), items.pop()
        size, index = len(items), 0
        if not size:
            return first
        while index < size >> 1:
            child = 2 * index + 1
            if child + 1 < size and keys[child] > keys[child + 1]:
                child += 1
            if key <= keys[child]:
                break
            keys[index], items[index] = keys[child], items[child]
            index = child
        keys[index], items[index] = key, item
        return first
