"""Lists of the maximum length: answered in bounded time and size; longer lists, and long tags, are rejected."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.protocol.messages.fetch import FetchPartition
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol.schema import ELEMENTS_MAX
from tests.support.raw_client import RawClient, sized
from tests.support.requests import batch, create_topic, fetch_request, produce
from tests.support.running import RunningBroker

MANY = ELEMENTS_MAX - 10
TOO_MANY = ELEMENTS_MAX + 10
API_VERSIONS_KEY, FLEXIBLE_VERSION = 18, 3
VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


def list_offsets(topic: str, count: int) -> Any:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)])


def delete_records(topic: str, count: int) -> Any:
    partitions = [DeleteRecordsPartition(partition_index=index + 1, offset=0) for index in range(count)]
    return DeleteRecordsRequest(timeout_ms=100, topics=[DeleteRecordsTopic(name=topic, partitions=partitions)])


def leader_epochs(topic: str, count: int) -> Any:
    partitions = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(count)]
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=partitions)])


def fetch(topic: str, count: int) -> Any:
    request = fetch_request(topic)
    request.topics[0].partitions = [FetchPartition(partition=index, partition_max_bytes=1000) for index in range(count)]
    return request


def find_coordinators(topic: str, count: int) -> Any:
    return FindCoordinatorRequest(coordinator_keys=[f"{topic}-{index}" for index in range(count)])


LISTS = [(list_offsets, 7), (delete_records, 2), (leader_epochs, 4), (fetch, 12), (find_coordinators, 6)]


@pytest.mark.parametrize(("make", "version"), LISTS)
def test_row_44_the_largest_allowed_number_of_elements_is_accepted(client: RawClient, make: Any, version: int) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"v"))
    frame = client.frame(make(topic, MANY), version)
    client.send_bytes(frame)
    assert len(client.receive_frame()) < 60 * MANY + len(frame)


@pytest.mark.parametrize(("make", "version"), LISTS)
def test_row_44_more_elements_close_the_connection(broker: RunningBroker, make: Any, version: int) -> None:
    with broker.client() as hostile, broker.client() as other:
        hostile.send_bytes(hostile.frame(make("t", TOO_MANY), version))
        assert hostile.is_closed()
        assert other.ask(VERSIONS, 3).error_code == 0


@pytest.mark.parametrize(
    "tags",
    [
        b"\xff\xff\xff\xff\x0f",
        b"\xff\x7f" + b"\x01\x00" * 16383,
        b"\x02\x05\x00\x05\x00",
        b"\x02\x07\x00\x03\x00",
        b"\x01\x05\xff\xff\x03",
        b"\xff\xff\xff\xff\xff\xff",
    ],
    ids=["huge count", "the same tag", "a tag twice", "out of order", "longer than the frame", "endless varint"],
)
def test_invalid_header_tags_close_the_connection(broker: RunningBroker, tags: bytes) -> None:
    header = struct.pack(">hhih", API_VERSIONS_KEY, FLEXIBLE_VERSION, 1, -1)
    with broker.client() as hostile:
        hostile.send_bytes(sized(header + tags + b"\x04raw\x021\x00"))
        assert hostile.is_closed()


def test_unknown_tags_are_skipped(client: RawClient) -> None:
    header = struct.pack(">hhih", API_VERSIONS_KEY, FLEXIBLE_VERSION, 1, -1)
    tags = bytes([60]) + b"".join(bytes([tag, 1, tag]) for tag in range(40, 100))
    client.send_bytes(sized(header + tags + b"\x04raw\x021\x00"))
    (correlation_id, error_code) = struct.unpack_from(">ih", client.receive_frame())
    assert (correlation_id, error_code) == (1, 0)
