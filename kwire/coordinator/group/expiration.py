"""Expiration of committed offsets (offsets.retention.minutes), and of groups without offsets.

The retention time of an offset starts at a time that depends on its group:

- Group without a protocol type, which has commits only: the offset's commit.
- Empty group: the time when the group became empty.
- Stable classic group of consumers: the offset's commit, for topics that no member reads.
- Consumer group (KIP-848) and streams group (KIP-1071): the offset's commit, for topics that no member reads.
- Any other group: never. A share group has no committed offsets, and stays while a partition has a state.

An offset whose commit contains an expiration time (OffsetCommit 2-4) expires then. An empty group without offsets is
deleted.
"""

from __future__ import annotations

from kwire.coordinator.group.any_group import AnyGroup
from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.offsets import Offsets
from kwire.coordinator.group.records import NO_EXPIRE_TIMESTAMP, GroupRecord, OffsetAndMetadata, offset_tombstone
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.group.streams.streams_group import StreamsGroup

Committer = ClassicGroup | ConsumerGroup | StreamsGroup
"""Group that may have committed offsets."""


def expired_offsets(
    group: AnyGroup, offsets: Offsets, *, now_ms: int, retention_ms: int
) -> tuple[list[GroupRecord], bool]:
    """Return tombstones of a group's expired offsets, and True if it has no others.

    The offsets of a share group are in its states, which do not expire.
    """
    if isinstance(group, ShareGroup):
        return [], group.states.is_empty
    by_topic = offsets.by_topic(group.group_id)
    if not by_topic:
        return [], not offsets.has_open_transaction(group.group_id)
    if not _has_clock(group):
        return [], False
    tombstones: list[GroupRecord] = []
    kept = 0
    for topic, partitions in by_topic.items():
        if group.is_subscribed_to(topic):
            kept += len(partitions)
            continue
        for partition, committed in partitions.items():
            is_over = _is_over(group, committed, now_ms, retention_ms)
            if is_over and not offsets.is_pending(group.group_id, topic, partition):
                tombstones.append(offset_tombstone(group.group_id, topic, partition))
            else:
                kept += 1
    return tombstones, kept == 0 and not offsets.has_open_transaction(group.group_id)


def _has_clock(group: Committer) -> bool:
    if isinstance(group, ConsumerGroup | StreamsGroup):
        return True
    if group.protocol_type is None or group.is_empty:
        return True
    return group.is_consumer_group and group.subscribed_topics is not None and group.state is GroupState.STABLE


def _is_over(group: Committer, committed: OffsetAndMetadata, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_EXPIRE_TIMESTAMP:
        return now_ms >= committed.expire_timestamp_ms
    start_ms = committed.commit_timestamp_ms
    if (
        isinstance(group, ClassicGroup)
        and group.protocol_type is not None
        and group.is_empty
        and group.state_timestamp_ms is not None
    ):
        start_ms = group.state_timestamp_ms
    return now_ms - start_ms >= retention_ms
