"""Result of an append to a partition's log."""

from __future__ import annotations


class AppendResult:
    """Offsets and timestamp of an append. A duplicate's result has those of the original append."""

    __slots__ = ("base_offset", "is_duplicate", "last_offset", "log_append_time_ms", "log_start_offset")

    def __init__(
        self, base_offset: int, last_offset: int, log_append_time_ms: int, log_start_offset: int, is_duplicate: bool
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.is_duplicate = is_duplicate
