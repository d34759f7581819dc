"""The segments of one log, in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kwire.log.errors import NotReadyError
from kwire.log.index_memory import IndexMemory
from kwire.log.segment import Segment
from kwire.log.verify_budget import VerifyBudget

SEGMENTS_AT_ONCE: Final = 16
"""Segments whose timestamps are read in one step, with the ends of their indexes: some milliseconds."""


class Segments:
    """At least one segment; the last is the active one. A segment ends where the next begins."""

    def __init__(self, segments: list[Segment], memory: IndexMemory | None = None) -> None:
        """`memory` bounds the indexes of all but the active one."""
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self._memory = memory
        self.changes = 0
        """How often segments were removed, cut or replaced: who walks over them in steps begins anew."""
        self.before_removal: Callable[[], None] | None = None
        """Called before segments are removed or cut: a compaction that is about to take their place is taken back."""
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
        """Which segment offset belongs to; the first if it is below all."""
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that offset belongs to and all after it."""
        return self._segments[self.index_of(offset) :]

    def with_timestamps(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """Some of the segments, with timestamps in memory; raises NotReadyError behind SEGMENTS_AT_ONCE that had none.

        The next call goes further.
        """
        learned = 0
        for segment in segments:
            if not segment.knows_timestamps:
                if learned == SEGMENTS_AT_ONCE:
                    raise NotReadyError
                segment.know_timestamps()
                learned += 1
            yield segment

    def share(self, memory: IndexMemory) -> None:
        """Let another bound hold for the indexes: that of all logs, when this log has been opened."""
        self._memory = memory
        for segment in self._segments[:-1]:
            segment.bound_by(memory)

    def append(self, segment: Segment) -> None:
        if self._segments:
            self.active.bound_by(self._memory)
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def take_back_compaction(self) -> None:
        """To be called before a segment is cut."""
        self.changes += 1
        if self.before_removal is not None:
            self.before_removal()

    def remove_first(self) -> Segment:
        self.take_back_compaction()
        del self._base_offsets[0]
        removed = self._segments.pop(0)
        removed.unbound()
        return removed

    def remove_last(self) -> Segment:
        """The segment before it is the active one again, until another one is appended."""
        self.take_back_compaction()
        del self._base_offsets[-1]
        removed = self._segments.pop()
        if self._segments:
            self.active.unbound()
        return removed

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Let a compacted segment take the place of neighbours; it begins where the first of them does."""
        self.changes += 1
        index = self._segments.index(old[0])
        assert self._segments[index : index + len(old)] == old
        self._segments[index : index + len(old)] = [new]
        self._base_offsets[index : index + len(old)] = [new.base_offset]
        for segment in old:
            segment.unbound()
        new.bound_by(self._memory)

    def upper_bound(self, index: int, log_end_offset: int) -> int:
        """Where the segment at index ends."""
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
        """Whole batches from the one that holds offset, below limit, out of the first segment that has any.

        See `PartitionLog.read`. Raises what `Segment.read` does.
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
