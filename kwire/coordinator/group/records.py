"""Records of the group coordinator: created from its state, and decoded for replay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from kwire.protocol.messages.group_records import (
    GroupKey,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
)
from kwire.protocol.offset_commit_record import encode_offset_commit_key, encode_offset_commit_value

NO_EXPIRE_TIMESTAMP = -1
EXPIRE_TIMESTAMP_MAX = 2**63 - 1


class GroupRecord(NamedTuple):
    """Key and value of a record; a tombstone has no value."""

    key: GroupKey
    value: GroupValue | None


class OffsetAndMetadata(NamedTuple):
    """Committed offset; equal values are the same commit."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    """-1 if only the broker's retention applies; commits of OffsetCommit 2-4 may contain an expiration time."""
    topic_id: UUID
    record_offset: int
    """Offset of its record, which is compared with that of a transactional commit."""


def encode_group_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    key, value = record
    if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue) and value.expire_timestamp == -1:
        return encode_offset_commit_key(key.group, key.topic, key.partition), encode_offset_commit_value(
            value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.topic_id
        )
    return encode_group_key(key), None if value is None else encode_group_value(value)


def decode_group_record(key: bytes, value: bytes | None) -> GroupRecord:
    decoded = decode_group_key(key)
    return GroupRecord(decoded, None if value is None else decode_group_value(decoded, value))


def group_metadata_record(
    group_id: str,
    *,
    protocol_type: str | None = None,
    generation: int = 0,
    protocol: str | None = None,
    leader: str | None = None,
    state_timestamp_ms: int | None,
    members: Iterable[MemberMetadata] = (),
) -> GroupRecord:
    return GroupRecord(
        GroupMetadataKey(group=group_id),
        GroupMetadataValue(
            protocol_type=protocol_type or "",
            generation=generation,
            protocol=protocol,
            leader=leader,
            current_state_timestamp=-1 if state_timestamp_ms is None else state_timestamp_ms,
            members=list(members),
        ),
    )


def group_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), None)


def offset_commit_record(group_id: str, topic: str, partition: int, committed: OffsetAndMetadata) -> GroupRecord:
    return GroupRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
            topic_id=committed.topic_id,
        ),
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def committed_offset(value: OffsetCommitValue, record_offset: int) -> OffsetAndMetadata:
    """Return the committed offset in a replayed record."""
    return OffsetAndMetadata(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        record_offset,
    )
