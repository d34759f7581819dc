"""Follower's side of an incremental fetch session (KIP-227): the fetch positions that the leader does not have yet."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from kwire.protocol.fetch_session_epochs import INITIAL_EPOCH, NO_SESSION, next_epoch
from kwire.protocol.messages.fetch import FetchForgottenTopic, FetchPartition, FetchRequest, FetchTopic

Key = tuple[UUID, int]
"""Tuple (topic id, partition index)."""


class FetchSession:
    """Session with one leader, or none: then each request contains all partitions and asks for a session."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._positions: dict[Key, FetchPartition] = {}
        self._sent: dict[Key, FetchPartition] = {}
        """Fetch positions of the request in flight."""
        self._unsent: dict[Key, None] = {}
        self._to_forget: dict[Key, None] = {}

    def __bool__(self) -> bool:
        """Return True if there is anything to fetch."""
        return bool(self._positions)

    def position_of(self, key: Key) -> FetchPartition | None:
        """Return the fetch position of a partition; None if it is not fetched."""
        return self._positions.get(key)

    def is_current_position(self, key: Key) -> bool:
        """Return True if the last request had exactly the partition's current fetch position."""
        position = self._positions.get(key)
        return position is not None and self._sent.get(key) is position

    def set_position(self, key: Key, partition: FetchPartition) -> None:
        """Set the fetch position of a partition."""
        self._positions[key] = partition
        self._unsent[key] = None
        self._to_forget.pop(key, None)

    def forget(self, key: Key) -> None:
        """Stop fetching a partition."""
        if self._positions.pop(key, None) is not None:
            self._unsent.pop(key, None)
            self._to_forget[key] = None

    def fill(self, request: FetchRequest) -> None:
        """Put all positions that the leader does not have into a request; `answered` or `reset` must follow."""
        request.session_id = self._session_id
        request.session_epoch = self._epoch
        if self._session_id == NO_SESSION:
            request.topics = _topics(self._positions.items())
            self._sent = dict(self._positions)
        else:
            named = [(key, self._positions[key]) for key in self._unsent]
            request.topics = _topics(named)
            request.forgotten_topics_data = _forgotten(self._to_forget)
            self._sent.update(named)
            for key in self._to_forget:
                self._sent.pop(key, None)
        self._unsent.clear()
        self._to_forget.clear()

    def answered(self, session_id: int) -> None:
        """Process a response without an error, in a session or without."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._epoch = next_epoch(self._epoch)
        self._session_id = session_id

    def reset(self) -> None:
        """Start a new session: it is not known which positions the leader has."""
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._to_forget.clear()


def _topics(positions: Iterable[tuple[Key, FetchPartition]]) -> list[FetchTopic]:
    topics: dict[UUID, FetchTopic] = {}
    for (topic_id, _), position in positions:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
        topic.partitions.append(position)
    return list(topics.values())


def _forgotten(keys: Iterable[Key]) -> list[FetchForgottenTopic]:
    topics: dict[UUID, FetchForgottenTopic] = {}
    for topic_id, index in keys:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchForgottenTopic(topic_id=topic_id)
        topic.partitions.append(index)
    return list(topics.values())
