"""Segments of one log, in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kwire.log.errors import NotReadyError
from kwire.log.index_memory import IndexMemory
from kwire.log.segment import Segment
from kwire.log.verify_budget import VerifyBudget

SEGMENTS_AT_ONCE: Final = 16
"""Segments whose timestamps are read in one step, with the ends of their indexes, in a few milliseconds."""


class Segments:
    """Segments of a log, at least one; the last is the active one. A segment ends where the next begins."""

    def __init__(self, segments: list[Segment], memory: IndexMemory | None = None) -> None:
        """Create the list; `memory` limits the indexes of all segments but the active one."""
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self._memory = memory
        self.changes = 0
        """Number of removals, truncations and replacements of segments; a change restarts iterations in steps."""
        self.before_removal: Callable[[], None] | None = None
        """Callback before segments are removed or truncated, which undoes a pending swap of a compaction."""
        for segment in segments[:-1]:
            segment.bound_by(memory)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    def index_of(self, offset: int) -> int:
        """Return the index of the segment to which `offset` belongs; 0 if it is below all segments."""
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        """Return the segment to which `offset` belongs and all later ones."""
        return self._segments[self.index_of(offset) :]

    def with_timestamps(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """Yield the segments with their timestamps in memory.

        Raises NotReadyError after SEGMENTS_AT_ONCE that had none; the next call gets further.
        """
        learned = 0
        for segment in segments:
            if not segment.has_timestamps:
                if learned == SEGMENTS_AT_ONCE:
                    raise NotReadyError
                segment.load_timestamps()
                learned += 1
            yield segment

    def share(self, memory: IndexMemory) -> None:
        """Use another memory limit, that of all logs, after this log was opened."""
        self._memory = memory
        for segment in self._segments[:-1]:
            segment.bound_by(memory)

    def append(self, segment: Segment) -> None:
        if self._segments:
            self.active.bound_by(self._memory)
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def undo_compaction(self) -> None:
        """Undo a pending swap of a compaction, before a segment is truncated."""
        self.changes += 1
        if self.before_removal is not None:
            self.before_removal()

    def remove_first(self) -> Segment:
        self.undo_compaction()
        del self._base_offsets[0]
        removed = self._segments.pop(0)
        removed.unbound()
        return removed

    def remove_last(self) -> Segment:
        """Remove the last segment; the one before it becomes active, until another one is appended."""
        self.undo_compaction()
        del self._base_offsets[-1]
        removed = self._segments.pop()
        if self._segments:
            self.active.unbound()
        return removed

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Replace neighbouring segments by a compacted one, which has the base offset of the first."""
        self.changes += 1
        index = self._segments.index(old[0])
        assert self._segments[index : index + len(old)] == old
        self._segments[index : index + len(old)] = [new]
        self._base_offsets[index : index + len(old)] = [new.base_offset]
        for segment in old:
            segment.unbound()
        new.bound_by(self._memory)

    def upper_bound(self, index: int, log_end_offset: int) -> int:
        """Return the exclusive end offset of the segment at an index."""
        return self._base_offsets[index + 1] if index + 1 < len(self._base_offsets) else log_end_offset

    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def read(
        self,
        offset: int,
        limit: int,
        max_bytes: int,
        log_end_offset: int,
        budget: VerifyBudget | None,
        *,
        min_one_batch: bool,
    ) -> bytes:
        """Return whole batches from the one that contains `offset`, below `limit`, from the first segment that has any.

        See `PartitionLog.read`. Raises the errors of `Segment.read`.
        """
        index = self.index_of(offset)
        while offset < limit and index < len(self._segments):
            segment = self._segments[index]
            upper = self.upper_bound(index, log_end_offset)
            below = None if limit >= upper else limit
            data = segment.read(offset, max_bytes, below, budget, min_one_batch=min_one_batch)
            if data is not None:
                return data
            if upper > limit:
                return b""
            offset, index = upper, index + 1
        return b""
