"""Produce and Fetch: records stored and read back, limits, epochs, and each error."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.records import iterate_headers
from tests.support.raw_client import NO_ID, RawClient
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


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_at_every_version(client: RawClient, version: int) -> None:
    topic, topic_id = create_topic(client)
    named = {"topic_id": topic_id} if version >= 13 else {}
    for base in (0, 2):
        answer = produce(client, topic, batch(b"a", b"b"), version=version, **named)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, base, -1)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert values_in(fetch(client, topic).records) == [b"a", b"b"] * 2


def test_a_fetch_is_answered_in_the_order_of_its_partitions(client: RawClient) -> None:
    """The order decides which partitions share max.bytes: a consumer may list partitions of a topic before and after
    others.
    """
    first, _ = create_topic(client, 2)
    second, _ = create_topic(client, 1)
    request = fetch_request(first, partition=1)
    request.topics += fetch_request(second).topics + fetch_request(first, partition=0).topics
    answer = client.ask(request, 12)
    reported = [(topic.topic, each.partition_index) for topic in answer.responses for each in topic.partitions]
    assert reported == [(first, 1), (second, 0), (first, 0)]


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_at_every_version(client: RawClient, version: int) -> None:
    topic, topic_id = create_topic(client)
    produce(client, topic, batch(b"a", b"b"))
    answer = fetch(client, topic, 1, version=version, topic_id=topic_id if version >= 13 else NO_ID)
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 2, 2)
    assert values_in(answer.records) == [b"a", b"b"], "a fetch inside a batch gets the whole batch"


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_comes_back_as_it_was_sent(client: RawClient, codec: Codec) -> None:
    topic, _ = create_topic(client)
    sent = batch(b"x" * 1000, b"y" * 1000, codec=codec)
    assert produce(client, topic, sent).error_code == 0
    received = fetch(client, topic).records
    assert received[16:] == sent[16:], "only base offset and leader epoch are the broker's"


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_invalid_acks_are_rejected(client: RawClient, acks: int) -> None:
    topic, _ = create_topic(client)
    assert produce(client, topic, batch(b"a"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert fetch(client, topic).high_watermark == 0


def test_produce_and_fetch_reject_unknown_topics_and_partitions(client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert produce(client, "never-made", batch(b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for partition in (1, -1):
        answer = produce(client, topic, batch(b"a"), partition=partition)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert fetch(client, topic, partition=partition).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown_id = UUID(int=12345)
    answer = produce(client, "", batch(b"a"), version=13, topic_id=unknown_id)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(client, "", version=13, topic_id=unknown_id).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def corrupted(position: int, value: bytes) -> bytes:
    data = bytearray(batch(b"a", b"b"))
    data[position : position + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
        (corrupted(17, b"\xff\xff\xff\xff"), ErrorCode.CORRUPT_MESSAGE),  # CRC
        (batch(b"a")[:-1], ErrorCode.INVALID_RECORD),
        (batch(b"a")[:30], ErrorCode.INVALID_RECORD),
        (batch(b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(b"a", timestamp=NOW_MS * 1000), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_invalid_records_are_rejected(client: RawClient, records: bytes | None, code: ErrorCode) -> None:
    topic, _ = create_topic(client)
    answer = produce(client, topic, records)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert fetch(client, topic).high_watermark == 0
    assert produce(client, topic, batch(b"good")).base_offset == 0


def test_a_record_without_a_key_is_rejected_where_keys_decide(client: RawClient) -> None:
    topic, _ = create_topic(client, cleanup_policy="compact")
    answer = produce(client, topic, batch(b"a", key=None))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0]


def test_log_append_time_is_returned_and_stored(client: RawClient) -> None:
    topic, _ = create_topic(client, message_timestamp_type="LogAppendTime")
    answer = produce(client, topic, batch(b"a"))
    assert answer.log_append_time_ms > NOW_MS
    ((_, header),) = iterate_headers(fetch(client, topic).records)
    assert header.max_timestamp == answer.log_append_time_ms


def test_min_insync_replicas_is_capped_by_the_replication_factor(client: RawClient) -> None:
    topic, _ = create_topic(client, min_insync_replicas=2)
    assert produce(client, topic, batch(b"a")).error_code == 0
    assert produce(client, topic, batch(b"a"), acks=1).base_offset == 1


def test_internal_topics_are_not_for_producers(broker: RunningBroker, client: RawClient) -> None:
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    answer = produce(client, "__consumer_offsets", batch(b"a"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert produce(client, "__consumer_offsets", batch(b"a")[:12]).error_code == ErrorCode.INVALID_RECORD
    with broker.client(client_id="__admin_client") as admin:
        assert produce(admin, "__consumer_offsets", batch(b"a")).error_code == 0


def test_a_transactional_id_with_plain_batches_is_ignored(client: RawClient) -> None:
    topic, _ = create_topic(client)
    request = produce_request(topic, batch(b"a"))
    request.transactional_id = "t"
    assert isinstance(request, ProduceRequest)
    assert client.ask(request, 11).responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("offset", [-1, 3, 2**62])
def test_a_fetch_outside_the_log_returns_offset_out_of_range(client: RawClient, offset: int) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a", b"b"))
    answer = fetch(client, topic, offset)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert fetch(client, topic, 2).error_code == 0


def test_leader_epochs_are_checked(client: RawClient) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a"))
    assert fetch(client, topic, leader_epoch=0).error_code == 0
    assert fetch(client, topic, leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert list_offset(client, topic, -1, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_fetch_byte_limits_are_applied(client: RawClient) -> None:
    topic, _ = create_topic(client)
    size = len(batch(b"x" * 1000))
    for _ in range(5):
        produce(client, topic, batch(b"x" * 1000))

    def got(**limits: int) -> int:
        return len(fetch(client, topic, **limits).records)

    assert got() == 5 * size
    assert got(partition_max_bytes=2 * size) == 2 * size
    assert got(partition_max_bytes=3 * size - 1) == 2 * size
    assert got(max_bytes=2 * size) == 2 * size
    assert got(partition_max_bytes=1) == size, "the first batch comes whatever its size"
    assert got(max_bytes=1) == size
    assert got(partition_max_bytes=0) == size
    assert got(max_bytes=-1) == size


def test_only_the_first_partition_with_data_may_pass_the_limit(client: RawClient) -> None:
    topic, _ = create_topic(client, 3)
    size = len(batch(b"x" * 1000))
    for partition in (1, 2):
        produce(client, topic, batch(b"x" * 1000), partition=partition)
    request = fetch_request(topic, max_bytes=10)
    request.topics[0].partitions = [fetch_request(topic, partition=index).topics[0].partitions[0] for index in range(3)]
    answer = client.ask(request, 12).responses[0].partitions
    assert [len(each.records) for each in answer] == [0, size, 0]


def test_a_fetch_with_min_bytes_0_or_no_partitions_does_not_wait(client: RawClient) -> None:
    topic, _ = create_topic(client)
    answer = client.ask(fetch_request(topic, max_wait_ms=600_000, min_bytes=0), 12)
    assert answer.responses[0].partitions[0].records == b""
    empty = client.ask(fetch_request("", max_wait_ms=600_000), 12)
    assert (empty.error_code, empty.responses) == (0, [])


def test_an_error_ends_the_wait_at_once(client: RawClient) -> None:
    answer = client.ask(fetch_request("never-made", max_wait_ms=600_000), 12)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleting_a_topic_wakes_its_readers(broker: RunningBroker, client: RawClient) -> None:
    topic, topic_id = create_topic(client)
    poll = fetch_request("", topic_id=topic_id, max_wait_ms=600_000)
    with broker.client() as other:
        client.send_bytes(client.frame(poll, 13))
        eventually(lambda: broker.waiters(topic) == 1, "the fetch to wait")
        other.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
        answer = client.receive(poll, 13).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_recreated_topic_has_another_id(client: RawClient) -> None:
    topic, old_id = create_topic(client)
    produce(client, topic, batch(b"old"))
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
    _, new_id = create_topic(client, name=topic)
    assert new_id != old_id
    assert fetch(client, "", version=13, topic_id=old_id).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(client, "", batch(b"x"), version=13, topic_id=old_id).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(client, "", version=13, topic_id=new_id).high_watermark == 0


def test_followers_are_not_served_by_a_cluster_of_one(client: RawClient) -> None:
    topic, _ = create_topic(client)
    request = fetch_request(topic)
    request.replica_id = 2
    answer = client.ask(request, 12).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_without_a_replica_is_rejected_before_the_logs_are_compared(client: RawClient) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a", b"b"))
    request = fetch_request(topic, offset=1, leader_epoch=0, last_fetched_epoch=5)
    request.replica_id = 2
    answer = client.ask(request, 12).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def delete_records(client: RawClient, topic: str, offset: int, partition: int = 0, version: int = 2) -> tuple[int, int]:
    asked = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=asked)], timeout_ms=5000)
    answer = client.ask(request, version).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_are_deleted_from_the_front(client: RawClient, version: int) -> None:
    topic, _ = create_topic(client)
    for _ in range(3):
        produce(client, topic, batch(b"a", b"b"))
    assert delete_records(client, topic, 3, version=version) == (0, 3)
    assert delete_records(client, topic, 1, version=version) == (0, 3), "the start never goes back"
    assert fetch(client, topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    answer = fetch(client, topic, 3)
    assert (answer.log_start_offset, len(values_in(answer.records))) == (3, 4)
    assert delete_records(client, topic, 7, version=version) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_records(client, topic, -2, version=version) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_records(client, topic, -1, version=version) == (0, 6)
    assert list_offset(client, topic, -2).offset == 6
    assert delete_records(client, topic, 0, partition=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_records_of_some_topics_are_not_deleted(client: RawClient) -> None:
    compacted, _ = create_topic(client, cleanup_policy="compact")
    assert delete_records(client, compacted, 0) == (ErrorCode.POLICY_VIOLATION, -1)
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)  # creates the topic
    assert delete_records(client, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert delete_records(client, "never-made", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_records_of_a_topic_without_a_cleanup_policy_are_deleted(client: RawClient) -> None:
    topic, _ = create_topic(client, cleanup_policy="")
    produce(client, topic, batch(b"a", b"b"))
    assert delete_records(client, topic, 1) == (0, 1)


def epoch_end(
    client: RawClient, topic: str, epoch: int, *, current: int = -1, version: int = 4
) -> tuple[int, int, int]:
    asked = [OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)]
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=asked)])
    answer = client.ask(request, version).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
def test_offset_for_leader_epoch_at_every_version(client: RawClient, version: int) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a", b"b"))
    assert epoch_end(client, topic, 0, version=version) == (0, 0, 2)
    assert epoch_end(client, topic, 5, version=version) == (0, -1, -1)
    assert epoch_end(client, topic, 0, current=4, version=version)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert epoch_end(client, "never-made", 0, version=version)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_diverged_log_gets_the_diverging_epoch(client: RawClient) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a", b"b"))
    assert fetch(client, topic, 2, last_fetched_epoch=0).diverging_epoch.end_offset == -1
    answer = fetch(client, topic, 2, last_fetched_epoch=0, leader_epoch=0)
    assert answer.error_code == 0


def test_header_fields_of_a_stored_batch(client: RawClient) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a"))
    produce(client, topic, batch(b"b", b"c"))
    data = fetch(client, topic).records
    assert [header.base_offset for _, header in iterate_headers(data)] == [0, 1]
    assert all(header.partition_leader_epoch == 0 for _, header in iterate_headers(data))
    (size,) = struct.unpack_from(">i", data, 8)
    assert size == len(batch(b"a")) - 12
