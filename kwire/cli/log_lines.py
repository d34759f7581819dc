"""What a line of the log may be: one line, of bounded length, and not too many of a kind in a second.

Names that clients invent are in some of them. They must not look like lines of their own, nor fill the disk.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINE_LENGTH_MAX = 1_000
LINES_PER_SECOND = 50
"""Of one logger, up to INFO; warnings and errors are all told."""


class OneLineFormatter(logging.Formatter):
    """Escapes what would not print, and cuts what is long. A traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's name
        record.message = one_line(record.message)
        return super().formatMessage(record)


def one_line(text: str) -> str:
    """The text with control characters escaped, cut to LINE_LENGTH_MAX."""
    if len(text) > LINE_LENGTH_MAX:
        text = f"{text[:LINE_LENGTH_MAX]}... ({len(text)} characters)"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class LineLimit(logging.Filter):
    """Lets LINES_PER_SECOND of each logger through; the first line of a later second says how many were left out."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._seconds: dict[str, tuple[int, int]] = {}
        """By logger: the second, and how many lines it has had."""

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
