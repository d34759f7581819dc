"""Rare requests, or requests at a rare moment: each response equals Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.log.disk import DiskFailure
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.records import TRANSACTIONAL_FLAG
from kwire.server.network.connection_limits import QUEUED_FRAMES_MAX
from tests.hostile.frames import with_crc
from tests.log.faults import FaultyDisk, broken
from tests.server.test_client_quotas import CONSUMER, set_quota
from tests.support.raw_client import RawClient
from tests.support.requests import (
    NOW_MS,
    batch,
    create_topic,
    fetch,
    fetch_request,
    list_offset,
    produce,
    produce_request,
    values_in,
)
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

E = ErrorCode
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
CLIENT_METRICS, GROUP = 16, 32


# --- topics and configurations


@pytest.mark.parametrize(("version", "code"), [(2, E.INVALID_REQUEST), (6, E.TOPIC_DELETION_DISABLED)])
def test_delete_topics_is_rejected_when_disabled(data_dir: Path, version: int, code: ErrorCode) -> None:
    with RunningBroker(data_dir, {"delete.topic.enable": "false"}) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        named = DeleteTopicsRequest(topic_names=[topic])
        request = named if version < 6 else DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)])
        (rejected,) = client.ask(request, version).responses
        assert rejected.error_code == code
        assert produce(client, topic, batch(b"still there")).error_code == E.NONE


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (GROUP, "Group name must not be empty"),
        (CLIENT_METRICS, "Client metrics subscription name must not be empty"),
    ],
)
def test_describe_configs_rejects_an_empty_resource_name(client: RawClient, kind: int, why: str) -> None:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name="")])
    (rejected,) = client.ask(request, 4).results
    assert (rejected.error_code, rejected.error_message) == (E.INVALID_REQUEST, why)


# --- a broker with two listeners


@pytest.fixture
def two_doors(data_dir: Path) -> Iterator[RunningBroker]:
    settings = {
        "listeners": "FRONT://127.0.0.1:0,BACK://127.0.0.1:0",
        "listener.security.protocol.map": "FRONT:PLAINTEXT,BACK:PLAINTEXT",
        "inter.broker.listener.name": "FRONT",
        "offsets.topic.num.partitions": "1",
    }
    with RunningBroker(data_dir, settings) as running:
        yield running


def test_metadata_names_the_listener_of_the_client_connection(two_doors: RunningBroker) -> None:
    ports = list(two_doors.call(two_doors.server._listeners.ports).values())
    assert len(set(ports)) == 2
    for port in ports:
        with RawClient(f"127.0.0.1:{port}") as client:
            (shown,) = client.ask(DescribeClusterRequest(), 1).brokers
            assert shown.port == port
            found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators[0]
            assert (found.error_code, found.port) == (E.NONE, port)
    services = two_doors.server.services
    assert two_doors.call(lambda: services.endpoint(services.node_id, "SIDE")) is None


# --- produce and fetch


def test_old_versions_of_produce_carry_no_zstd(client: RawClient) -> None:
    topic, _ = create_topic(client)
    packed = batch(b"a", codec=Codec.ZSTD)
    assert produce(client, topic, packed, version=6).error_code == E.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, topic, packed, version=7).error_code == E.NONE


def test_a_transactional_batch_without_a_producer_id_is_stored_unverified(client: RawClient) -> None:
    """Kafka verifies only batches with a producer id as well."""
    topic, _ = create_topic(client)
    records = bytearray(batch(b"a"))
    records[22] |= TRANSACTIONAL_FLAG
    request = produce_request(topic, bytes(with_crc(records)))
    request.transactional_id = "x"
    answer = client.ask(request, 11).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (E.NONE, 0)
    assert values_in(fetch(client, topic, isolation_level=1).records) == [b"a"]


def test_an_epoch_that_the_log_has_never_had_is_out_of_range(client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert fetch(client, topic, last_fetched_epoch=5).error_code == E.OFFSET_OUT_OF_RANGE


def test_diverging_epochs_in_an_old_fetch_session_return_unsupported_version(client: RawClient) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a"))
    session = client.ask(fetch_request(topic, session=(0, 0)), 12).session_id
    client.ask(fetch_request(topic, 1000, last_fetched_epoch=0, session=(session, 1)), 12)
    other, _ = create_topic(client)
    old = client.ask(fetch_request(other, session=(session, 2)), 11)
    assert (old.error_code, old.responses[0].topic) == (E.UNSUPPORTED_VERSION, other)
    (partition,) = old.responses[0].partitions
    assert (partition.error_code, partition.high_watermark) == (E.UNSUPPORTED_VERSION, -1)


def test_a_consumer_that_names_its_rack_reads_here_where_no_selector_is_set(client: RawClient) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a"))
    answer = fetch(client, topic, rack_id="r")
    assert (answer.preferred_read_replica, values_in(answer.records)) == (-1, [b"a"])


def test_a_long_poll_of_a_client_with_a_quota_counts_its_own_time_only(broker: RunningBroker) -> None:
    with broker.client(client_id="slow") as waiting, broker.client() as client:
        topic, _ = create_topic(client)
        set_quota(client, "request_percentage", 1.0, client_id="slow")
        poll = fetch_request(topic, max_wait_ms=10_000)
        waiting.send_bytes(waiting.frame(poll, 12))
        eventually(lambda: broker.waiters(topic) == 1, "the long poll to wait")
        produce(client, topic, batch(b"a"))
        answer = waiting.receive(poll, 12)
        assert values_in(answer.responses[0].partitions[0].records) == [b"a"]
        assert answer.throttle_time_ms < 5_000, "it has waited, and not worked"
        set_quota(client, "request_percentage", None, client_id="slow")
        set_quota(client, CONSUMER, None, client_id="slow")


# --- a disk that fails


@pytest.mark.parametrize("operation", ["read", "replace"])
def test_disk_errors_in_list_offsets_and_delete_records_are_returned(data_dir: Path, operation: str) -> None:
    """ListOffsets reads batches; DeleteRecords rewrites the leader epochs of the log."""
    disk = FaultyDisk()
    with RunningBroker(data_dir, disk=disk) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        for value in (b"a", b"b"):
            produce(client, topic, batch(value))

        def fail(what: str, path: str) -> DiskFailure | None:
            return broken(what, path) if what == operation and f"/{topic}-0/" in path else None

        disk.fail = fail
        answer: Any
        if operation == "read":
            answer = list_offset(client, topic, NOW_MS)
        else:
            asked = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
            answer = client.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=1000), 2).topics[0].partitions[0]
            assert answer.low_watermark == -1
        assert answer.error_code == E.KAFKA_STORAGE_ERROR
        disk.fail = lambda what, path: None


# --- frames


def test_the_size_of_a_frame_may_come_byte_by_byte(data_dir: Path) -> None:
    with RunningBroker(data_dir) as broker, broker.client() as client:
        frame = client.frame(VERSIONS, 3)
        for count in (1, 2, 3):
            client.send_bytes(frame[count - 1 : count])
            eventually(lambda held=count: broker.memory_used == held, "the byte to arrive")  # type: ignore[misc]
        client.send_bytes(frame[3:])
        assert client.receive(VERSIONS, 3).error_code == E.NONE


def test_a_bad_size_that_comes_in_pieces_closes_the_connection(data_dir: Path) -> None:
    with RunningBroker(data_dir) as broker, broker.client() as client:
        client.send_bytes(b"\xff\xff")
        eventually(lambda: broker.memory_used == 2, "the bytes to arrive")
        client.send_bytes(b"\xff\xff")
        assert client.is_closed()


def test_a_frame_that_is_whole_while_another_is_served_waits_its_turn(broker: RunningBroker) -> None:
    with broker.client() as client, broker.client() as other:
        topic, _ = create_topic(other)
        poll = fetch_request(topic, max_wait_ms=10_000)
        first = client.frame(poll, 12)
        second = client.frame(produce_request(topic, batch(b"mine")), 11)
        client.send_bytes(first + second[:10])
        eventually(lambda: broker.waiters(topic) == 1, "the long poll to wait")
        client.send_bytes(second[10:])
        eventually(lambda: broker.memory_used > len(second), "the rest to arrive")
        produce(other, topic, batch(b"others"))
        answer = client.receive(poll, 12, correlation_id=client.correlation_id - 1)
        assert values_in(answer.responses[0].partitions[0].records) == [b"others"]
        written = client.receive(produce_request(topic, b""), 11).responses[0].partition_responses[0]
        assert (written.error_code, written.base_offset) == (E.NONE, 1)


def test_a_client_that_sends_too_many_requests_at_once_is_not_read_from_until_they_are_served(
    broker: RunningBroker,
) -> None:
    with broker.client() as client, broker.client() as other:
        topic, _ = create_topic(other)
        request = produce_request(topic, batch(b"a"))
        poll = fetch_request(topic, max_wait_ms=10_000)
        client.send_bytes(client.frame(poll, 12))
        first = client.correlation_id
        eventually(lambda: broker.waiters(topic) == 1, "the long poll to wait")
        count = QUEUED_FRAMES_MAX + 10
        client.send_bytes(b"".join(client.frame(request, 11) for _ in range(count)))
        produce(other, topic, batch(b"others"))
        client.receive(poll, 12, correlation_id=first)
        for number in range(1, count + 1):
            answer = client.receive(request, 11, correlation_id=first + number)
            assert answer.responses[0].partition_responses[0].base_offset == number
