"""Cache of incremental fetch sessions (KIP-227): it keeps the partitions that a client fetches, so that requests and
responses contain only changes. The state of one session is in fetch_session.py.

A request names a session and an epoch:

    id 0, epoch 0     full fetch; a session is created if there is room, and its id returned
    id 0, epoch -1    full fetch without a session
    id n, epoch -1    full fetch; the session is closed
    id n, epoch 0     full fetch; the session is closed and a new one created
    id n, epoch > 0   incremental: the named partitions are added or changed, the forgotten ones dropped, and all that
                      the session has are fetched; the response has those with records, an error, or a high watermark
                      or log start that moved

When there is no room, a session that was idle for long is evicted. Otherwise a session is evicted if the new one has
priority, as in Kafka. A follower has priority over any consumer, and a session with more partitions over one that was
opened long ago. A consumer never evicts a follower: without a session, a follower's fetches would name everything.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from kwire.chunks import Pieces, chunks, step_line
from kwire.cluster.partition import READ_COMMITTED
from kwire.cluster.topic_names import NAME_LENGTH_MAX
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.fetch_session_epochs import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, SESSION_ID_MAX, next_epoch
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from kwire.seams import Clock, RandomSource
from kwire.server.fetch_session import FetchSession, SessionPartition
from kwire.server.session_watch import Key

PARTITIONS_MAX = 200_000
"""Partitions cached over all sessions: about 700 bytes each."""
EVICTION_MS = 120_000
"""A session idle for longer may be evicted for any new one; one opened longer ago, though in use, for a larger one."""
LOOK_AT_ALL_MS = 3000.0
"""Time after which all partitions of a follower are read, with Kafka's defaults."""

Asked = tuple[Key, FetchPartition]
CONCLUDED_AT_ONCE = 1024
"""Partitions of a response that a session records in one step."""
NAMED_AT_ONCE = 256
"""Partitions named or forgotten by a request up to which it is planned in one step."""
PLANNED_AT_ONCE = 1024
"""Partitions that are planned in one step of a larger request."""
UNWATCHED_AT_ONCE = 512
"""Partitions of an ended session that are unwatched in one step."""
_NO_NAMES: Mapping[UUID, str] = MappingProxyType({})


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
            self.partitions, self.leaves_some = self.session.to_look_at(self.named)

    def name_before(self, key: Key) -> str | None:
        """Return the name that the session has stored for a topic id that is unknown now."""
        known = None if self.session is None else self.session.partitions.get(key)
        return None if known is None else known.topic


def _name(key: Key, topic_names: Mapping[UUID, str]) -> str | None:
    return topic_names.get(key[0]) if isinstance(key[0], UUID) else None


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


