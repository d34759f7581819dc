"""Cache of all fetch sessions of a broker: how many there may be, and which are evicted.

When there is no room, a session that was idle for long is evicted. Otherwise a session is evicted if the new one has
priority, as in Kafka. A follower has priority over any consumer, and a session with more partitions over one that was
opened long ago. A consumer never evicts a follower: without a session, a follower's fetches would name everything.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from kwire.chunks import step_line
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.fetch_session_epochs import SESSION_ID_MAX
from kwire.seams import Clock, RandomSource
from kwire.server.fetching.fetch_session import FetchSession

PARTITIONS_MAX = 200_000
"""Partitions cached over all sessions: about 700 bytes each."""
EVICTION_MS = 120_000
"""A session idle for longer may be evicted for any new one; one opened longer ago, though in use, for a larger one."""
UNWATCHED_AT_ONCE = 512
"""Partitions of an ended session that are unwatched in one step."""


class SessionCache:
    """All sessions of a broker, the least recently used first."""

    def __init__(self, *, slots: int, random_source: RandomSource, clock: Clock) -> None:
        self._slots = slots
        self._random_source = random_source
        self._clock = clock
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._ended: deque[FetchSession] = deque()
        """Ended sessions that partitions still notify."""

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """Return a session; None if there is none with this id."""
        return self._sessions.get(session_id)

    def use(self, session: FetchSession) -> None:
        """Record that a request uses a session now."""
        session.last_used_ms = self._clock.monotonic_ms()
        self._sessions.move_to_end(session.session_id)

    def open(self, size: int, follower: tuple[int, int] | None, *, uses_topic_ids: bool) -> FetchSession | None:
        """Add a session that will have `size` partitions; None if that would evict sessions with priority."""
        if follower is not None:
            self._end_sessions_before_restart(*follower)
        if not self._make_room(size, is_follower=follower is not None):
            return None
        now_ms = self._clock.monotonic_ms()
        session = FetchSession(
            session_id=self._new_id(),
            uses_topic_ids=uses_topic_ids,
            follower=follower,
            created_ms=now_ms,
            last_used_ms=now_ms,
            to_come=size,
        )
        self._sessions[session.session_id] = session
        return session

    def check_size(self, session: FetchSession) -> None:
        """Drop a session that grew too large: its client continues without one."""
        if session.is_follower:
            self._evict_consumers(0)
        if self._partition_count() > PARTITIONS_MAX:
            self.end(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _partition_count(self) -> int:
        return sum(session.size for session in self._sessions.values())

    def end(self, session_id: int) -> None:
        """End a session, if it exists. A delayed fetch of it is answered with what it has."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        session.is_over = True
        session.state_changed()
        if any(known.watch is not None for known in session.partitions.values()):
            self._ended.append(session)
            if len(self._ended) == 1:
                step_line().add(self._unwatch_some)

    def _end_sessions_before_restart(self, broker_id: int, broker_epoch: int) -> None:
        """End sessions that a follower opened before its restart: no fetch will use them again."""
        ended = [
            session.session_id
            for session in self._sessions.values()
            if session.follower is not None and session.follower[0] == broker_id and session.follower[1] < broker_epoch
        ]
        for session_id in ended:
            self.end(session_id)

    def _make_room(self, size: int, *, is_follower: bool) -> bool:
        """Free a slot and room for `size` partitions. Return False if that would evict sessions with priority."""
        yielding: FetchSession | None = None
        if len(self._sessions) >= self._slots:
            yielding = self._session_to_evict(size, is_follower=is_follower)
            if yielding is None:
                return False
        # Partitions that stay after all possible evictions: nothing is evicted for a session that does not fit even
        # then.
        staying = self._partition_count() - (0 if yielding is None else yielding.size)
        if is_follower:
            staying -= sum(each.size for each in self._consumers() if each is not yielding)
        if staying + size > PARTITIONS_MAX:
            return False
        if yielding is not None:
            self.end(yielding.session_id)
        if is_follower:
            self._evict_consumers(size)
        return True

    def _session_to_evict(self, size: int, *, is_follower: bool) -> FetchSession | None:
        """Return the session to evict for a new one of `size` partitions: the one with the
        lowest priority below the new one's.
        """
        if not self._sessions:
            return None
        oldest = next(iter(self._sessions.values()))
        if self._clock.monotonic_ms() - oldest.last_used_ms > EVICTION_MS:
            return oldest
        yielding: FetchSession | None = None
        worth = is_follower, size
        for session in self._sessions.values():
            is_old = session.last_used_ms - session.created_ms > EVICTION_MS
            may_yield = is_old or (is_follower and not session.is_follower)
            its_worth = session.is_follower, session.size
            if may_yield and its_worth < worth:
                yielding, worth = session, its_worth
        return yielding

    def _evict_consumers(self, size: int) -> None:
        """Make room for `size` partitions of a follower by ending the largest sessions of consumers."""
        excess = self._partition_count() + size - PARTITIONS_MAX
        if excess <= 0:
            return
        consumers = self._consumers()
        if sum(session.size for session in consumers) < excess:
            return  # followers alone have too many
        for session in sorted(consumers, key=lambda each: -each.size):
            if excess <= 0:
                return
            excess -= session.size
            self.end(session.session_id)

    def _unwatch_some(self) -> None:
        """Unwatch some partitions of ended sessions, in turns with requests."""
        for _ in range(UNWATCHED_AT_ONCE):
            while self._ended and not self._ended[0].partitions:
                self._ended.popleft()
            if not self._ended:
                return
            _, known = self._ended[0].partitions.popitem()
            known.unwatch()
        step_line().add(self._unwatch_some)

    def _consumers(self) -> list[FetchSession]:
        return [session for session in self._sessions.values() if not session.is_follower]

    def _new_id(self) -> int:
        while True:
            session_id = int(self._random_source.uniform(1, SESSION_ID_MAX))
            if session_id not in self._sessions:
                return session_id
