"""OffsetCommit, OffsetFetch and OffsetDelete for the groups and offsets of one shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from uuid import UUID

from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.any_group import AnyGroup
from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.classic.rebalance import Rebalance
from kwire.coordinator.group.config import GroupConfig
from kwire.coordinator.group.consumer.commit_checks import CheckPartition, check_commit, check_fetch
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.offsets import Offsets
from kwire.coordinator.group.records import (
    EXPIRE_TIMESTAMP_MAX,
    NO_EXPIRE_TIMESTAMP,
    GroupRecord,
    OffsetAndMetadata,
    offset_commit_record,
    offset_tombstone,
)
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.group.streams.commit_checks import check_streams_commit, check_streams_fetch
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.protocol.primitives import ZERO_UUID
from kwire.seams import Clock

NO_OFFSET = -1
NO_LEADER_EPOCH = -1
DEFAULT_RETENTION = -1
NO_VERSION = -1

CommitWrite = Write[GroupRecord, list[OffsetCommitResponseTopic]]


class Committing:
    """Offset APIs of one shard."""

    def __init__(
        self,
        *,
        groups: MutableMapping[str, AnyGroup],
        image: Callable[[], MetadataImage],
        offsets: Offsets,
        rebalance: Rebalance,
        config: GroupConfig,
        clock: Clock,
        reserve: Callable[[str], bool],
    ) -> None:
        """Create the APIs; `reserve` returns True if a group without a record may be created, and counts it."""
        self._groups = groups
        self._image = image
        self._offsets = offsets
        self._rebalance = rebalance
        self._config = config
        self._clock = clock
        self._reserve = reserve

    # --- commit

    def commit(
        self, request: OffsetCommitRequest, topics: Iterable[OffsetCommitRequestTopic], *, version: int
    ) -> CommitWrite:
        """Commit offsets of the topics in the request that exist. Raises KafkaError for the whole request."""
        check_partition = self._check_commit(request, version)
        now_ms = self._clock.wall_ms()
        retention_ms = request.retention_time_ms
        # Old clients send Long.MAX_VALUE for "forever".
        is_default = retention_ms == DEFAULT_RETENTION
        expire_ms = NO_EXPIRE_TIMESTAMP if is_default else min(now_ms + retention_ms, EXPIRE_TIMESTAMP_MAX)
        records: list[GroupRecord] = []
        responses = []
        for topic in topics:
            answered = []
            for partition in topic.partitions:
                code = ErrorCode.NONE
                metadata = partition.committed_metadata or ""
                if self._is_too_long(metadata):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    if check_partition is not None:
                        check_partition(topic.name, topic.topic_id, partition.partition_index)
                    committed = _committed(partition, metadata, topic.topic_id, now_ms, expire_ms)
                    records.append(
                        offset_commit_record(request.group_id, topic.name, partition.partition_index, committed)
                    )
                answered.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
            responses.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answered))
        self._create_group(request.group_id, records, now_ms)
        return Write(answer=responses, records=records)

    def _create_group(self, group_id: str, records: list[GroupRecord], now_ms: int) -> None:
        """Create the group, as Kafka does, even if no record is stored that would create it."""
        if not records and group_id not in self._groups:
            if not self._reserve(group_id):
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._groups[group_id] = ClassicGroup(group_id, state_timestamp_ms=now_ms)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, topics: Iterable[TxnOffsetCommitRequestTopic]
    ) -> Write[GroupRecord, list[TxnOffsetCommitResponseTopic]]:
        """Store offsets that take effect when their transaction commits. Raises KafkaError for the whole request."""
        check_partition = self._check_commit_in_transaction(request)
        now_ms = self._clock.wall_ms()
        records: list[GroupRecord] = []
        responses = []
        for topic in topics:
            topic_id = ZERO_UUID if check_partition is None else self._topic_id(topic.name)
            answered = []
            for partition in topic.partitions:
                code = ErrorCode.NONE
                metadata = partition.committed_metadata or ""
                if self._is_too_long(metadata):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    if check_partition is not None:
                        check_partition(topic.name, topic_id, partition.partition_index)
                    committed = _committed(partition, metadata, ZERO_UUID, now_ms, NO_EXPIRE_TIMESTAMP)
                    records.append(
                        offset_commit_record(request.group_id, topic.name, partition.partition_index, committed)
                    )
                answered.append(
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
            responses.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answered))
        self._create_group(request.group_id, records, now_ms)
        return Write(
            answer=responses,
            records=records,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )

    def _check_commit(self, request: OffsetCommitRequest, version: int) -> CheckPartition | None:
        """Check the member of a commit; return the check that each partition needs. Raises KafkaError."""
        group = self._groups.get(request.group_id)
        member_id, instance_id = request.member_id, request.group_instance_id
        epoch = request.generation_id_or_member_epoch
        if group is None:
            if epoch >= 0:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION)
            return None  # the replay of the first commit creates the group
        if isinstance(group, ConsumerGroup):
            return check_commit(group, member_id, instance_id, epoch, version=version)
        if isinstance(group, StreamsGroup):
            return check_streams_commit(group, member_id, instance_id, epoch, version=version)
        if isinstance(group, ShareGroup):
            raise _no_offsets(group)
        member = group.check_offset_commit(member_id, instance_id, epoch)
        if member is not None:
            self._rebalance.restart_session(group, member)
        return None

    def _check_commit_in_transaction(self, request: TxnOffsetCommitRequest) -> CheckPartition | None:
        group = self._groups.get(request.group_id)
        member_id, instance_id, epoch = request.member_id, request.group_instance_id, request.generation_id
        if group is None:
            if epoch >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            return None
        if isinstance(group, ShareGroup):
            raise _no_offsets(group)
        if isinstance(group, ClassicGroup):
            group.check_offset_commit(member_id, instance_id, epoch, in_transaction=True)
            return None
        try:
            if isinstance(group, StreamsGroup):
                return check_streams_commit(
                    group, member_id, instance_id, epoch, version=NO_VERSION, in_transaction=True
                )
            return check_commit(group, member_id, instance_id, epoch, version=NO_VERSION, in_transaction=True)
        except KafkaError as error:
            if error.code is ErrorCode.STALE_MEMBER_EPOCH:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from error
            raise

    def _topic_id(self, name: str) -> UUID:
        """Return the id of a topic whose partitions are checked. Raises ILLEGAL_GENERATION if it does not exist."""
        topic = self._image().topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return topic.topic_id

    def _is_too_long(self, metadata: str) -> bool:
        """Return True if the metadata exceed the limit, in UTF-16 units as in Kafka."""
        limit = self._config.offset_metadata_bytes_max
        if 2 * len(metadata) <= limit:
            return False
        return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit

    # --- fetch

    def fetch(
        self, group_id: str, topics: Iterable[OffsetFetchRequestTopics], *, require_stable: bool
    ) -> list[OffsetFetchResponseTopics]:
        """Return the committed offsets of these partitions, -1 if there is none, also for an unknown group."""
        committed = self._offsets.by_topic(group_id)
        responses = []
        for topic in topics:
            by_partition = committed.get(topic.name, {})
            found = []
            for index in topic.partition_indexes:
                offset = by_partition.get(index)
                if offset is not None and _is_of_another_topic(offset, topic):
                    offset = None
                found.append(self._fetched(group_id, topic.name, index, offset, require_stable=require_stable))
            responses.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=found))
        return responses

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Check the member that reads offsets. Raises KafkaError."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            check_fetch(group, member_id, member_epoch)
        elif isinstance(group, StreamsGroup):
            check_streams_fetch(group, member_id, member_epoch)

    def partitions(self, group_id: str) -> list[OffsetFetchRequestTopics]:
        """Return all partitions for which the group has committed offsets."""
        return [
            OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))
            for topic, partitions in self._offsets.by_topic(group_id).items()
        ]

    def _fetched(
        self, group_id: str, topic: str, index: int, offset: OffsetAndMetadata | None, *, require_stable: bool
    ) -> OffsetFetchResponsePartitions:
        if require_stable and self._offsets.is_pending(group_id, topic, index):  # KIP-447
            return no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if offset is None:
            return no_offset(index)
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
        )

    # --- delete

    def delete(
        self, group_id: str, topics: Iterable[OffsetDeleteRequestTopic]
    ) -> Write[GroupRecord, list[OffsetDeleteResponseTopic]]:
        """Delete offsets of topics that the group does not read (KIP-496). Raises KafkaError for the whole request."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if isinstance(group, ShareGroup):
            raise _no_offsets(group)
        if isinstance(group, ClassicGroup):
            if not group.is_empty and not group.is_consumer_group:
                raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
            assert group.state is not GroupState.DEAD
        records: list[GroupRecord] = []
        responses = [self._delete_topic(group, topic, records) for topic in topics]
        return Write(answer=responses, records=records)

    def _delete_topic(
        self,
        group: ClassicGroup | ConsumerGroup | StreamsGroup,
        topic: OffsetDeleteRequestTopic,
        records: list[GroupRecord],
    ) -> OffsetDeleteResponseTopic:
        group_id, name = group.group_id, topic.name
        is_read = group.is_subscribed_to(name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        answered = []
        for partition in topic.partitions:
            index = partition.partition_index
            answered.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
            exists = self._offsets.find(group_id, name, index) is not None or self._offsets.is_pending(
                group_id, name, index
            )
            if exists and not is_read:
                records.append(offset_tombstone(group_id, name, index))
        return OffsetDeleteResponseTopic(name=name, partitions=answered)


def _no_offsets(group: ShareGroup) -> KafkaError:
    """Return the error for offsets of a share group, which has its own (KIP-932)."""
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")


def no_offset(index: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=code,
    )


def _committed(
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    metadata: str,
    topic_id: UUID,
    now_ms: int,
    expire_ms: int,
) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        partition.committed_offset,
        partition.committed_leader_epoch,
        metadata,
        now_ms,
        expire_ms,
        topic_id,
        -1,
    )


def _is_of_another_topic(offset: OffsetAndMetadata, topic: OffsetFetchRequestTopics) -> bool:
    """Return True if the offset was committed for an earlier topic of this name (KIP-848)."""
    return ZERO_UUID not in (offset.topic_id, topic.topic_id) and offset.topic_id != topic.topic_id
