"""Limits of log output: one line per message, of bounded length, and a bounded number per second.

Some messages contain names that clients choose. Such names must not look like separate lines, nor fill the disk.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINE_LENGTH_MAX = 1_000
LINES_PER_SECOND = 50
"""Lines of one logger, up to INFO; warnings and errors are not limited."""


class OneLineFormatter(logging.Formatter):
    """Formatter that escapes unprintable characters and truncates long messages. A traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's name
        record.message = one_line(record.message)
        return super().formatMessage(record)


def one_line(text: str) -> str:
    """Return the text with control characters escaped, truncated to LINE_LENGTH_MAX."""
    if len(text) > LINE_LENGTH_MAX:
        text = f"{text[:LINE_LENGTH_MAX]}... ({len(text)} characters)"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class LineLimit(logging.Filter):
    """Filter for LINES_PER_SECOND of each logger; the first line of a later second has the number of omitted lines."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._seconds: dict[str, tuple[int, int]] = {}
        """Current second and number of its lines, by logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.INFO:
            return True
        second = int(self._now())
        last, count = self._seconds.get(record.name, (second, 0))
        if last != second:
            left_out, count = max(0, count - LINES_PER_SECOND), 0
            if left_out:
                record.msg = f"{record.getMessage()} ({left_out} lines were left out before)"
                record.args = None
        self._seconds[record.name] = second, count + 1
        return count < LINES_PER_SECOND