def unsupported_epoch_response(request: FetchRequest) -> FetchResponse:
    """Return the UNSUPPORTED_VERSION response for a session with an epoch that this older
    request version cannot contain.
    """
    code = ErrorCode.UNSUPPORTED_VERSION
    responses = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                FetchPartitionData(
                    partition_index=each.partition,
                    error_code=code,
                    high_watermark=-1,
                    aborted_transactions=[],
                    records=b"",
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return FetchResponse(error_code=code, session_id=request.session_id, responses=responses)


def _forget(session: FetchSession, key: Key) -> None:
    session.unread.pop(key, None)
    if (known := session.partitions.pop(key, None)) is not None:
        known.unwatch()


class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    def __init__(
        self,
        *,
        slots: int,
        random_source: RandomSource,
        clock: Clock,
        look_at_all_ms: Callable[[], float] = lambda: LOOK_AT_ALL_MS,
    ) -> None:
        """`look_at_all_ms` returns the time described at LOOK_AT_ALL_MS."""
        self._look_at_all_ms = look_at_all_ms
        self._slots = slots
        self._random_source = random_source
        self._clock = clock
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._ended: deque[FetchSession] = deque()
        """Ended sessions that partitions still notify."""

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self, request: FetchRequest, *, uses_topic_ids: bool, topic_names: Mapping[UUID, str] = _NO_NAMES
    ) -> Pieces[FetchPlan]:
        """Return what a request fetches. Raises KafkaError if its session does not exist or has another epoch."""
        named: dict[Key, FetchPartition] = {}
        name_length = taken = 0
        for topic in request.topics:
            name_length = max(name_length, len(topic.topic))
            for each in topic.partitions:
                named[topic.topic_id if uses_topic_ids else topic.topic, each.partition] = each
                taken += 1
                if taken % PLANNED_AT_ONCE == 0:
                    yield
            if not topic.partitions:
                taken += 1
                if taken % PLANNED_AT_ONCE == 0:
                    yield
        # Names longer than any topic name are not cached: PARTITIONS_MAX of them would be gigabytes.
        may_be_kept = name_length <= NAME_LENGTH_MAX
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            replica_id = max(request.replica_id, request.replica_state.replica_id)
            follower = (replica_id, request.replica_state.replica_epoch) if replica_id >= 0 else None
            self._end(request.session_id)
            wants_session = request.session_epoch == INITIAL_EPOCH and may_be_kept
            return FetchPlan(partitions=list(named.items()), wants_session=wants_session, follower=follower)
        session = self._checked(request, uses_topic_ids=uses_topic_ids)
        if not may_be_kept:
            self._end(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        # At once, so that another request does not find it in its old epoch.
        session.epoch = next_epoch(session.epoch)
        session.last_used_ms = self._clock.monotonic_ms()
        self._sessions.move_to_end(session.session_id)
        yield from self._take_in(session, request, named, topic_names, uses_topic_ids=uses_topic_ids)
        if not session.partitions:
            self._end(session.session_id)
            return FetchPlan(partitions=list(named.items()))
        plan = FetchPlan(partitions=[], session=session, named=named)
        # The closest replica of a consumer may change without a change of the partition on this broker.
        plan.is_selective = not request.rack_id
        if plan.is_selective:
            is_committed = request.isolation_level == READ_COMMITTED
            if session.is_committed != is_committed:
                session.is_committed = is_committed
                session.unsettle_all()
            if session.is_follower:
                self._look_at_all_at_times(session)
            plan.refresh()
        else:
            for some in chunks(list(session.partitions.items()), PLANNED_AT_ONCE):
                plan.partitions += [(key, known.request) for key, known in some]
                if len(some) == PLANNED_AT_ONCE:
                    yield
        return plan

    def _take_in(
        self,
        session: FetchSession,
        request: FetchRequest,
        named: Mapping[Key, FetchPartition],
        topic_names: Mapping[UUID, str],
        *,
        uses_topic_ids: bool,
    ) -> Pieces[None]:
        """Add the partitions that a request names to a session, or change them, and drop those that it forgets."""
        taken = 0
        for key, partition in named.items():
            known = session.partitions.get(key)
            if known is None:
                name = _name(key, topic_names)
                session.partitions[key] = SessionPartition(request=partition, topic=name, place=session.new_place())
            else:
                known.request = partition
                if session.is_follower:  # it may have truncated its log and discarded the last response
                    known.high_watermark = -1
            session.unsettle(key)
            taken += 1
            if taken % PLANNED_AT_ONCE == 0:
                yield
        if named:
            self._check_size(session)
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                _forget(session, (topic.topic_id if uses_topic_ids else topic.topic, index))
                taken += 1
                if taken % PLANNED_AT_ONCE == 0:
                    yield

    def _look_at_all_at_times(self, session: FetchSession) -> None:
        """Let the next fetch read all partitions every look_at_all_ms, so that each records
        that its follower has fetched.

        The follower is then in sync when new records arrive.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - session.looked_at_all_ms >= self._look_at_all_ms():
            session.looked_at_all_ms = now_ms
            session.unsettle_all()

    def _check_size(self, session: FetchSession) -> None:
        """Drop a session that grew too large: its client continues without one."""
        if session.is_follower:
            self._evict_consumers(0)
        if self._partition_count() > PARTITIONS_MAX:
            self._end(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _partition_count(self) -> int:
        return sum(session.size for session in self._sessions.values())

    def _checked(self, request: FetchRequest, *, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def conclude(
        self,
        plan: FetchPlan,
        answers: Iterable[tuple[Key, FetchPartitionData]],
        *,
        uses_topic_ids: bool,
        topic_names: Mapping[UUID, str] = _NO_NAMES,
    ) -> Pieces[tuple[int, list[tuple[Key, FetchPartitionData]]]]:
        """Return the session id and the partitions of the response."""
        answers = list(answers)
        if plan.session is None:
            if not plan.wants_session:
                return NO_SESSION, answers
            session_id = yield from self._open(plan, answers, topic_names, uses_topic_ids=uses_topic_ids)
            return session_id, answers
        session = plan.session
        news = []
        for number, (key, data) in enumerate(answers, 1):
            known = session.partitions.get(key)
            if known is not None:
                if known.tell(data):
                    news.append((key, data))
                session.told(key, known, data)
            if number % CONCLUDED_AT_ONCE == 0:
                yield
        return session.session_id, news

    def news(
        self, plan: FetchPlan, answers: Iterable[tuple[Key, FetchPartitionData]]
    ) -> list[tuple[Key, FetchPartitionData]]:
        """Return the partitions that `conclude` would return, without recording anything."""
        if plan.session is None:
            return list(answers)
        known = plan.session.partitions
        return [(key, data) for key, data in answers if key in known and known[key].is_news(data)]

    def _open(
        self,
        plan: FetchPlan,
        answers: list[tuple[Key, FetchPartitionData]],
        topic_names: Mapping[UUID, str],
        *,
        uses_topic_ids: bool,
    ) -> Pieces[int]:
        if plan.follower is not None:
            self._end_sessions_before_restart(*plan.follower)
        if not self._make_room(len(plan.partitions), is_follower=plan.follower is not None):
            return NO_SESSION
        now_ms = self._clock.monotonic_ms()
        session = FetchSession(
            session_id=self._new_id(),
            uses_topic_ids=uses_topic_ids,
            follower=plan.follower,
            created_ms=now_ms,
            last_used_ms=now_ms,
            to_come=len(answers),
        )
        requests = dict(plan.partitions)
        self._sessions[session.session_id] = session
        for number, (key, data) in enumerate(answers, 1):
            name = _name(key, topic_names)
            known = SessionPartition(request=requests[key], topic=name, place=session.new_place())
            known.tell(data)
            session.partitions[key] = known
            session.unsettle(key)
            session.to_come -= 1
            if number % CONCLUDED_AT_ONCE == 0:
                yield
        return session.session_id

    def _end_sessions_before_restart(self, broker_id: int, broker_epoch: int) -> None:
        """End sessions that a follower opened before its restart: no fetch will use them again."""
        ended = [
            session.session_id
            for session in self._sessions.values()
            if session.follower is not None and session.follower[0] == broker_id and session.follower[1] < broker_epoch
        ]
        for session_id in ended:
            self._end(session_id)

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
            self._end(yielding.session_id)
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
            self._end(session.session_id)

    def _end(self, session_id: int) -> None:
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
