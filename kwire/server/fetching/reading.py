"""Read the partitions of one fetch request: the records that its client may read, or an error code for each partition.

A follower reads all records. A consumer reads none past the high watermark, or past the last stable offset with
read_committed, together with the aborted transactions to skip. The fetch offset of a follower says which records it
has, and so moves the high watermark.
"""

from __future__ import annotations

import logging
from uuid import UUID

from kwire.cluster.partitions.partition import READ_COMMITTED, Partition
from kwire.log.cold_reads import ColdReads
from kwire.log.disk import DiskFailure
from kwire.log.errors import NotReadyError
from kwire.log.lookup import end_offset_of
from kwire.log.verify_budget import VerifyBudget
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import FetchEpochEndOffset, FetchPartition, FetchPartitionData, FetchRequest
from kwire.server.fetching.aborted_lists import ABORTED_TRANSACTION_BYTES, aborted_in
from kwire.server.fetching.closest_replica import CLIENT_RACKS_SINCE, closer_replica
from kwire.server.fetching.fetch_answers import LEADERS_SINCE, name_leader, rejected
from kwire.server.fetching.fetch_plan import Asked, FetchPlan
from kwire.server.fetching.session_watch import Key
from kwire.server.fetching.unready_logs import UnreadyLogs
from kwire.server.requests.context import RequestContext
from kwire.server.requests.current_leaders import MOVED

logger = logging.getLogger(__name__)

NO_EPOCH = -1


