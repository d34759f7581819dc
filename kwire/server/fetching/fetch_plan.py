"""Plan of a fetch: the partitions that one request fetches, in order, and the session they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kwire.protocol.messages.fetch import FetchPartition, FetchRequest
from kwire.server.fetching.fetch_session import FetchSession
from kwire.server.fetching.session_watch import Key

Asked = tuple[Key, FetchPartition]
NAMED_AT_ONCE = 256
"""Partitions named or forgotten by a request up to which it is planned in one step."""


@dataclass(slots=True, kw_only=True)
class FetchPlan:
    """Partitions that one request fetches, in order, and the session they belong to."""

    partitions: list[Asked]
    session: FetchSession | None = None
    wants_session: bool = False
    follower: tuple[int, int] | None = None
    named: Mapping[Key, FetchPartition] = field(default_factory=dict)
    """Partitions that an incremental request names; the others are fetched as before."""
    is_selective: bool = False
    """True if only the partitions of the session are fetched that may have something new."""
    leaves_some: bool = False
    """True if changed partitions are left for the next fetch."""

    @property
    def is_sessionless(self) -> bool:
        """True if the request has no session and asks for none."""
        return self.session is None and not self.wants_session

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to wait for."""
        return not self.partitions and self.session is None

    def refresh(self) -> None:
        """Add the partitions that have changed meanwhile."""
        if self.is_selective:
            assert self.session is not None
            self.partitions, self.leaves_some = self.session.to_check(self.named)

    def name_before(self, key: Key) -> str | None:
        """Return the name that the session has stored for a topic id that is unknown now."""
        known = None if self.session is None else self.session.partitions.get(key)
        return None if known is None else known.topic


def names_many(request: FetchRequest) -> bool:
    """Return True if a request is planned in pieces."""
    count = 0
    for topic in request.topics:
        count += len(topic.partitions) or 1
        if count > NAMED_AT_ONCE:
            return True
    for forgotten in request.forgotten_topics_data:
        count += len(forgotten.partitions) or 1
        if count > NAMED_AT_ONCE:
            return True
    return False
