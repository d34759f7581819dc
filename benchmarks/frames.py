"""Encoded requests for the load generator, and the position of the error code in their responses."""

import time

from kwire.protocol.codec import encode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import Record, encode_batch

PRODUCE_VERSION = 7
FETCH_VERSION = 4
OFFSET_COMMIT_VERSION = 7
_SIZE_AND_CORRELATION_ID = 8
_ARRAY, _INDEX, _THROTTLE = 4, 4, 4


def produce_frame(topic: str, partition: int, record_bytes: int, *, acks: int = 1) -> bytes:
    """Return a Produce request with a batch of one record."""
    batch = encode_batch([Record(value=b"x" * record_bytes, timestamp=int(time.time() * 1000))])
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=acks, timeout_ms=30000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    return frame(0, PRODUCE_VERSION, request)


def produce_error_position(topic: str) -> int:
    """Return the position of the error code: it follows the topics, name, partitions and index."""
    return _SIZE_AND_CORRELATION_ID + _ARRAY + 2 + len(topic) + _ARRAY + _INDEX


def fetch_frame(topic: str, partition: int, bytes_max: int, offset: int = 0) -> bytes:
    """Return a Fetch request for up to `bytes_max` bytes of a partition, from its beginning or from an offset."""
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=bytes_max, topics=[FetchTopic(topic=topic, partitions=[asked])]
    )
    return frame(1, FETCH_VERSION, request)


def fetch_error_position(topic: str) -> int:
    """Return the position of the error code: as in Produce, but after the throttle time."""
    return produce_error_position(topic) + _THROTTLE


def offset_commit_frame(group: str, topic: str, partition: int) -> bytes:
    """Return an OffsetCommit request for a group without members; its response begins like that of a Fetch."""
    committed = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[committed])])
    return frame(8, OFFSET_COMMIT_VERSION, request)


def flexible_frame(key: int, version: int, request: object) -> bytes:
    """Encode a request of a flexible version, with its size in front."""
    body = bytearray(key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1" + b"\0\4load" + b"\0")
    encode(request, version, body)
    return len(body).to_bytes(4, "big") + bytes(body)


def frame(key: int, version: int, request: object) -> bytes:
    """Encode a request of a version that is not flexible, with its size in front."""
    body = bytearray(key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1" + b"\0\4load")
    encode(request, version, body)
    return len(body).to_bytes(4, "big") + bytes(body)
