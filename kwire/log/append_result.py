"""What an append tells whoever asked for it."""

from __future__ import annotations


class AppendResult:
    """Where an append went; a duplicate's result is that of the append it repeats."""

    __slots__ = ("base_offset", "is_duplicate", "last_offset", "log_append_time_ms", "log_start_offset")

    def __init__(
        self, base_offset: int, last_offset: int, log_append_time_ms: int, log_start_offset: int, is_duplicate: bool
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.is_duplicate = is_duplicate
