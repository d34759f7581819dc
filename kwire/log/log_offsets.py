"""The offsets that bound a log, and their order.

log_start_offset <= log_end_offset and recovery_point <= log_end_offset. Below the recovery point all is durable; below
the first dirty offset compaction has passed, which in a future log may be ahead of what is copied. The high watermark
is not known here: callers pass limits. Only the methods change an offset, and each asserts the order that it leaves.
"""

from __future__ import annotations


class LogOffsets:
    """The offsets of one log; they are read directly and changed by the methods alone."""

    __slots__ = ("end", "first_dirty", "recovery_point", "start", "truncations")

    def __init__(self, *, start: int, end: int, recovery_point: int) -> None:
        """As they are noted in checkpoints; `recovered` must follow when the end of the batches is known."""
        self.start = start
        """First offset that may be read; only grows, except for a truncation to below it."""
        self.end = end
        """Offset of the next append."""
        self.recovery_point = recovery_point
        """All below is durable; recovery scans from here."""
        self.first_dirty = 0
        """Compaction has passed all below; a truncation lowers it, too."""
        self.truncations = 0
        """Number of truncations: a flush that began before one says nothing of what was written after it."""

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Recovery point, first dirty offset and start: what checkpoints hold of the log."""
        return self.recovery_point, self.first_dirty, self.start

    def recovered(self, end: int, durable_to: int) -> None:
        """Take where the batches end that were found, and up to where they are durable.

        The start may be behind the end then, if the log has lost its tail: `begin_at` must follow.
        """
        self.end = end
        self.recovery_point = min(durable_to, end)

    def advance(self, end: int) -> None:
        """Take the end of what was appended."""
        assert end >= self.end, f"an append moved the end from {self.end} to {end}"
        self.end = end

    def raise_start(self, start: int) -> None:
        """Delete all records below an offset."""
        assert self.start <= start <= self.end, f"start {start} is not in {self.start}..{self.end}"
        self.start = start

    def flushed(self, end: int, truncations: int) -> bool:
        """Take a flush up to an end, begun after so many truncations; return False if the log was truncated since."""
        if truncations != self.truncations:
            return False
        assert end <= self.end, f"a flush made {end} durable of a log that ends at {self.end}"
        self.recovery_point = max(self.recovery_point, end)
        return True

    def cleaned(self, first_dirty: int) -> None:
        """Take up to where compaction has passed."""
        assert first_dirty >= 0, f"first dirty offset {first_dirty}"
        self.first_dirty = first_dirty

    def lower(self, *, recovery_point: int, first_dirty: int, start: int) -> tuple[int, int, int]:
        """Begin a truncation: lower what is above these offsets. Returns the bounds before, for `restore`."""
        before = self.bounds
        self.truncations += 1
        self.recovery_point = min(recovery_point, self.recovery_point)
        self.first_dirty = min(first_dirty, self.first_dirty)
        self.start = min(start, self.start)
        return before

    def restore(self, bounds: tuple[int, int, int]) -> None:
        """Take back what `lower` did: nothing was cut."""
        self.recovery_point, self.first_dirty, self.start = bounds

    def cut_to(self, end: int) -> None:
        """End a truncation: the batches end here now."""
        assert self.start <= end <= self.end, f"cut to {end}, which is not in {self.start}..{self.end}"
        assert self.recovery_point <= end, f"cut to {end}, below {self.recovery_point}, which is noted as durable"
        self.end = end

    def begin_at(self, offset: int) -> None:
        """Begin an empty log at an offset."""
        self.start = self.end = self.recovery_point = offset
