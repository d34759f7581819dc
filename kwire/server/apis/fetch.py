"""Fetch: read record batches from partitions led by this broker, waiting for min_bytes up to max_wait_ms.

Whole batches are sent as they are stored, from the batch with the fetch offset on. A follower gets all of them. A
consumer gets none past the high watermark, or past the last stable offset with read_committed, together with the
aborted transactions to skip. The fetch offset of a follower says which records it has, and so moves the high watermark.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID

from kwire.chunks import Pieces, at_once, chunks
from kwire.cluster.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from kwire.log.cold_reads import ColdReads
from kwire.log.disk import DiskFailure
from kwire.log.errors import NotReadyError
from kwire.log.lookup import end_offset_of
from kwire.log.verify_budget import VerifyBudget
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.fetch_session_epochs import NO_SESSION
from kwire.protocol.messages.fetch import (
    FetchEpochEndOffset,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from kwire.server.aborted_lists import ABORTED_TRANSACTION_BYTES, aborted_in
from kwire.server.api import Api
from kwire.server.closest_replica import CLIENT_RACKS_SINCE, closer_replica
from kwire.server.context import RequestContext
from kwire.server.current_leaders import MOVED
from kwire.server.delayed_fetch import DelayedFetch
from kwire.server.fetch_answers import answer_bytes, name_leader, refused, response, response_in_pieces
from kwire.server.fetch_session import FetchSession
from kwire.server.fetch_sessions import Asked, FetchPlan, names_many, unsupported_epoch_response
from kwire.server.network.output_memory import OutputMemory
from kwire.server.network.pending import after
from kwire.server.session_watch import Key
from kwire.server.settings.requests import RequestSettings
from kwire.server.unready_logs import UnreadyLogs

logger = logging.getLogger(__name__)

TOPIC_IDS_SINCE = 13
DIVERGING_EPOCH_SINCE = 12
LEADERS_SINCE = 16
NO_EPOCH = -1
PARTITIONS_AT_ONCE = 192
"""Partitions in a piece; larger fetches are read and answered in pieces: followers may fetch tens of thousands."""


def handle(
    request: FetchRequest, context: RequestContext
) -> FetchResponse | Awaitable[FetchResponse] | Pieces[FetchResponse | Awaitable[FetchResponse]]:
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    planning = context.services.fetch_sessions.plan(
        request,
        uses_topic_ids=context.version >= TOPIC_IDS_SINCE,
        topic_names=context.services.image.topic_names,
    )
    if names_many(request):
        return _answer_in_pieces(planning, request, context)
    try:
        plan = at_once(planning)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return _answer(Fetch(request, context, plan), plan)


def _answer_in_pieces(
    planning: Pieces[FetchPlan], request: FetchRequest, context: RequestContext
) -> Pieces[FetchResponse | Awaitable[FetchResponse]]:
    try:
        plan = yield from planning
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return _answer(Fetch(request, context, plan), plan)


def _answer(fetch: Fetch, plan: FetchPlan) -> FetchResponse | Awaitable[FetchResponse]:
    answers = [] if fetch.is_large else fetch.read()
    if fetch.is_large or fetch.has_to_wait:
        delayed = DelayedFetch(fetch)
        delayed.read_in_pieces()
        return delayed.future
    if fetch.need_not_wait or plan.is_empty:
        return fetch.conclude(answers)
    delayed = DelayedFetch(fetch)
    delayed.wait()
    return delayed.future


class Fetch:
    """Reading for one fetch request; it may be repeated after a wait."""

    __slots__ = (
        "_budget",
        "_bytes_max",
        "_context",
        "_has_committed",
        "_is_first_read",
        "_plan",
        "_request",
        "_size",
        "_spent_ms",
        "_unknown",
        "_urgent",
        "answer_bytes",
        "bytes_min",
        "cold",
        "partitions",
        "replica_id",
        "unready",
    )

    def __init__(self, request: FetchRequest, context: RequestContext, plan: FetchPlan) -> None:
        self._request = request
        self._context = context
        self._plan = plan
        self._budget: VerifyBudget
        """Limit of the verification in one step."""
        self._size = 0
        self.answer_bytes = 0
        """Bytes of the records, and of the aborted transactions to skip in them."""
        self._is_first_read = True
        self._has_committed = False
        """True if a high watermark has moved because of this follower's fetch offsets."""
        self.replica_id = max(request.replica_id, request.replica_state.replica_id)
        """Id of the follower; negative for a consumer."""
        self._urgent = False
        """True if the response contains something that the client should receive at once."""
        self.partitions: list[Partition] = []
        self.unready: UnreadyLogs
        """Partitions of the last reading that must be read again when they are ready."""
        self.cold = ColdReads()
        """Reads that were skipped because the records are not in the page cache; to be repeated after `warm`."""
        services = context.services
        self._bytes_max = min(request.max_bytes, services.settings.of(RequestSettings).fetch_bytes_max)
        if services.quotas.active and self.replica_id < 0:
            self._bytes_max = min(self._bytes_max, services.quotas.fetch_bytes_max(context))
        self.bytes_min = min(request.min_bytes, self._bytes_max)
        self._spent_ms = 0.0
        self._unknown: set[Key] = set()
        """Partitions with topic ids that were unknown when the request arrived."""

    @property
    def request(self) -> FetchRequest:
        return self._request

    @property
    def is_large(self) -> bool:
        """True if the fetch is read in pieces."""
        return len(self._plan.partitions) > PARTITIONS_AT_ONCE

    @property
    def has_to_wait(self) -> bool:
        """True if work must be done before there is enough for a response."""
        return bool(self.cold) or (bool(self.unready) and not (self._size and self.need_not_wait))

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
    def size(self) -> int:
        return self._size

    @property
    def is_satisfied(self) -> bool:
        return self._urgent or self._size >= self.bytes_min

    @property
    def need_not_wait(self) -> bool:
        return self.is_satisfied or self._request.max_wait_ms <= 0 or self._plan.leaves_some

    def read(self) -> list[tuple[Key, FetchPartitionData]]:
        """Read all partitions, within the limits of bytes."""
        answers = self._read_all()
        if self._has_committed and not self.need_not_wait:
            # Coordinators continue with the committed records, and append: perhaps to a partition that was read before.
            self._has_committed = False
            self.refresh()
            answers = self._read_all()
        return answers

    def read_in_pieces(self) -> Pieces[list[tuple[Key, FetchPartitionData]]]:
        """Read all partitions as `read` does; partitions that are read later may be newer."""
        while True:
            self._begin_reading()
            answers: list[tuple[Key, FetchPartitionData]] = []
            remaining = min(self._bytes_max, self.output.response_bytes_max())
            for some in chunks(self._plan.partitions, PARTITIONS_AT_ONCE):
                # Other requests are answered between two pieces, and use their part of the room.
                remaining = min(self._read_some(some, remaining, answers), self.output.response_bytes_max())
                yield
            self._is_first_read = False
            if not self._has_committed or self.need_not_wait:
                return answers
            self._has_committed = False
            self.refresh()

    def warm(self, is_wanted: Callable[[], bool]) -> Awaitable[None]:
        """Let a worker read the cold records, for as long as they are needed."""
        return self._context.services.cold_reads.warm(self.cold, is_wanted)

    def _read_all(self) -> list[tuple[Key, FetchPartitionData]]:
        self._begin_reading()
        answers: list[tuple[Key, FetchPartitionData]] = []
        self._read_some(self._plan.partitions, min(self._bytes_max, self.output.response_bytes_max()), answers)
        self._is_first_read = False
        return answers

    def _begin_reading(self) -> None:
        self._size = self.answer_bytes = 0
        self._urgent = False
        self.partitions = []
        self.unready = UnreadyLogs()

    def _read_some(self, partitions: list[Asked], remaining: int, answers: list[tuple[Key, FetchPartitionData]]) -> int:
        """Read the next partitions within `remaining` bytes, and return how many are left."""
        self._budget = VerifyBudget(cold=self.cold)
        self.unready.begin_step()
        follows_in_session = self.replica_id >= 0 and self._plan.session is not None
        for key, asked in partitions:
            if follows_in_session and self._has_nothing_new(key, asked):
                continue
            data = self._read_one(key, asked, remaining)
            size = len(data.records) if data.records else 0
            self._size += size
            if data.aborted_transactions:
                size += ABORTED_TRANSACTION_BYTES * len(data.aborted_transactions)
            self.answer_bytes += size
            remaining -= size
            answers.append((key, data))
        self._urgent |= self._budget.is_short  # no append will wake the fetch for the rest
        return remaining

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
            return unsupported_epoch_response(self._request)
        if services.quotas.active and self.replica_id < 0:
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

    def will_wait(self) -> None:
        """Save the time spent so far: it counts towards the client's quota, and the wait does not."""
        quotas = self._context.services.quotas
        self._spent_ms = quotas.spent_ms() if quotas.active else 0.0

    def goes_on(self) -> None:
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
        return self._context if self._urgent and self._context.version >= LEADERS_SINCE else None

    def _read_one(self, key: Key, asked: FetchPartition, remaining: int) -> FetchPartitionData:
        try:
            partition = self._find(key)
            self.partitions.append(partition)
            self._look_at(key, partition)
            partition.check_epoch(asked.current_leader_epoch)
            return self._read_partition(key, partition, asked, remaining)
        except KafkaError as error:
            code = error.code
            if self._plan.is_selective:
                assert self._plan.session is not None
                self._plan.session.failed(key)
        except DiskFailure as failure:
            logger.error("%s-%d: %s", *key, failure)  # noqa: TRY400 no traceback needed
            code = ErrorCode.KAFKA_STORAGE_ERROR
        self._urgent = True
        data = refused(key[1], code)
        if code in MOVED and self._context.version >= LEADERS_SINCE:
            name_leader(data, key, self._context)
        return data

    def _find(self, key: Key) -> Partition:
        topic, index = key
        services = self._context.services
        if isinstance(topic, UUID):
            name = services.image.topic_names.get(topic)
            if name is None:
                name = self._name_before(key)
        else:
            name = topic
        is_allowed = self._context.allows_topic(name) if self.replica_id < 0 else self._context.allows_cluster()
        if not is_allowed:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        can_follow = self.replica_id < 0 and self._context.version >= CLIENT_RACKS_SINCE
        return services.partitions.find(name, index, can_follow=can_follow)

    def _name_before(self, key: Key) -> str:
        """Return the session's name of a deleted topic; another topic may have the name now."""
        name = self._plan.name_before(key)
        if name is None:
            # A topic that was known when the request arrived is known by its name, as in Kafka.
            if self._is_first_read:
                self._unknown.add(key)
            is_known = key not in self._unknown
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_known else ErrorCode.UNKNOWN_TOPIC_ID)
        is_new = self._context.services.partitions.get(name, key[1]) is not None
        if is_new and self._context.allows_topic(name):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return name

    def _look_at(self, key: Key, partition: Partition) -> None:
        """Let the partition notify the session of changes from now on."""
        if self._plan.is_selective:
            assert self._plan.session is not None
            self._plan.session.look_at(key, partition)

    def _read_partition(
        self, key: Key, partition: Partition, asked: FetchPartition, remaining: int
    ) -> FetchPartitionData:
        last_stable_offset = partition.end_offset(READ_COMMITTED)
        data = FetchPartitionData(
            partition_index=partition.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if asked.last_fetched_epoch != NO_EPOCH and self._diverges(partition, asked, data):
            return data
        if self.replica_id >= 0:
            self._read_as_follower(key, partition, asked, remaining, data)
            return data
        if self._sends_closer(partition, asked, data) or self.unready.is_much:
            return data
        is_committed = self._request.isolation_level == READ_COMMITTED
        limit = last_stable_offset if is_committed else partition.high_watermark
        max_bytes = min(asked.partition_max_bytes, remaining)
        records = b""
        try:
            records = partition.log.read(
                asked.fetch_offset,
                max(max_bytes, 0),
                limit_offset=limit,
                min_one_batch=self._size == 0,
                budget=self._budget,
            )
        except NotReadyError:
            self.unready.add_read(partition, asked.fetch_offset, limit)
        # If the next batch does not fit into max.bytes, Kafka sends a null list.
        if is_committed and (records or max_bytes <= 0 or asked.fetch_offset >= limit):
            try:
                data.aborted_transactions = aborted_in(partition, asked.fetch_offset, records)
            except NotReadyError:
                self.unready.add_aborted(partition, asked.fetch_offset, end_offset_of(records))
                records = b""
        data.records = records
        return data

    def _read_as_follower(
        self, key: Key, partition: Partition, asked: FetchPartition, remaining: int, data: FetchPartitionData
    ) -> None:
        """Read all records, committed or not."""
        if self._is_first_read:
            self._note_follower(key, partition, asked)
            data.high_watermark = partition.high_watermark
        quota = self._context.services.leader_quota
        if quota.holds(partition, self.replica_id) or self.unready.is_much:
            return
        max_bytes = max(min(asked.partition_max_bytes, remaining), 0)
        records = b""
        try:
            records = partition.log.read(
                asked.fetch_offset, max_bytes, min_one_batch=self._size == 0, budget=self._budget
            )
        except NotReadyError:
            self.unready.add_read(partition, asked.fetch_offset, partition.log.log_end_offset)
        data.records = records
        quota.record(partition, len(records))

    def _has_nothing_new(self, key: Key, asked: FetchPartition) -> bool:
        """Return True if a follower has all of a partition and knows it: often most of thousands.

        Partitions that the request names are compared with the log first.
        """
        session = self._plan.session
        assert session is not None
        known = session.partitions.get(key)
        if known is None or (self._is_first_read and key in self._plan.named):
            return False
        try:
            partition = self._find(key)
            self._look_at(key, partition)
            there = partition.log.log_end_offset, partition.leader_epoch
            if (asked.fetch_offset, asked.current_leader_epoch) != there:
                return False
            if self._is_first_read:
                self._note_follower(key, partition, asked)
        except KafkaError:
            return False  # the full read reports the error
        told = known.high_watermark, known.log_start_offset, asked.fetch_offset
        if told != (partition.high_watermark, partition.log.log_start_offset, partition.log.log_end_offset):
            return False
        self.partitions.append(partition)
        session.settle(key, partition)
        return True

    def _note_follower(self, key: Key, partition: Partition, asked: FetchPartition) -> None:
        """Record that the follower has all records below its fetch offset: the logs agree up to there.

        The follower's own session is notified of that too, and of the changes after it.
        """
        committed = partition.high_watermark
        partition.follower_fetched(
            self.replica_id,
            offset=asked.fetch_offset,
            log_start_offset=asked.log_start_offset,
            broker_epoch=self._request.replica_state.replica_epoch,
            epoch=asked.current_leader_epoch,
        )
        if partition.high_watermark != committed:
            self._has_committed = True
        self._look_at(key, partition)

    def _sends_closer(self, partition: Partition, asked: FetchPartition, data: FetchPartitionData) -> bool:
        """Return True if the consumer is redirected to a closer replica."""
        if not self._request.rack_id or not partition.is_led:
            return False
        replica = closer_replica(partition, asked, self._request.rack_id, self._context)
        if replica is None:
            return False
        data.preferred_read_replica = replica
        self._urgent = True
        return True

    def _diverges(self, partition: Partition, asked: FetchPartition, data: FetchPartitionData) -> bool:
        """Return True if the logs diverge before the client's fetch offset (KIP-595); data then says where."""
        epoch, end_offset = partition.log.epoch_end_offset(asked.last_fetched_epoch)
        if end_offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch >= asked.last_fetched_epoch and end_offset >= asked.fetch_offset:
            return False
        data.diverging_epoch = FetchEpochEndOffset(epoch=epoch, end_offset=end_offset)
        self._urgent = True
        return True


API = Api(
    request=FetchRequest,
    response=FetchResponse,
    handle=handle,
    elements_of=lambda response: sum(len(topic.partitions) for topic in response.responses),
)
