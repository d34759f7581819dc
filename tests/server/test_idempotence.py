"""Idempotent producers: InitProducerId, the window of five batches, and state that survives a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce, values_in
from tests.support.running import RunningBroker


def new_producer(client: RawClient, version: int = 5) -> int:
    answer = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    producer_id: int = answer.producer_id
    return producer_id


def send(client: RawClient, topic: str, producer: int, sequence: int, *values: bytes, epoch: int = 0) -> Any:
    records = batch(*(values or (b"%d" % sequence,)), producer_id=producer, producer_epoch=epoch, sequence=sequence)
    return produce(client, topic, records)


@pytest.mark.parametrize("version", range(6))
def test_ids_are_never_given_twice(client: RawClient, version: int) -> None:
    ids = [new_producer(client, version) for _ in range(5)]
    assert len(set(ids)) == 5


@pytest.mark.parametrize(
    ("fields", "version", "code"),
    [
        ({"producer_id": 5}, 3, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, 3, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, 0, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "t", "transaction_timeout_ms": 0}, 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "t", "transaction_timeout_ms": 10**9}, 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_invalid_init_producer_id_requests_are_rejected(
    client: RawClient, fields: dict[str, Any], version: int, code: ErrorCode
) -> None:
    given: dict[str, Any] = {"transactional_id": None, "transaction_timeout_ms": 1000} | fields
    answer = client.ask(InitProducerIdRequest(**given), version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


def test_five_batches_may_come_again(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = new_producer(client)
    for sequence in range(6):
        assert send(client, topic, producer, sequence).base_offset == sequence
    for sequence in (1, 3, 5):
        again = send(client, topic, producer, sequence)
        assert (again.error_code, again.base_offset) == (0, sequence)
    assert send(client, topic, producer, 0).error_code in (
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
    assert fetch(client, topic).high_watermark == 6


def test_a_gap_is_rejected(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = new_producer(client)
    send(client, topic, producer, 0)
    assert send(client, topic, producer, 2).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(client, topic, producer, 1).base_offset == 1


def test_an_epoch_fences_older_ones(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = new_producer(client)
    assert send(client, topic, producer, 0, epoch=1).base_offset == 0
    assert send(client, topic, producer, 1, epoch=0).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(client, topic, producer, 5, epoch=2).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(client, topic, producer, 0, epoch=2).base_offset == 1


def test_sequences_are_counted_per_partition(client: RawClient) -> None:
    topic, _ = create_topic(client, 2)
    producer = new_producer(client)
    for partition in (0, 1):
        records = batch(b"a", producer_id=producer, producer_epoch=0, sequence=0)
        assert produce(client, topic, records, partition=partition).base_offset == 0


def test_active_producers_are_described(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = new_producer(client)
    send(client, topic, producer, 0, b"a", b"b", b"c")
    asked = [
        DescribeProducersTopicRequest(name=topic, partition_indexes=[0, 7]),
        DescribeProducersTopicRequest(name="a/b", partition_indexes=[0]),
    ]
    first, second = client.ask(DescribeProducersRequest(topics=asked), 0).topics
    (known,) = first.partitions[0].active_producers
    assert (known.producer_id, known.producer_epoch, known.last_sequence) == (producer, 0, 2)
    assert first.partitions[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert second.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_sequences_survive_a_restart(data_dir: Path) -> None:
    with RunningBroker(data_dir) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        producer = new_producer(client)
        for sequence in range(3):
            send(client, topic, producer, sequence)
    with RunningBroker(data_dir) as broker, broker.client() as client:
        assert send(client, topic, producer, 2).base_offset == 2
        assert send(client, topic, producer, 4).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(client, topic, producer, 3).base_offset == 3
        assert new_producer(client) != producer
        assert values_in(fetch(client, topic).records) == [b"0", b"1", b"2", b"3"]
