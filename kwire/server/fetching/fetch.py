"""Fetch request while it is served: its limits, readings, session and response.

Whole batches are sent as they are stored, from the batch with the fetch offset on. reading.py reads the partitions;
delayed_fetch.py waits for them to grow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from kwire.chunks import Pieces, at_once, chunks
from kwire.protocol.fetch_session_epochs import NO_SESSION
from kwire.protocol.messages.fetch import FetchPartitionData, FetchRequest, FetchResponse
from kwire.server.fetching.fetch_answers import (
    LEADERS_SINCE,
    answer_bytes,
    response,
    response_in_pieces,
    unsupported_epoch_response,
)
from kwire.server.fetching.fetch_plan import FetchPlan
from kwire.server.fetching.fetch_session import FetchSession
from kwire.server.fetching.reading import Reading
from kwire.server.fetching.session_watch import Key
from kwire.server.network.memory.output_memory import OutputMemory
from kwire.server.network.pending import after
from kwire.server.requests.context import RequestContext
from kwire.server.settings.requests import RequestSettings

TOPIC_IDS_SINCE: Final = 13
DIVERGING_EPOCH_SINCE: Final = 12
PARTITIONS_AT_ONCE = 192
"""Partitions in a piece; larger fetches are read and answered in pieces: followers may fetch tens of thousands."""


class Fetch:
    """Fetch request that is read, again after each wait, and answered."""

    __slots__ = ("_bytes_max", "_context", "_plan", "_spent_ms", "bytes_min", "reading", "request")

    def __init__(self, request: FetchRequest, context: RequestContext, plan: FetchPlan) -> None:
        self.request = request
        self._context = context
        self._plan = plan
        self.reading = Reading(request, context, plan)
        services = context.services
        self._bytes_max = min(request.max_bytes, services.settings.of(RequestSettings).fetch_bytes_max)
        if services.quotas.active and self.reading.replica_id < 0:
            self._bytes_max = min(self._bytes_max, services.quotas.fetch_bytes_max(context))
        self.bytes_min = min(request.min_bytes, self._bytes_max)
        self._spent_ms = 0.0

    @property
    def is_large(self) -> bool:
        """True if the fetch is read in pieces."""
        return len(self._plan.partitions) > PARTITIONS_AT_ONCE

    @property
    def has_to_wait(self) -> bool:
        """True if work must be done before there is enough for a response."""
        reading = self.reading
        return bool(reading.cold) or (bool(reading.unready) and not (reading.size and self.need_not_wait))

    @property
    def watching_session(self) -> FetchSession | None:
        """Session that its partitions notify, so that they need not notify this fetch."""
        return self._plan.session if self._plan.is_selective else None

    def refresh(self) -> None:
        """Add the partitions that have changed since the last reading."""
        self._plan.refresh()

    @property
    def output(self) -> OutputMemory:
        return self._context.services.output

    @property
    def is_satisfied(self) -> bool:
        return self.reading.is_urgent or self.reading.size >= self.bytes_min

    @property
    def need_not_wait(self) -> bool:
        return self.is_satisfied or self.request.max_wait_ms <= 0 or self._plan.leaves_some

    def read(self) -> list[tuple[Key, FetchPartitionData]]:
        """Read all partitions, within the limits of bytes."""
        answers = self._read_all()
        if self.reading.has_committed and not self.need_not_wait:
            # Coordinators continue with the committed records, and append: perhaps to a partition that was read before.
            self.reading.has_committed = False
            self.refresh()
            answers = self._read_all()
        return answers

    def read_in_pieces(self) -> Pieces[list[tuple[Key, FetchPartitionData]]]:
        """Read all partitions as `read` does; partitions that are read later may be newer."""
        reading = self.reading
        while True:
            reading.begin()
            answers: list[tuple[Key, FetchPartitionData]] = []
            remaining = min(self._bytes_max, self.output.response_bytes_max())
            for some in chunks(self._plan.partitions, PARTITIONS_AT_ONCE):
                # Other requests are answered between two pieces, and use their part of the room.
                remaining = min(reading.read_some(some, remaining, answers), self.output.response_bytes_max())
                yield
            reading.is_first = False
            if not reading.has_committed or self.need_not_wait:
                return answers
            reading.has_committed = False
            self.refresh()

    def warm(self, is_wanted: Callable[[], bool]) -> Awaitable[None]:
        """Let a worker read the cold records, for as long as they are needed."""
        return self._context.services.cold_reads.warm(self.reading.cold, is_wanted)

    def _read_all(self) -> list[tuple[Key, FetchPartitionData]]:
        reading = self.reading
        reading.begin()
        answers: list[tuple[Key, FetchPartitionData]] = []
        reading.read_some(self._plan.partitions, min(self._bytes_max, self.output.response_bytes_max()), answers)
        reading.is_first = False
        return answers

    def conclude(self, answers: list[tuple[Key, FetchPartitionData]]) -> FetchResponse:
        """Return the response to a fetch that is not large, without the partitions that its session omits."""
        if self._plan.is_sessionless and not self._context.services.quotas.active:
            return response(NO_SESSION, answers, self._names_leaders)
        return at_once(self.conclude_in_pieces(answers))

    def conclude_in_pieces(self, answers: list[tuple[Key, FetchPartitionData]]) -> Pieces[FetchResponse]:
        """Return the response, without the partitions that its session omits."""
        services = self._context.services
        is_old = self._context.version < DIVERGING_EPOCH_SINCE
        if is_old and any(data.diverging_epoch.epoch >= 0 for _, data in answers):
            return unsupported_epoch_response(self.request)
        if services.quotas.active and self.reading.replica_id < 0:
            is_counted = services.quotas.limits_fetch(self._context)
            size = (yield from self._answered_bytes(answers)) if is_counted else 0
            throttle_ms = services.quotas.fetch_throttle_ms(self._context, size)
            if throttle_ms:
                # The client repeats its request; until then its session has sent nothing.
                return FetchResponse(throttle_time_ms=throttle_ms, session_id=self._session_id)
        session_id, news = yield from services.fetch_sessions.conclude(
            self._plan,
            answers,
            uses_topic_ids=self._context.version >= TOPIC_IDS_SINCE,
            topic_names=services.image.topic_names,
        )
        return (yield from response_in_pieces(session_id, news, self._names_leaders))

    def when_written(self, size: int) -> None:
        """Release promised output bytes when the response is written: now, if it is not written in pieces."""
        after(self._context.connection.work, partial(self.output.release_reserved, size))

    def pause_timing(self) -> None:
        """Save the time spent so far: it counts towards the client's quota, and the wait does not."""
        quotas = self._context.services.quotas
        self._spent_ms = quotas.spent_ms() if quotas.active else 0.0

    def resume_timing(self) -> None:
        """Continue to count time after a wait."""
        quotas = self._context.services.quotas
        if quotas.active:
            quotas.begin(self._spent_ms)

    @property
    def _session_id(self) -> int:
        return NO_SESSION if self._plan.session is None else self._plan.session.session_id

    def _answered_bytes(self, answers: list[tuple[Key, FetchPartitionData]]) -> Pieces[int]:
        news = self._context.services.fetch_sessions.news(self._plan, answers)
        answer = yield from response_in_pieces(self._session_id, news, self._names_leaders)
        return (yield from answer_bytes(answer, self._context.version))

    @property
    def _names_leaders(self) -> RequestContext | None:
        is_consumer = self.reading.replica_id < 0
        names = is_consumer and self.reading.is_urgent and self._context.version >= LEADERS_SINCE
        return self._context if names else None
