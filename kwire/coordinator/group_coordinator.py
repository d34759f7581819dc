"""Group coordinator: finds the shard of a group and answers requests by the group's rules.

Every method returns the API's answer, at once or as an awaitable if it must wait: for other members, or for records to
be committed. Errors of the whole request are part of the answer, in the API's own way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kwire.chunks import Pieces, chunks
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.configs.group_configs import GroupConfigs
from kwire.cluster.metadata.features import GROUP_VERSION
from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partitions import Partitions
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC
from kwire.coordinator.answers import Answer
from kwire.coordinator.group.any_group import AnyGroup, as_classic
from kwire.coordinator.group.classic.classic_group import ClassicGroup
from kwire.coordinator.group.classic.joining import JoinCall, rejected_join
from kwire.coordinator.group.client import Client
from kwire.coordinator.group.config import GroupConfig
from kwire.coordinator.group.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from kwire.coordinator.group.consumer.describing import described_consumer_group, rejected_consumer_description
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig
from kwire.coordinator.group.listing import described_group, listed_groups, rejected_description
from kwire.coordinator.group.machine import GroupMachine
from kwire.coordinator.group.memory import GroupMemory
from kwire.coordinator.group.modern.metadata_hash import TopicHashes
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.rejected_commits import rejected_commit, rejected_transactional_commit
from kwire.coordinator.group.share.settings import ShareGroupConfig
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.group.streams.settings import StreamsGroupConfig
from kwire.coordinator.key_partitions import KeyPartitions
from kwire.coordinator.markers import TransactionMarker
from kwire.coordinator.runtime import CoordinatorRuntime
from kwire.coordinator.shard import Shard, ShardState, Step, Write
from kwire.coordinator.share_group_coordinator import ShareGroupCoordinator
from kwire.coordinator.streams_group_coordinator import StreamsGroupCoordinator
from kwire.coordinator.timers import Timers
from kwire.coordinator.written_answers import with_late_errors, write_and_answer
from kwire.log.append_result import AppendResult
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeGroup
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.delete_groups import DeletableGroupResult
from kwire.protocol.messages.describe_groups import DescribeGroupsDescribedGroup
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from kwire.protocol.messages.list_groups import ListedGroup
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponseTopic,
)
from kwire.seams import Clock, RandomSource

__all__ = ["Client", "ConsumerGroupConfig", "GroupConfig", "GroupCoordinator", "ShareGroupConfig", "StreamsGroupConfig"]

T = TypeVar("T")

JOIN_KNOWS_ITS_ID_SINCE = 4
JOIN_SKIPS_ASSIGNMENT_SINCE = 9


class GroupCoordinator:
    """Group coordinator for the partitions of __consumer_offsets that this broker leads."""

    def __init__(
        self,
        *,
        config: GroupConfig,
        consumer_config: Callable[[], ConsumerGroupConfig],
        share_config: Callable[[], ShareGroupConfig],
        streams_config: Callable[[], StreamsGroupConfig],
        settings: Callable[[], Mapping[str, Any]],
        partitions: Partitions,
        image: Callable[[], MetadataImage],
        clock: Clock,
        random_source: RandomSource,
        count_loaded: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._consumer_config = consumer_config
        self._share_config = share_config
        self._streams_config = streams_config
        self._image = image
        self._configs = GroupConfigs(lambda group_id: image().config_of(ConfigResourceType.GROUP, group_id), settings)
        self.topic_hashes = TopicHashes()
        self._newest_topics_version = -1
        """Offset of the last metadata with new topics."""
        self._partitions = partitions
        self.keys = KeyPartitions(GROUP_OFFSETS_TOPIC, image)
        self._clock = clock
        self._random_source = random_source
        self._runtime: CoordinatorRuntime[GroupRecord, GroupMachine] = CoordinatorRuntime(
            make=self._make_machine, clock=clock, write_timeout_ms=config.commit_timeout_ms, count_loaded=count_loaded
        )
        self._memory = GroupMemory(config.memory_bytes_max, self._weighed_groups, clock)
        self.share = ShareGroupCoordinator(shard_of=self._shard, memory=self._memory, image=image, clock=clock)
        self.streams = StreamsGroupCoordinator(
            shard_of=self._shard, memory=self._memory, image=image, config=streams_config, hashes=self.topic_hashes
        )

    def _weighed_groups(self) -> Iterator[AnyGroup]:
        """Yield the groups whose memory is limited: all but those that consist of committed offsets only.

        The latter stay until their offsets expire, and share groups with states until they are deleted. If they
        counted, many of them would prevent new members from joining that long. The share coordinator limits the states.
        """
        for shard in self._runtime:
            committed = shard.machine.offsets
            for group in shard.machine.groups.values():
                has_pending = isinstance(group, ClassicGroup) and group.pending_join
                has_states = isinstance(group, ShareGroup) and group.states.initialized
                if group.members or has_pending or not (has_states or committed.by_topic(group.group_id)):
                    yield group

    def _make_machine(self, timers: Timers[Step[GroupRecord]]) -> GroupMachine:
        return GroupMachine(
            timers,
            config=self._config,
            consumer_config=self._consumer_config,
            share_config=self._share_config,
            streams_config=self._streams_config,
            configs=self._configs,
            hashes=self.topic_hashes,
            image=self._image,
            newest_topics_version=lambda: self._newest_topics_version,
            clock=self._clock,
            random_source=self._random_source,
            reserve=self._memory.reserve_group,
            remove_unused=self.share.remove_unused,
        )

    # --- start and stop

    async def start(self) -> None:
        """Serve the partitions that this broker leads; slow loading continues in the background."""
        self._newest_topics_version = self._image().offset
        await self._runtime.start(
            each for each in self._partitions if each.topic == GROUP_OFFSETS_TOPIC and each.is_led
        )

    async def loaded(self) -> None:
        """Wait until all led partitions are loaded."""
        await self._runtime.loaded()

    def stop(self) -> None:
        """Answer all waiting requests, and stop."""
        self.share.stop()
        self._runtime.stop()

    def partition_removed(self, partition: Partition) -> None:
        """Drop the state of a partition that was removed from this broker."""
        if partition.topic == GROUP_OFFSETS_TOPIC:
            self._runtime.resign(partition.index)

    def topic_deleted(self, topic: TopicImage) -> None:
        """Delete the offsets of a deleted topic, so that they do not apply to a later topic of the same name.

        Share groups forget its states, which the share coordinator deletes; a shard that is loading does so when it is
        loaded.
        """
        self.topic_hashes.forget(topic.name)
        for shard in self._runtime:
            if shard.state is ShardState.ACTIVE:
                with contextlib.suppress(KafkaError), shard:  # the offsets stay if the shard is loading
                    shard.attempt(shard.machine.delete_offsets_of_topic(topic.name))
                    shard.machine.forget_deleted_topics()

    def topics_created(self, metadata_offset: int) -> None:
        """Match regular expressions against new topics; the metadata of this offset contain them."""
        self._newest_topics_version = metadata_offset

    def role_changed(self, partition: Partition) -> None:
        """Serve or release a partition after a change of its leader."""
        if partition.topic == GROUP_OFFSETS_TOPIC:
            self._runtime.serve_or_release(partition)

    def has_consumer_groups(self) -> bool:
        """Return True if the cluster has finalised consumer groups, and the broker's settings enable them."""
        is_finalised = self._image().features.get(GROUP_VERSION, 0) > 0
        return is_finalised and PROTOCOL_TYPE in self._consumer_config().protocols

    # --- shards

    def partition_for(self, group_id: str) -> int:
        """Return the group's partition of __consumer_offsets. Raises NOT_COORDINATOR if the topic does not exist."""
        return self.keys.find(group_id)

    def _shard(self, group_id: str) -> Shard[GroupRecord, GroupMachine]:
        return self._active(self.partition_for(group_id))

    def _active(self, index: int) -> Shard[GroupRecord, GroupMachine]:
        if self._runtime.find(index) is None:
            partition = self._partitions.get(GROUP_OFFSETS_TOPIC, index)
            if partition is not None:
                self._runtime.serve_or_release(partition)
        return self._runtime.active(index)

    def _shard_of_valid_group_id(self, group_id: str) -> Shard[GroupRecord, GroupMachine]:
        """Return the shard for APIs that reject the empty group id, with which old clients committed offsets."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self._shard(group_id)

    # --- membership

    def join(self, request: JoinGroupRequest, client: Client, *, version: int) -> Answer[JoinGroupResponse]:
        answer: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
        call = JoinCall(
            request=request,
            client_id=client.client_id,
            client_host=client.host,
            requires_member_id=version >= JOIN_KNOWS_ITS_ID_SINCE,
            can_skip_assignment=version >= JOIN_SKIPS_ASSIGNMENT_SINCE,
            answer=answer,
        )
        try:
            shard = self._shard_of_valid_group_id(request.group_id)
            timeout_ms = request.session_timeout_ms
            if not self._config.min_session_timeout_ms <= timeout_ms <= self._config.max_session_timeout_ms:
                raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
            if version == 0:
                request.rebalance_timeout_ms = timeout_ms
            with shard:
                group = shard.machine.groups.get(request.group_id)
                is_member = group is not None and request.member_id in group.members
                if not self._memory.reserve(request, call.client_id, is_member=is_member):
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                try:
                    shard.attempt(shard.machine.join(call, client.allows_topic))
                except KafkaError as error:  # Kafka's answer has no member id here
                    return rejected_join(error.code)
        except KafkaError as error:
            return rejected_join(error.code, request.member_id)
        return answer.result() if answer.done() else answer

    def sync(self, request: SyncGroupRequest) -> Answer[SyncGroupResponse]:
        answer: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
        try:
            shard = self._shard_of_valid_group_id(request.group_id)
            with shard:
                machine = shard.machine
                group = machine.groups.get(request.group_id)
                if not isinstance(group, ConsumerGroup):
                    shard.attempt(machine.syncing.sync(as_classic(group), request, answer))
                    return answer.result() if answer.done() else answer
                write = machine.consumers.classic_members.sync(group, request)
        except KafkaError as error:
            return SyncGroupResponse(error_code=error.code)
        return write_and_answer(shard, write, lambda code: SyncGroupResponse(error_code=code))

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        try:
            shard = self._shard_of_valid_group_id(request.group_id)
            with shard:
                machine = shard.machine
                group = machine.groups.get(request.group_id)
                if isinstance(group, ConsumerGroup):
                    code = machine.consumers.classic_members.heartbeat(group, request)
                else:
                    code = machine.syncing.heartbeat(as_classic(group), request)
        except KafkaError as error:
            # While the coordinator is loading, a member can only wait.
            is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)
        return HeartbeatResponse(error_code=code)

    def leave(self, group_id: str, identities: list[MemberIdentity]) -> Answer[LeaveGroupResponse]:
        try:
            shard = self._shard_of_valid_group_id(group_id)
            with shard:
                machine = shard.machine
                group = machine.groups.get(group_id)
                if isinstance(group, ConsumerGroup):
                    return write_and_answer(
                        shard, machine.consumers.classic_members.leave(group, identities), _rejected_leave
                    )
                responses, change = machine.leaving.leave(as_classic(group), identities)
        except KafkaError as error:
            return LeaveGroupResponse(error_code=error.code)
        response = LeaveGroupResponse(members=responses)
        if change is None:
            return response
        write = Write(answer=response, records=change.records, replay=change.replay, outcome=change.outcome)
        return write_and_answer(shard, write, _rejected_leave)

    def heartbeat_of_consumer_group(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, *, version: int
    ) -> Answer[ConsumerGroupHeartbeatResponse]:
        """Let a member join, stay in or leave a consumer group (KIP-848)."""

        def reject(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
            return ConsumerGroupHeartbeatResponse(error_code=code)

        try:
            if not request.group_id.strip():
                raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
            shard = self._shard(request.group_id)
            with shard:
                group = shard.machine.groups.get(request.group_id)
                is_member = group is not None and request.member_id in group.members
                if not self._memory.reserve_member(request, client.client_id, is_member=is_member):
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                write = shard.machine.consumers.heartbeats.heartbeat(request, client, version)
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        return write_and_answer(shard, write, reject)

    # --- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, topics: list[OffsetCommitRequestTopic], *, version: int
    ) -> Answer[list[OffsetCommitResponseTopic]]:
        """Commit offsets of the topics in the request that exist and that the client may read, with name and id."""

        def reject(code: ErrorCode) -> list[OffsetCommitResponseTopic]:
            return rejected_commit(topics, code)

        try:
            shard = self._shard(request.group_id)
            with shard:
                write = shard.machine.committing.commit(request, topics, version=version)
        except KafkaError as error:
            return reject(error.code)
        return write_and_answer(shard, write, reject)

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, topics: list[TxnOffsetCommitRequestTopic]
    ) -> Answer[list[TxnOffsetCommitResponseTopic]]:
        """Commit offsets of the topics in the request that exist. The group's partition must be in the transaction."""

        def reject(code: ErrorCode) -> list[TxnOffsetCommitResponseTopic]:
            return rejected_transactional_commit(topics, code)

        try:
            shard = self._shard_of_valid_group_id(request.group_id)
            with shard:
                write = shard.machine.committing.commit_in_transaction(request, topics)
        except KafkaError as error:
            return reject(error.code)
        return write_and_answer(shard, write, reject)

    def end_transaction(self, index: int, marker: TransactionMarker) -> AppendResult:
        """Append a transaction's marker to a partition of __consumer_offsets.

        The offsets of the transaction in this partition are then committed or dropped. Raises KafkaError or
        DiskFailure.
        """
        shard = self._active(index)
        with shard:
            return shard.end_transaction(marker)

    def offsets_partition(self, group_id: str) -> Partition:
        """Return the partition to which a transaction with this group's offsets writes. Raises KafkaError."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self._shard(group_id).partition

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Answer[OffsetFetchResponseGroup]:
        """Return the committed offsets of the requested partitions; -1 for a partition without one."""
        assert request.topics is not None, "the topics must be listed"
        topics = request.topics
        group_id = request.group_id

        def reject(code: ErrorCode) -> OffsetFetchResponseGroup:
            return OffsetFetchResponseGroup(group_id=group_id, error_code=code)

        try:
            shard = self._shard(group_id)
            with shard:
                committing = shard.machine.committing
                committing.check_fetch(group_id, request.member_id, request.member_epoch)
                found = committing.fetch(group_id, topics, require_stable=require_stable)
        except KafkaError as error:
            return reject(error.code)
        return with_late_errors(shard.read(OffsetFetchResponseGroup(group_id=group_id, topics=found)), reject)

    def committed_partitions(self, request: OffsetFetchRequestGroup) -> list[OffsetFetchRequestTopics]:
        """Return all partitions for which the group has committed offsets. Raises KafkaError."""
        shard = self._shard(request.group_id)
        with shard:
            committing = shard.machine.committing
            committing.check_fetch(request.group_id, request.member_id, request.member_epoch)
            return committing.partitions(request.group_id)

    def delete_offsets(self, group_id: str, topics: list[OffsetDeleteRequestTopic]) -> Answer[OffsetDeleteResponse]:
        def reject(code: ErrorCode) -> OffsetDeleteResponse:
            return OffsetDeleteResponse(error_code=code)

        try:
            shard = self._shard_of_valid_group_id(group_id)
            with shard:
                write = shard.machine.committing.delete(group_id, topics)
        except KafkaError as error:
            return reject(error.code)
        response = OffsetDeleteResponse(topics=write.answer)
        return write_and_answer(shard, Write(answer=response, records=write.records), reject)

    # --- administration

    def list_groups(self, states_filter: Iterable[str], types_filter: Iterable[str]) -> Iterator[list[ListedGroup]]:
        """Yield all groups of this broker that match the filters, a few at a time.

        Raises KafkaError (COORDINATOR_LOAD_IN_PROGRESS) if some are not loaded yet.
        """
        states, types = list(states_filter), list(types_filter)
        for shard in list(self._runtime):
            if shard.state is ShardState.LOADING:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            if shard.state is ShardState.ACTIVE:
                for some in chunks(list(shard.machine.groups.values())):  # they may change between two steps
                    yield listed_groups(some, states, types)

    def describe_group(self, group_id: str, *, version: int) -> DescribeGroupsDescribedGroup:
        try:
            shard = self._shard(group_id)
            with shard:
                return described_group(group_id, shard.machine.groups.get(group_id), version=version)
        except KafkaError as error:
            return rejected_description(group_id, error.code)

    def describe_consumer_group(self, group_id: str) -> Pieces[ConsumerGroupDescribeGroup]:
        try:
            shard = self._shard(group_id)
            with shard:
                group = shard.machine.groups.get(group_id)
                return (
                    yield from described_consumer_group(
                        group_id, group, self._image(), self._consumer_config().assignor_names[0]
                    )
                )
        except KafkaError as error:
            return rejected_consumer_description(group_id, error.code)

    def delete_group(self, group_id: str) -> Answer[DeletableGroupResult]:
        def reject(code: ErrorCode) -> DeletableGroupResult:
            return DeletableGroupResult(group_id=group_id, error_code=code)

        try:
            shard = self._shard(group_id)
            with shard:
                group = shard.machine.groups.get(group_id)
                if group is None:
                    return reject(ErrorCode.GROUP_ID_NOT_FOUND)
                if not group.is_empty:
                    return reject(ErrorCode.NON_EMPTY_GROUP)
                if isinstance(group, ShareGroup) and not group.states.is_empty:
                    return self._delete_share_group(group_id)
                records = shard.machine.delete_records(group_id)
        except KafkaError as error:
            return reject(error.code)
        return write_and_answer(shard, Write(answer=DeletableGroupResult(group_id=group_id), records=records), reject)

    async def _delete_share_group(self, group_id: str) -> DeletableGroupResult:
        """Delete the states of a share group's partitions, and then the group."""
        try:
            await self.share.delete_group(group_id)
        except KafkaError as error:
            return DeletableGroupResult(group_id=group_id, error_code=error.code)
        return DeletableGroupResult(group_id=group_id)


def _rejected_leave(code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)
