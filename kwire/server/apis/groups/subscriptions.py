"""Subscriptions by topic names in heartbeats of groups: checked and hashed a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kwire.chunks import CHUNK, Pieces, chunks
from kwire.coordinator.answers import Answer
from kwire.server.requests.context import RequestContext

T = TypeVar("T")


def with_subscription(
    context: RequestContext, topics: Sequence[str] | None, rejected: T, answer: Callable[[], Answer[T]]
) -> Answer[T] | Pieces[Answer[T]]:
    """Return answer(), or `rejected` if the client may not describe one of the topics; in pieces for many topics."""
    if topics is None or len(topics) <= CHUNK:
        return answer() if all(map(context.allows_topic, topics or ())) else rejected
    return _in_pieces(context, dict.fromkeys(topics), rejected, answer)


def _in_pieces(
    context: RequestContext, topics: dict[str, None], rejected: T, answer: Callable[[], Answer[T]]
) -> Pieces[Answer[T]]:
    for some in chunks(topics):
        if not all(map(context.allows_topic, some)):
            return rejected
        yield
    yield from context.services.groups.topic_hashes.prepare(topics, context.services.image)
    return answer()
