"""Errors of topics that could not be created: kept for a while, in which the topics are not requested again."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.seams import Clock

ERRORS_MAX = 1000
"""Topics whose error is kept, as in Kafka."""


class CreationErrors:
    """Error messages by topic, with the time at which each expires."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._errors: dict[str, tuple[float, str]] = {}

    def put(self, topic: str, message: str, kept_ms: float) -> None:
        """Keep an error; beyond the maximum, those that expire first are dropped."""
        self._drop_expired()
        self._errors[topic] = (self._clock.monotonic_ms() + kept_ms, message)
        while len(self._errors) > ERRORS_MAX:
            del self._errors[min(self._errors, key=self._errors.__getitem__)]

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the message of each of these topics that has an error."""
        self._drop_expired()
        return {topic: self._errors[topic][1] for topic in topics if topic in self._errors}

    def _drop_expired(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for topic in [topic for topic, (expiry_ms, _) in self._errors.items() if expiry_ms <= now_ms]:
            del self._errors[topic]
