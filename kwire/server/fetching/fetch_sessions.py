"""Incremental fetch sessions (KIP-227): the broker keeps the partitions that a client fetches, so that requests and
responses contain only changes. fetch_session.py has one session, session_cache.py the limits of all.

A request names a session and an epoch:

    id 0, epoch 0     full fetch; a session is created if there is room, and its id returned
    id 0, epoch -1    full fetch without a session
    id n, epoch -1    full fetch; the session is closed
    id n, epoch 0     full fetch; the session is closed and a new one created
    id n, epoch > 0   incremental: the named partitions are added or changed, the forgotten ones dropped, and all that
                      the session has are fetched; the response has those with records, an error, or a high watermark
                      or log start that moved
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from uuid import UUID

from kwire.chunks import Pieces, chunks
from kwire.cluster.partitions.partition import READ_COMMITTED
from kwire.cluster.topic_names import NAME_LENGTH_MAX
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.fetch_session_epochs import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, next_epoch
from kwire.protocol.messages.fetch import FetchPartition, FetchPartitionData, FetchRequest
from kwire.seams import Clock, RandomSource
from kwire.server.fetching.fetch_plan import FetchPlan
from kwire.server.fetching.fetch_session import FetchSession, SessionPartition
from kwire.server.fetching.session_cache import SessionCache
from kwire.server.fetching.session_watch import Key

LOOK_AT_ALL_MS = 3000.0
"""Time after which all partitions of a follower are read, with Kafka's defaults."""
CONCLUDED_AT_ONCE = 1024
"""Partitions of a response that a session records in one step."""
PLANNED_AT_ONCE = 1024
"""Partitions that are planned in one step of a larger request."""
_NO_NAMES: Mapping[UUID, str] = MappingProxyType({})


def _name(key: Key, topic_names: Mapping[UUID, str]) -> str | None:
    return topic_names.get(key[0]) if isinstance(key[0], UUID) else None


def _forget(session: FetchSession, key: Key) -> None:
    session.unread.pop(key, None)
    if (known := session.partitions.pop(key, None)) is not None:
        known.unwatch()


class FetchSessions:
    """Fetch sessions of a broker: what a request of a session fetches, and which of it the response contains."""

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
        self._clock = clock
        self._cache = SessionCache(slots=slots, random_source=random_source, clock=clock)

    def __len__(self) -> int:
        return len(self._cache)

    def plan(
        self,
        request: FetchRequest,
        *,
        uses_topic_ids: bool,
        topic_names: Mapping[UUID, str] = _NO_NAMES,
        may_follow: bool = True,
    ) -> Pieces[FetchPlan]:
        """Return what a request fetches. Raises KafkaError if its session does not exist or has another epoch.

        Without `may_follow`, a replica id in the request gives its session no precedence over others.
        """
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
            is_follower = replica_id >= 0 and may_follow
            follower = (replica_id, request.replica_state.replica_epoch) if is_follower else None
            self._cache.end(request.session_id)
            wants_session = request.session_epoch == INITIAL_EPOCH and may_be_kept
            return FetchPlan(partitions=list(named.items()), wants_session=wants_session, follower=follower)
        session = self._checked(request, uses_topic_ids=uses_topic_ids)
        if not may_be_kept:
            self._cache.end(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        # At once, so that another request does not find it in its old epoch.
        session.epoch = next_epoch(session.epoch)
        self._cache.use(session)
        yield from self._take_in(session, request, named, topic_names, uses_topic_ids=uses_topic_ids)
        if not session.partitions:
            self._cache.end(session.session_id)
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
            session.mark_unchecked(key)
            taken += 1
            if taken % PLANNED_AT_ONCE == 0:
                yield
        if named:
            self._cache.check_size(session)
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                _forget(session, (topic.topic_id if uses_topic_ids else topic.topic, index))
                taken += 1
                if taken % PLANNED_AT_ONCE == 0:
                    yield

    def _look_at_all_at_times(self, session: FetchSession) -> None:
        """Let the next fetch read all partitions, once per look_at_all_ms, so that each records its follower's fetch.

        The follower then still counts as caught up when new records arrive.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - session.looked_at_all_ms >= self._look_at_all_ms():
            session.looked_at_all_ms = now_ms
            session.unsettle_all()

    def _checked(self, request: FetchRequest, *, uses_topic_ids: bool) -> FetchSession:
        session = self._cache.get(request.session_id)
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
                session.record_response(key, known, data)
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
        session = self._cache.open(len(answers), plan.follower, uses_topic_ids=uses_topic_ids)
        if session is None:
            return NO_SESSION
        requests = dict(plan.partitions)
        for number, (key, data) in enumerate(answers, 1):
            name = _name(key, topic_names)
            known = SessionPartition(request=requests[key], topic=name, place=session.new_place())
            known.tell(data)
            session.partitions[key] = known
            session.mark_unchecked(key)
            session.to_come -= 1
            if number % CONCLUDED_AT_ONCE == 0:
                yield
        return session.session_id
