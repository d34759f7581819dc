"""Consumer protocol: JoinGroup's metadata and SyncGroup's assignment for consumers of a classic group.

Each value begins with its version as an int16. An unknown newer version is decoded as the newest known one, because new
versions only add fields at the end.

    1  partitions that the member owns, for cooperative rebalancing (KIP-429)
    2  generation in which it received them (KIP-792)
    3  rack (KIP-881)
"""

from typing import TypeVar

from kwire.protocol.codec import decode, encode
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.primitives import TopicName, bytes_, int32, string
from kwire.protocol.schema import field, message, schema_of, struct


@struct
class SubscriptionTopicPartition:
    topic: TopicName = field("1+")
    partitions: list[int32] = field("1+")


@message(kind="data", versions="0-3")
class ConsumerProtocolSubscription:
    topics: list[string] = field("0+")
    user_data: bytes_ | None = field("0+", nullable="0+", default=None)
    owned_partitions: list[SubscriptionTopicPartition] = field("1+", ignorable=True)
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    rack_id: string | None = field("3+", nullable="3+", default=None, ignorable=True)


@struct
class AssignmentTopicPartition:
    topic: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@message(kind="data", versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[AssignmentTopicPartition] = field("0+")
    user_data: bytes_ | None = field("0+", nullable="0+", default=None)


T = TypeVar("T", ConsumerProtocolSubscription, ConsumerProtocolAssignment)
_VERSION_SIZE = 2


def encode_consumer_protocol(
    value: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int = 3
) -> bytes:
    """Return the value, preceded by its version."""
    out = bytearray(version.to_bytes(_VERSION_SIZE))
    encode(value, version, out)
    return bytes(out)


def decode_consumer_protocol(cls: type[T], data: bytes) -> T:
    """Return the value after its version; an unknown newer version is decoded as the newest known one."""
    if len(data) < _VERSION_SIZE:
        raise ProtocolError(f"{cls.__name__}: {len(data)} bytes hold no version")
    version = int.from_bytes(data[:_VERSION_SIZE], signed=True)
    if version < 0:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    return decode(cls, min(version, schema_of(cls).versions.high), data, _VERSION_SIZE)
