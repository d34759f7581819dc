"""Group coordinator's state in one shard: groups and their offsets, rebuilt by replay."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kwire.cluster.configs.group_configs import GroupConfigs
from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.any_group import GROUP_TYPES, AnyGroup, deletion_records
from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.classic.joining import UNKNOWN_MEMBER_ID, JoinCall, Joining
from kwire.coordinator.group.classic.leaving import Leaving
from kwire.coordinator.group.classic.member import member_from_record
from kwire.coordinator.group.classic.rebalance import Change, Rebalance
from kwire.coordinator.group.classic.syncing import Syncing
from kwire.coordinator.group.committing import Committing
from kwire.coordinator.group.config import GroupConfig
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.consumer_groups import ConsumerGroups
from kwire.coordinator.group.consumer.replay import REPLAY as CONSUMER_REPLAY
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.expiration import expired_offsets
from kwire.coordinator.group.modern.metadata_hash import TopicHashes
from kwire.coordinator.group.offsets import Offsets
from kwire.coordinator.group.records import (
    GroupRecord,
    decode_group_record,
    encode_group_record,
    offset_tombstone,
)
from kwire.coordinator.group.repeated_writes import RETRY_MS, repeated
from kwire.coordinator.group.share.heartbeats import ShareHeartbeats
from kwire.coordinator.group.share.records import states_record
from kwire.coordinator.group.share.replay import REPLAY as SHARE_REPLAY
from kwire.coordinator.group.share.settings import ShareGroupConfig
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.group.streams.heartbeats import StreamsHeartbeats
from kwire.coordinator.group.streams.replay import REPLAY as STREAMS_REPLAY
from kwire.coordinator.group.streams.settings import StreamsGroupConfig
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.shard import Step, Write
from kwire.coordinator.timers import Timers
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_records import ConsumerGroupMetadataKey
from kwire.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kwire.protocol.messages.share_group_records import ShareGroupMetadataKey
from kwire.protocol.messages.streams_group_records import StreamsGroupMetadataKey
from kwire.seams import Clock, RandomSource

logger = logging.getLogger(__name__)

FORGOTTEN_AT_ONCE: Final = 64
"""Share groups from which a deleted topic is removed in one step."""
EXPIRED_AT_ONCE: Final = 1000
"""Groups and offsets that are checked for expiration in one step of the event loop."""


class GroupMachine:
    """Groups whose ids map to one partition of __consumer_offsets."""

    def __init__(
        self,
        timers: Timers[Step[GroupRecord]],
        *,
        config: GroupConfig,
        consumer_config: Callable[[], ConsumerGroupConfig],
        share_config: Callable[[], ShareGroupConfig],
        streams_config: Callable[[], StreamsGroupConfig],
        configs: GroupConfigs,
        hashes: TopicHashes,
        image: Callable[[], MetadataImage],
        newest_topics_version: Callable[[], int],
        clock: Clock,
        random_source: RandomSource,
        reserve: Callable[[str], bool],
        remove_unused: Callable[[str], None],
    ) -> None:
        """Create an empty state.

        `newest_topics_version` returns the offset of the last metadata with new topics. `reserve` returns True if a
        group without a record may be created, and counts it. `remove_unused` removes an empty share group together with
        the states that it may have, later.
        """
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = Offsets()
        self._remove_unused = remove_unused
        self.rebalance = Rebalance(groups=self.groups, config=config, clock=clock, timers=timers)
        self.joining = Joining(
            groups=self.groups, config=config, clock=clock, random_source=random_source, rebalance=self.rebalance
        )
        self.syncing = Syncing(self.rebalance)
        self.leaving = Leaving(self.rebalance)
        self.committing = Committing(
            groups=self.groups,
            image=image,
            offsets=self.offsets,
            rebalance=self.rebalance,
            config=config,
            clock=clock,
            reserve=reserve,
        )
        environment = GroupEnvironment(
            groups=self.groups,
            timers=timers,
            clock=clock,
            random_source=random_source,
            image=image,
            configs=configs,
            hashes=hashes,
        )
        self.consumers = ConsumerGroups(environment, consumer_config, config, self.rebalance, newest_topics_version)
        self.share_heartbeats = ShareHeartbeats(environment, share_config)
        self.streams = StreamsHeartbeats(environment, streams_config)
        self._config = config
        self._clock = clock
        self._timers = timers
        self._image = image

    # --- interface for the runtime

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return encode_group_record(record)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord:
        return decode_group_record(key, value)

    def replay(self, record: GroupRecord, offset: int, producer_id: int) -> None:
        key, value = record
        if isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self._replay_group(key.group, value)
            return
        if type(key) in CONSUMER_REPLAY:
            self._replay_consumer_group(key, value)
            return
        if type(key) in SHARE_REPLAY:
            self._replay_share_group(key, value)
            return
        if type(key) in STREAMS_REPLAY:
            self._replay_streams_group(key, value)
            return
        if isinstance(key, LegacyOffsetCommitKey):
            key = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
        if isinstance(value, LegacyOffsetCommitValue):
            value = OffsetCommitValue(
                offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
            )
        assert isinstance(key, OffsetCommitKey)
        assert value is None or isinstance(value, OffsetCommitValue)
        self._replay_offset(key, value, offset, producer_id)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        self.offsets.replay_marker(producer_id, is_commit=is_commit)

    def loaded(self) -> None:
        """Start the members' sessions, and rebalance groups above the size limit, whose members can commit first."""
        for group in list(self.groups.values()):
            if isinstance(group, ConsumerGroup):
                self.consumers.loaded(group)
                continue
            if isinstance(group, StreamsGroup):
                self.streams.loaded(group)
                continue
            if isinstance(group, ShareGroup):
                for member_id in group.members:
                    self.share_heartbeats.restart_session(group.group_id, member_id)
                continue
            for member in group.members.values():
                self.rebalance.restart_session(group, member)
            if len(group.members) > self._config.max_size:
                change = self.rebalance.prepare(group, "the group was loaded and is larger than group.max.size")
                assert change is None
        self.forget_deleted_topics()  # those that were deleted while no coordinator was active
        self._schedule_expiration()

    def unloaded(self) -> None:
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                group.close(ErrorCode.NOT_COORDINATOR)

    # --- JoinGroup to groups of all kinds

    def join(self, call: JoinCall, allows_topic: Callable[[str], bool]) -> Change | None:
        """Answer a JoinGroup at once, or later. Raises KafkaError."""
        group = self.groups.get(call.request.group_id)
        if group is None or isinstance(group, ClassicGroup):
            return self.joining.join(call)
        if isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and not group.is_empty):
            call.reject(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID)
            return None
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.consumers.classic_members.join(group, call, allows_topic)
        if call.request.member_id != UNKNOWN_MEMBER_ID:
            call.reject(ErrorCode.UNKNOWN_MEMBER_ID, call.request.member_id)
            return None
        logger.info("group %s: the empty %s group becomes a classic group", group.group_id, GROUP_TYPES[type(group)])
        return self.joining.join_new_group(call, self._tombstones(group))

    # --- replay

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is None:
            self.groups.pop(group_id, None)
            return
        protocol_type, protocol = value.protocol_type, value.protocol
        group = ClassicGroup(
            group_id,
            state=GroupState.STABLE if value.members else GroupState.EMPTY,
            generation_id=value.generation,
            protocol_type=protocol_type or None,
            protocol_name=protocol,
            leader_id=value.leader,
            state_timestamp_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
        )
        for member in value.members:
            group.add(member_from_record(member, protocol_type, protocol or ""))
        if group.leader_id not in group.members:
            group.leader_id = next(iter(group.members), None)
        group.restore_subscriptions()
        group.check_invariants()
        self.groups[group_id] = group

    def _replay_consumer_group(self, key: Any, value: Any) -> None:
        group_id = key.group_id
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return  # the group is already deleted, or a classic one has taken its place
            # A client that only committed offsets may have created the group before.
            assert group is None or _has_only_offsets(group), f"{group_id} is a group of another kind"
            group = self.groups[group_id] = ConsumerGroup(group_id)
        CONSUMER_REPLAY[type(key)](group, key, value)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del self.groups[group_id]

    def _replay_share_group(self, key: Any, value: Any) -> None:
        group_id = key.group_id
        group = self.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            if value is None:
                return
            assert group is None, f"{group_id} is a group of another kind"
            group = self.groups[group_id] = ShareGroup(group_id)
        SHARE_REPLAY[type(key)](group, key, value, self._clock.wall_ms())
        if value is None and isinstance(key, ShareGroupMetadataKey):
            del self.groups[group_id]

    def _replay_streams_group(self, key: Any, value: Any) -> None:
        group_id = key.group_id
        group = self.groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            if value is None:
                return  # the group is already deleted, or a classic one has taken its place
            # A client that only committed offsets may have created the group before.
            assert group is None or _has_only_offsets(group), f"{group_id} is a group of another kind"
            group = self.groups[group_id] = StreamsGroup(group_id)
        STREAMS_REPLAY[type(key)](group, key, value, self.streams.topologies.written_topology)
        if value is None and isinstance(key, StreamsGroupMetadataKey):
            del self.groups[group_id]

    def _replay_offset(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int
    ) -> None:
        if value is not None and key.group not in self.groups:
            # A client that only commits: its group is empty and has no protocol type.
            self.groups[key.group] = ClassicGroup(key.group, state_timestamp_ms=self._clock.wall_ms())
        self.offsets.replay(key, value, offset, producer_id)

    # --- deletion

    def delete_records(self, group_id: str) -> list[GroupRecord]:
        """Return tombstones of a group and its offsets."""
        records = [
            offset_tombstone(group_id, topic, partition)
            for topic, partition in self.offsets.partitions_of_group(group_id)
        ]
        group = self.groups.get(group_id)
        return records if group is None else [*records, *self._tombstones(group)]

    def _tombstones(self, group: AnyGroup) -> list[GroupRecord]:
        """Return tombstones of a group that is deleted, and cancel its timers."""
        if isinstance(group, StreamsGroup):
            self.streams.timeouts.cancel_delay(group.group_id)
        return deletion_records(group)

    def delete_offsets_of_topic(self, topic: str) -> Change | None:
        """Delete the committed offsets of a deleted topic."""
        records = [
            offset_tombstone(group_id, topic, partition)
            for group_id, partition in self.offsets.partitions_of_topic(topic)
        ]
        return Write(answer=None, records=records, atomic=False) if records else None

    def forget_deleted_topics(self) -> None:
        """Remove topics that do not exist any more from the states of share groups, in steps."""
        share_groups = [group_id for group_id, group in self.groups.items() if isinstance(group, ShareGroup)]
        if share_groups:
            self._forget_topics_later(share_groups, 0)

    def _forget_topics_later(self, group_ids: Sequence[str], delay_ms: int) -> None:
        self._timers.schedule("deleted topics", delay_ms, partial(self._forget_topics_of, group_ids))

    def _forget_topics_of(self, group_ids: Sequence[str]) -> Change | None:
        """Remove deleted topics from the states of some groups, and schedule the rest. A failed write is repeated."""
        some, rest = group_ids[:FORGOTTEN_AT_ONCE], group_ids[FORGOTTEN_AT_ONCE:]
        if rest:
            self._forget_topics_later(rest, 0)
        image = self._image()
        records: list[GroupRecord] = []
        for group_id in some:
            group = self.groups.get(group_id)
            if isinstance(group, ShareGroup):
                states = group.states.without_topics(group.states.deleted_topics(image))
                if states != group.states:
                    records.append(states_record(group_id, states, states.named_deleting(image)))
        if not records:
            return None
        write: Change = Write(answer=None, records=records, atomic=False)
        return repeated(write, lambda: self._forget_topics_later(group_ids, RETRY_MS))

    def _schedule_expiration(self) -> None:
        self._timers.schedule("expiration", self._config.retention_check_interval_ms, self._expire)

    def _expire(self) -> Change | None:
        self._schedule_expiration()
        return self._expire_from(list(self.groups), 0)

    def _expire_from(self, group_ids: Sequence[str], start: int) -> Change | None:
        """Remove expired offsets and groups from index `start` on, as many as one step may, and schedule the rest."""
        records: list[GroupRecord] = []
        now_ms = self._clock.wall_ms()
        checked = 0
        for number in range(start, len(group_ids)):
            if checked >= EXPIRED_AT_ONCE:
                self._timers.schedule("rest of expiration", 0, partial(self._expire_from, group_ids, number))
                break
            group_id = group_ids[number]
            group = self.groups.get(group_id)
            if group is None:
                continue
            checked += 1 + sum(map(len, self.offsets.by_topic(group_id).values()))
            tombstones, has_no_offsets = expired_offsets(
                group, self.offsets, now_ms=now_ms, retention_ms=self._config.offsets_retention_ms
            )
            records += tombstones
            if isinstance(group, ShareGroup) and group.is_unused:
                self._remove_unused(group_id)
            if has_no_offsets and group.is_empty:
                records += self._tombstones(group)
        if not records:
            return None
        logger.info("%d expired offsets and groups are removed", len(records))
        return Write(answer=None, records=records, atomic=False)


def _has_only_offsets(group: AnyGroup) -> bool:
    """Return True for a group that a client created by committing offsets, without members."""
    return isinstance(group, ClassicGroup) and group.protocol_type is None