class Reading:
    """Reading of the partitions of one fetch request. It begins anew after each wait."""

    __slots__ = (
        "_budget",
        "_context",
        "_plan",
        "_request",
        "_unknown",
        "answer_bytes",
        "cold",
        "has_committed",
        "is_first",
        "is_urgent",
        "partitions",
        "replica_id",
        "size",
        "unready",
    )

    def __init__(self, request: FetchRequest, context: RequestContext, plan: FetchPlan) -> None:
        self._request = request
        self._context = context
        self._plan = plan
        self._budget: VerifyBudget
        """Limit of the verification in one step."""
        self._unknown: set[Key] = set()
        """Partitions with topic ids that were unknown when the request arrived."""
        self.size = 0
        """Bytes of the records."""
        self.answer_bytes = 0
        """Bytes of the records, and of the aborted transactions to skip in them."""
        self.has_committed = False
        """True if a high watermark has moved because of this follower's fetch offsets."""
        self.is_first = True
        """True until all partitions have been read once."""
        self.is_urgent = False
        """True if the response contains something that the client should receive at once."""
        self.replica_id = max(request.replica_id, request.replica_state.replica_id)
        """Id of the follower; negative for a consumer."""
        self.partitions: list[Partition] = []
        self.unready: UnreadyLogs
        """Partitions of the last reading that must be read again when they are ready."""
        self.cold = ColdReads()
        """Reads that were skipped because the records are not in the page cache; a worker repeats them."""

    def begin(self) -> None:
        """Begin to read all partitions."""
        self.size = self.answer_bytes = 0
        self.is_urgent = False
        self.partitions = []
        self.unready = UnreadyLogs()

    def read_some(self, partitions: list[Asked], remaining: int, answers: list[tuple[Key, FetchPartitionData]]) -> int:
        """Read the next partitions within `remaining` bytes, and return how many are left."""
        self._budget = VerifyBudget(cold=self.cold)
        self.unready.begin_step()
        follows_in_session = self.replica_id >= 0 and self._plan.session is not None
        for key, asked in partitions:
            if follows_in_session and self._has_nothing_new(key, asked):
                continue
            data = self._read_one(key, asked, remaining)
            size = len(data.records) if data.records else 0
            self.size += size
            if data.aborted_transactions:
                size += ABORTED_TRANSACTION_BYTES * len(data.aborted_transactions)
            self.answer_bytes += size
            remaining -= size
            answers.append((key, data))
        self.is_urgent |= self._budget.is_short  # no append will wake the fetch for the rest
        return remaining

    def _read_one(self, key: Key, asked: FetchPartition, remaining: int) -> FetchPartitionData:
        try:
            partition = self._find(key)
            self.partitions.append(partition)
            self._watch_partition(key, partition)
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
        self.is_urgent = True
        data = rejected(key[1], code)
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
            if self.is_first:
                self._unknown.add(key)
            is_known = key not in self._unknown
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_known else ErrorCode.UNKNOWN_TOPIC_ID)
        is_new = self._context.services.partitions.get(name, key[1]) is not None
        if is_new and self._context.allows_topic(name):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return name

    def _watch_partition(self, key: Key, partition: Partition) -> None:
        """Let the partition notify the session of changes from now on."""
        if self._plan.is_selective:
            assert self._plan.session is not None
            self._plan.session.watch_partition(key, partition)

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
        if self.replica_id >= 0:
            partition.check_replica(self.replica_id, asked.current_leader_epoch)
        if asked.last_fetched_epoch != NO_EPOCH and self._diverges(partition, asked, data):
            return data
        if self.replica_id >= 0:
            self._read_for_follower(key, partition, asked, remaining, data)
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
                min_one_batch=self.size == 0,
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

    def _read_for_follower(
        self, key: Key, partition: Partition, asked: FetchPartition, remaining: int, data: FetchPartitionData
    ) -> None:
        """Read all records, committed or not."""
        if self.is_first:
            self._note_follower(key, partition, asked)
            data.high_watermark = partition.high_watermark
            data.log_start_offset = partition.log.log_start_offset  # a coordinator prunes its log after a commit
        quota = self._context.services.leader_quota
        if quota.is_throttled(partition, self.replica_id) or self.unready.is_much:
            return
        max_bytes = max(min(asked.partition_max_bytes, remaining), 0)
        records = b""
        try:
            records = partition.log.read(
                asked.fetch_offset, max_bytes, min_one_batch=self.size == 0, budget=self._budget
            )
        except NotReadyError:
            self.unready.add_read(partition, asked.fetch_offset, partition.log.log_end_offset)
        data.records = records
        quota.record(partition, len(records))

    def _has_nothing_new(self, key: Key, asked: FetchPartition) -> bool:
        """Return True if a follower has all records of a partition and was sent its offsets, as usual for most of them.

        Partitions that the request names are compared with the log first.
        """
        session = self._plan.session
        assert session is not None
        known = session.partitions.get(key)
        if known is None or (self.is_first and key in self._plan.named):
            return False
        try:
            partition = self._find(key)
            self._watch_partition(key, partition)
            there = partition.log.log_end_offset, partition.leader_epoch
            if (asked.fetch_offset, asked.current_leader_epoch) != there:
                return False
            if self.is_first:
                self._note_follower(key, partition, asked)
        except KafkaError:
            return False  # the full read reports the error
        sent = known.high_watermark, known.log_start_offset, asked.fetch_offset
        if sent != (partition.high_watermark, partition.log.log_start_offset, partition.log.log_end_offset):
            return False
        self.partitions.append(partition)
        session.mark_checked(key, partition)
        return True

    def _note_follower(self, key: Key, partition: Partition, asked: FetchPartition) -> None:
        """Record that the follower has all records below its fetch offset: the logs agree up to there.

        If this advances the high watermark, the follower's own session is notified, which may end its watch. So the
        session then watches the partition again.
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
            self.has_committed = True
        self._watch_partition(key, partition)

    def _sends_closer(self, partition: Partition, asked: FetchPartition, data: FetchPartitionData) -> bool:
        """Return True if the consumer is redirected to a closer replica."""
        if not self._request.rack_id or not partition.is_led:
            return False
        replica = closer_replica(partition, asked, self._request.rack_id, self._context)
        if replica is None:
            return False
        data.preferred_read_replica = replica
        self.is_urgent = True
        return True

    def _diverges(self, partition: Partition, asked: FetchPartition, data: FetchPartitionData) -> bool:
        """Return True if the logs diverge before the client's fetch offset (KIP-595); data then says where."""
        epoch, end_offset = partition.log.epoch_end_offset(asked.last_fetched_epoch)
        if end_offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch >= asked.last_fetched_epoch and end_offset >= asked.fetch_offset:
            return False
        data.diverging_epoch = FetchEpochEndOffset(epoch=epoch, end_offset=end_offset)
        self.is_urgent = True
        return True
