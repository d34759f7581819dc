"""Immutable map of topic ids to topic names: its next version copies only the changed parts.

A look-up costs one dict look-up, because Produce and Fetch look up the name of each topic that a client names by its
id. Topic ids are random, so their low bits spread them evenly over the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final
from uuid import UUID

PARTS: Final = 256
_MASK: Final = PARTS - 1
Part = dict[UUID, str]


class TopicIdMap(Mapping[UUID, str]):
    """Names of topics by topic id."""

    __slots__ = ("_count", "parts")

    def __init__(self, parts: tuple[Part, ...] = ({},) * PARTS, count: int = 0) -> None:
        self.parts = parts
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[UUID]:
        for part in self.parts:
            yield from part

    def __getitem__(self, topic_id: UUID) -> str:
        return self.parts[topic_id.int & _MASK][topic_id]

    def get(self, topic_id: UUID, default: Any = None) -> Any:
        return self.parts[topic_id.int & _MASK].get(topic_id, default)

    def draft(self) -> TopicIdDraft:
        """Return a draft of the next map."""
        return TopicIdDraft(self.parts, self._count)


class TopicIdDraft(MutableMapping[UUID, str]):
    """Mutable draft of the next map: changes go to copies of the affected parts."""

    __slots__ = ("_copied", "_count", "_parts")

    def __init__(self, parts: tuple[Part, ...], count: int) -> None:
        self._parts = list(parts)
        self._copied: set[int] = set()
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[UUID]:
        for part in self._parts:
            yield from part

    def __getitem__(self, topic_id: UUID) -> str:
        return self._parts[topic_id.int & _MASK][topic_id]

    def __setitem__(self, topic_id: UUID, name: str) -> None:
        part = self._copied_part(topic_id)
        self._count += topic_id not in part
        part[topic_id] = name

    def __delitem__(self, topic_id: UUID) -> None:
        del self._copied_part(topic_id)[topic_id]
        self._count -= 1

    def _copied_part(self, topic_id: UUID) -> Part:
        """Return the part of a topic id, copied at its first change."""
        number = topic_id.int & _MASK
        if number not in self._copied:
            self._copied.add(number)
            self._parts[number] = dict(self._parts[number])
        return self._parts[number]

    def finish(self) -> TopicIdMap:
        """Return the finished map. The draft must not be used afterwards."""
        return TopicIdMap(tuple(self._parts), self._count)
