"""Intervals since stored times of the wall clock, which may be set back, or differ between coordinators."""

from __future__ import annotations


def is_over(interval_ms: int, *, since_ms: int, now_ms: int) -> bool:
    """Return True if an interval is over. A time in the future counts as long ago: the clock was set back.

    Otherwise nothing would happen until the clock reaches that time again.
    """
    return not since_ms <= now_ms < since_ms + interval_ms
