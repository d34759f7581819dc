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
        if self.suppresses(subject):
            return
        logged = self._subjects.pop(subject, None)
        self._subjects[subject] = _Logged(self._now_ms())
        if len(self._subjects) > SUBJECTS_MAX:
            self._subjects.popitem(last=False)
        if logged is None or not logged.suppressed:
            self._logger.log(level, message, *values)
        else:
            suffix = f" ({logged.suppressed} more times since this was last logged)"
            self._logger.log(level, "%s%s", message % values, suffix)

    def suppresses(self, subject: Hashable) -> bool:
        """Return True, and count a message, if one of this subject was logged less than a minute ago."""
        logged = self._subjects.get(subject)
        if logged is None:
            return False
        self._subjects.move_to_end(subject)
        if self._now_ms() - logged.at_ms >= INTERVAL_MS:
            return False
        logged.suppressed += 1
        return True
