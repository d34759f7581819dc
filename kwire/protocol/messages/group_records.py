"""Records of __consumer_offsets: committed offsets and classic groups, and the table of all record types.

A key begins with its record type as an int16 (which is the schema's key), a value with its version as an int16.
A null value is a tombstone.
"""

from typing import Any

from kwire.protocol.codec import decode, encode
from kwire.protocol.error_codes import ProtocolError, UnknownRecordTypeError
from kwire.protocol.messages import consumer_group_records as consumer
from kwire.protocol.messages import share_group_records as share
from kwire.protocol.messages import streams_group_records as streams
from kwire.protocol.primitives import bytes_, int32, int64, string, uuid
from kwire.protocol.schema import field, message, schema_of, struct


@message(key=0, kind="data", versions="0")
class LegacyOffsetCommitKey:
    group: string = field("0")
    topic: string = field("0")
    partition: int32 = field("0")


@message(key=0, kind="data", versions="0")
class LegacyOffsetCommitValue:
    offset: int64 = field("0")
    metadata: string = field("0")
    commit_timestamp: int64 = field("0")


@message(key=1, kind="data", versions="0")
class OffsetCommitKey:
    group: string = field("0")
    topic: string = field("0")
    partition: int32 = field("0")


@message(key=1, kind="data", versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: int64 = field("0+")
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
    metadata: string = field("0+")
    commit_timestamp: int64 = field("0+")
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    topic_id: uuid = field("4+", tag=0, tagged="4+", ignorable=True)


@message(key=2, kind="data", versions="0")
class GroupMetadataKey:
    group: string = field("0")


@struct
class MemberMetadata:
    member_id: string = field("0+")
    group_instance_id: string | None = field("3+", nullable="3+", default=None, ignorable=True)
    client_id: string = field("0+")
    client_host: string = field("0+")
    rebalance_timeout: int32 = field("1+", default=-1, ignorable=True)
    session_timeout: int32 = field("0+")
    subscription: bytes_ = field("0+")
    assignment: bytes_ = field("0+")


@message(key=2, kind="data", versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: string = field("0+")
    generation: int32 = field("0+")
    protocol: string | None = field("0+", nullable="0+")
    leader: string | None = field("0+", nullable="0+")
    current_state_timestamp: int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field("0+")


GroupKey = Any
"""Key of a record: one of the types in _RECORDS, or LegacyOffsetCommitKey."""
GroupValue = Any
"""Value of a record, of the type that belongs to its key."""
_PREFIX_SIZE = 2
_KEY_TYPES: dict[int, type] = {0: LegacyOffsetCommitKey}
_VALUE_TYPES: dict[type, type] = {LegacyOffsetCommitKey: LegacyOffsetCommitValue}
_RECORDS: tuple[tuple[type, type], ...] = (
    (OffsetCommitKey, OffsetCommitValue),
    (GroupMetadataKey, GroupMetadataValue),
    (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
    (consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue),
    (consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
    (consumer.ConsumerGroupTargetAssignmentMetadataKey, consumer.ConsumerGroupTargetAssignmentMetadataValue),
    (consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
    (consumer.ConsumerGroupCurrentMemberAssignmentKey, consumer.ConsumerGroupCurrentMemberAssignmentValue),
    (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
    (share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
    (share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
    (share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue),
    (share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue),
    (share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue),
    (share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue),
    (streams.StreamsGroupMetadataKey, streams.StreamsGroupMetadataValue),
    (streams.StreamsGroupMemberMetadataKey, streams.StreamsGroupMemberMetadataValue),
    (streams.StreamsGroupTargetAssignmentMetadataKey, streams.StreamsGroupTargetAssignmentMetadataValue),
    (streams.StreamsGroupTargetAssignmentMemberKey, streams.StreamsGroupTargetAssignmentMemberValue),
    (streams.StreamsGroupCurrentMemberAssignmentKey, streams.StreamsGroupCurrentMemberAssignmentValue),
    (streams.StreamsGroupTopologyKey, streams.StreamsGroupTopologyValue),
)
for _key_type, _value_type in _RECORDS:
    _record_type = schema_of(_key_type).key
    assert _record_type is not None
    _KEY_TYPES[_record_type] = _key_type
    _VALUE_TYPES[_key_type] = _value_type


def encode_group_key(key: GroupKey) -> bytes:
    record_type = schema_of(type(key)).key
    assert record_type is not None
    out = bytearray(record_type.to_bytes(_PREFIX_SIZE))
    encode(key, 0, out)
    return bytes(out)


def decode_group_key(data: bytes) -> GroupKey:
    """Return the key of a record. Raises UnknownRecordTypeError for undeclared types."""
    record_type = _read_prefix(data)
    cls = _KEY_TYPES.get(record_type)
    if cls is None:
        raise UnknownRecordTypeError(f"unknown group record type {record_type}")
    return decode(cls, 0, data, _PREFIX_SIZE)


def encode_group_value(value: GroupValue, version: int | None = None) -> bytes:
    """Return the value in the version that Kafka 4.3.1 writes, unless another is given."""
    if version is None:
        version = _version_written(value)
    out = bytearray(version.to_bytes(_PREFIX_SIZE))
    encode(value, version, out)
    return bytes(out)


def decode_group_value(key: GroupKey, data: bytes) -> GroupValue:
    """Return the value that belongs to a key."""
    return decode(_VALUE_TYPES[type(key)], _read_prefix(data), data, _PREFIX_SIZE)


def _version_written(value: GroupValue) -> int:
    if isinstance(value, LegacyOffsetCommitValue):
        return 0
    if isinstance(value, GroupMetadataValue):
        return 3
    if not isinstance(value, OffsetCommitValue):
        return 0
    return 4 if value.expire_timestamp == -1 else 1  # only version 1 contains an expiration time


def _read_prefix(data: bytes) -> int:
    if len(data) < _PREFIX_SIZE:
        raise ProtocolError(f"a group record of {len(data)} bytes holds no type")
    return int.from_bytes(data[:_PREFIX_SIZE], signed=True)
