"""Offsets that bound a log, and their order.

log_start_offset <= log_end_offset and recovery_point <= log_end_offset. Everything below the recovery point is durable.
Everything below the first dirty offset was compacted; in a future log, that offset may be above the end. The high
watermark is not stored here: callers pass limits. Only the methods change an offset, and each asserts the resulting
order.
"""

from __future__ import annotations


class LogOffsets:
    """Offsets of one log; callers read the attributes, and change them only by the methods."""

    __slots__ = ("end", "first_dirty", "recovery_point", "start", "truncations")

    def __init__(self, *, start: int, end: int, recovery_point: int) -> None:
        """Create the offsets from checkpoints; call `recovered` once the end of the batches is known."""
        self.start = start
        """First readable offset; increases only, except for a truncation below it."""
        self.end = end
        """Offset of the next append."""
        self.recovery_point = recovery_point
        """Offset below which everything is durable; recovery scans from here."""
        self.first_dirty = 0
        """Offset below which everything was compacted; a truncation lowers it too."""
        self.truncations = 0
        """Number of truncations; a flush that began before a truncation does not cover records written after it."""

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Recovery point, first dirty offset and start: the offsets of the log that checkpoints store."""
        return self.recovery_point, self.first_dirty, self.start

    def recovered(self, end: int, durable_to: int) -> None:
        """Set the end offset of the batches that were found, and the offset up to which they are durable.

        If the log has lost its tail, the start may now be above the end: `begin_at` must follow.
        """
        self.end = end
        self.recovery_point = min(durable_to, end)

    def advance(self, end: int) -> None:
        """Move the end after an append."""
        assert end >= self.end, f"an append moved the end from {self.end} to {end}"
        self.end = end

    def raise_start(self, start: int) -> None:
        """Delete all records below an offset."""
        assert self.start <= start <= self.end, f"start {start} is not in {self.start}..{self.end}"
        self.start = start

    def flushed(self, end: int, truncations: int) -> bool:
        """Record a flush up to `end` that began at this truncation count; return False if it is outdated."""
        if truncations != self.truncations:
            return False
        assert end <= self.end, f"a flush made {end} durable of a log that ends at {self.end}"
        self.recovery_point = max(self.recovery_point, end)
        return True

    def cleaned(self, first_dirty: int) -> None:
        """Set the offset below which everything was compacted."""
        assert first_dirty >= 0, f"first dirty offset {first_dirty}"
        self.first_dirty = first_dirty

    def lower(self, *, recovery_point: int, first_dirty: int, start: int) -> tuple[int, int, int]:
        """Begin a truncation: lower the offsets to at most these. Return the previous bounds, for `restore`."""
        before = self.bounds
        self.truncations += 1
        self.recovery_point = min(recovery_point, self.recovery_point)
        self.first_dirty = min(first_dirty, self.first_dirty)
        self.start = min(start, self.start)
        return before

    def restore(self, bounds: tuple[int, int, int]) -> None:
        """Undo `lower`, because nothing was truncated."""
        self.recovery_point, self.first_dirty, self.start = bounds

    def cut_to(self, end: int) -> None:
        """Finish a truncation: the batches now end here."""
        assert self.start <= end <= self.end, f"cut to {end}, which is not in {self.start}..{self.end}"
        assert self.recovery_point <= end, f"cut to {end}, below {self.recovery_point}, which is recorded as durable"
        self.end = end

    def begin_at(self, offset: int) -> None:
        """Reset all offsets to those of an empty log that begins at `offset`."""
        self.start = self.end = self.recovery_point = offset
