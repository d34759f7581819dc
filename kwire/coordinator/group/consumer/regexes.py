"""Subscriptions by regular expression, in the syntax of RE2, which matches in linear time.

Kafka evaluates them with RE2/J; kwire uses RE2 itself. The topics are searched in steps of the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kwire.chunks import chunks
from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.consumer.consumer_group import ResolvedRegex
from kwire.protocol.error_codes import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

TOPICS_AT_ONCE: Final = 500
"""Topics that are compared with one regular expression in one step: about 3 ms."""
PROGRAM_BYTES_MAX: Final = 1 << 20
"""Memory limit of one compiled expression."""


def compiled_regex(regex: str) -> Any:
    """Return the compiled expression. Raises INVALID_REGULAR_EXPRESSION if RE2 does not accept it."""
    import re2  # noqa: PLC0415 most brokers never need it, and it takes 10 ms to import

    options = re2.Options()
    options.max_mem = PROGRAM_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.",
        ) from None


class RegexSearch:
    """Search for the topics that match the regular expressions of a group."""

    def __init__(
        self, image: MetadataImage, regexes: Sequence[str], allows_topic: Callable[[str], bool], now_ms: int
    ) -> None:
        """Begin a search of this image; a topic is found if `allows_topic` returns True for it."""
        self._version = image.offset
        self._allows_topic = allows_topic
        self._now_ms = now_ms
        self._found: dict[str, set[str]] = {regex: set() for regex in regexes}
        self._steps = self._search(image)

    def step(self) -> bool:
        """Compare some topics with one expression; return True if the search is finished."""
        return next(self._steps, True)

    def _search(self, image: MetadataImage) -> Iterator[bool]:
        for regex, found in self._found.items():
            try:
                pattern = compiled_regex(regex)
            except KafkaError as error:  # a broker with RE2/J has accepted it
                logger.warning("no topic matches: %s", error)
                continue
            for topics in chunks(image.topics, TOPICS_AT_ONCE):
                found.update(
                    name for name in topics if pattern.fullmatch(name) is not None and self._allows_topic(name)
                )
                yield False

    def found(self) -> Mapping[str, ResolvedRegex]:
        return {
            regex: ResolvedRegex(frozenset(topics), self._version, self._now_ms)
            for regex, topics in self._found.items()
        }
