"""Repeated log messages that clients or other nodes cause: logged once, then once a minute with a count."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

INTERVAL_MS = 60_000
SUBJECTS_MAX = 1000
"""Most subjects that are stored; the least recently used one is dropped first. Clients choose their addresses."""


@dataclass(slots=True)
class _Logged:
    at_ms: float
    suppressed: int = 0


class RepeatedMessages:
    """Limit for messages of one subject: one per minute."""

    def __init__(self, logger: logging.Logger, now_ms: Callable[[], float]) -> None:
        self._logger = logger
        self._now_ms = now_ms
        self._subjects: OrderedDict[Hashable, _Logged] = OrderedDict()

    def log(self, level: int, subject: Hashable, message: str, *values: object) -> None:
        """Log `message % values`, unless a message of this subject was logged less than a minute ago."""
        now_ms = self._now_ms()
        logged = self._subjects.get(subject)
        self._subjects[subject] = logged or _Logged(now_ms)
        self._subjects.move_to_end(subject)
        if len(self._subjects) > SUBJECTS_MAX:
            self._subjects.popitem(last=False)
        if logged is None:
            self._logger.log(level, message, *values)
        elif now_ms - logged.at_ms < INTERVAL_MS:
            logged.suppressed += 1
        else:
            suffix = f" ({logged.suppressed} more times since this was last logged)" if logged.suppressed else ""
            logged.at_ms, logged.suppressed = now_ms, 0
            self._logger.log(level, "%s%s", message % values, suffix)
