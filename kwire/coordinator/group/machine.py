"""Group coordinator's state in one shard: groups and their offsets, rebuilt by replay."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kwire.coordinator.group.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.committing import Committing
from kwire.coordinator.group.config import GroupConfig
from kwire.coordinator.group.expiration import expired_offsets
from kwire.coordinator.group.joining import Joining
from kwire.coordinator.group.leaving import Leaving
from kwire.coordinator.group.member import member_from_record
from kwire.coordinator.group.offsets import Offsets
from kwire.coordinator.group.rebalance import Change, Rebalance
from kwire.coordinator.group.records import (
    GroupRecord,
    decode_group_record,
    encode_group_record,
    group_tombstone,
    offset_tombstone,
)
from kwire.coordinator.group.syncing import Syncing
from kwire.coordinator.shard import Step, Write
from kwire.coordinator.timers import Timers
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kwire.seams import Clock, RandomSource

logger = logging.getLogger(__name__)

EXPIRED_AT_ONCE: Final = 1000
"""Groups and offsets that are checked for expiration in one step of the event loop."""


class GroupMachine:
    """Groups whose ids map to one partition of __consumer_offsets."""

    def __init__(
        self,
        timers: Timers[Step[GroupRecord]],
        *,
        config: GroupConfig,
        clock: Clock,
        random_source: RandomSource,
        reserve: Callable[[str], bool],
    ) -> None:
        """Create an empty state; `reserve` returns True if a group without a record may be created, and counts it."""
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.rebalance = Rebalance(groups=self.groups, config=config, clock=clock, timers=timers)
        self.joining = Joining(
            groups=self.groups, config=config, clock=clock, random_source=random_source, rebalance=self.rebalance
        )
        self.syncing = Syncing(self.rebalance)
        self.leaving = Leaving(self.rebalance)
        self.committing = Committing(
            groups=self.groups,
            offsets=self.offsets,
            rebalance=self.rebalance,
            config=config,
            clock=clock,
            reserve=reserve,
        )
        self._config = config
        self._clock = clock
        self._timers = timers

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
        if isinstance(key, LegacyOffsetCommitKey):
            key = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
        if isinstance(value, LegacyOffsetCommitValue):
            value = OffsetCommitValue(
                offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
            )
        assert value is None or isinstance(value, OffsetCommitValue)
        self._replay_offset(key, value, offset, producer_id)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        self.offsets.replay_marker(producer_id, is_commit=is_commit)

    def loaded(self) -> None:
        """Start the members' sessions, and rebalance groups above the size limit, whose members can commit first."""
        for group in list(self.groups.values()):
            for member in group.members.values():
                self.rebalance.restart_session(group, member)
            if len(group.members) > self._config.max_size:
                change = self.rebalance.prepare(group, "the group was loaded and is larger than group.max.size")
                assert change is None
        self._schedule_expiration()

    def unloaded(self) -> None:
        for group in self.groups.values():
            group.close(ErrorCode.NOT_COORDINATOR)

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
        return [*records, group_tombstone(group_id)]

    def delete_offsets_of_topic(self, topic: str) -> Change | None:
        """Delete the committed offsets of a deleted topic."""
        records = [
            offset_tombstone(group_id, topic, partition)
            for group_id, partition in self.offsets.partitions_of_topic(topic)
        ]
        return Write(answer=None, records=records, atomic=False) if records else None

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
            if has_no_offsets and group.is_empty:
                records.append(group_tombstone(group.group_id))
        if not records:
            return None
        logger.info("%d expired offsets and groups are removed", len(records))
        return Write(answer=None, records=records, atomic=False)
