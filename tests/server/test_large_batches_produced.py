"""Batches whose records must all be validated: a few records at a time, and in the order of their requests."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import pytest

from kwire.log.batch_opening import PACKED_AT_ONCE_BYTES_MAX
from kwire.log.batch_validation import AppendOrigin, ValidatedBatch, needs_steps, prepare_batch, validate_in_steps
from kwire.log.config import LogConfig
from kwire.log.record_walk import PLAIN_RECORDS_MAX, RECORDS_AT_ONCE
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.log.searching import InPlace, through
from tests.log.support import batch as transactional_batch
from tests.server.test_transactions import add, init
from tests.support.compiled import IS_COMPILED
from tests.support.raw_client import RawClient
from tests.support.requests import NOW_MS, batch, create_topic, fetch, produce, produce_request, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

MANY = PLAIN_RECORDS_MAX + 1
COMPACTED = LogConfig(cleanup_policy=("compact",))


def many_records(count: int = MANY, codec: Codec = Codec.NONE, key: bytes | None = b"k") -> bytes:
    return batch(*[b"%d" % number for number in range(count)], codec=codec, key=key)


@pytest.mark.parametrize(
    ("data", "config", "is_long"),
    [
        (batch(b"v"), LogConfig(), False),
        (many_records(), LogConfig(), True),
        (many_records(codec=Codec.ZSTD), LogConfig(), False),
        (batch(b"v", codec=Codec.ZSTD), COMPACTED, True),
        (batch(b"v", codec=Codec.ZSTD), LogConfig(compression_type="gzip"), True),
        (b"short", LogConfig(), False),
    ],
)
def test_needs_steps_depends_on_records_and_config(data: bytes, config: LogConfig, is_long: bool) -> None:
    assert needs_steps(data, config, NOW_MS) is is_long


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_records_are_checked_a_few_at_a_time(codec: Codec) -> None:
    place = InPlace()
    turns: list[bool] = []
    steps = validate_in_steps(many_records(codec=codec), COMPACTED, NOW_MS, place)
    validated = through(steps, after_each=lambda: turns.append(place.is_acquired))
    assert isinstance(validated, ValidatedBatch)
    assert len(turns) > MANY // RECORDS_AT_ONCE
    assert all(turns), "one such batch at a time"
    assert not place.is_acquired


def test_a_record_without_a_key_is_rejected_as_at_once() -> None:
    place = InPlace()
    rejection = through(validate_in_steps(many_records(key=None), COMPACTED, NOW_MS, place))
    assert isinstance(rejection, KafkaError)
    assert rejection.code is ErrorCode.INVALID_RECORD
    assert len(rejection.record_errors) == 100
    assert not place.is_acquired


def test_a_batch_that_decompresses_to_much_is_decompressed_by_a_worker() -> None:
    body = batch(bytes(3 << 20), codec=Codec.GZIP)
    place = InPlace()
    assert isinstance(through(validate_in_steps(body, COMPACTED, NOW_MS, place)), ValidatedBatch)
    too_large = batch(bytes(9 << 20), codec=Codec.GZIP)
    rejection = through(validate_in_steps(too_large, COMPACTED, NOW_MS, place))
    assert isinstance(rejection, KafkaError)
    assert rejection.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.fixture
def compacted(client: RawClient) -> Iterator[str]:
    topic, _ = create_topic(client, cleanup_policy="compact")
    yield topic


def test_requests_behind_a_long_one_are_appended_behind_it(client: RawClient, compacted: str) -> None:
    requests = [produce_request(compacted, many_records(codec=Codec.LZ4)), produce_request(compacted, batch(b"last"))]
    client.send_bytes(b"".join(client.frame(request, 9) for request in requests))
    last = client.correlation_id
    answers = [
        client.receive(request, 9, correlation_id=number).responses[0].partition_responses[0]
        for number, request in enumerate(requests, last - 1)
    ]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, MANY)]
    assert values_in(fetch(client, compacted, offset=MANY).records) == [b"last"]


def test_a_long_batch_returns_its_record_errors(client: RawClient, compacted: str) -> None:
    answer = produce(client, compacted, many_records(key=None))
    assert (answer.error_code, len(answer.record_errors)) == (ErrorCode.INVALID_RECORD, 100)
    assert produce(client, compacted, batch(b"v")).base_offset == 0


def test_a_long_batch_of_a_disconnected_client_is_appended(
    broker: RunningBroker, client: RawClient, compacted: str
) -> None:
    with broker.client() as other:
        other.send_bytes(other.frame(produce_request(compacted, many_records(codec=Codec.LZ4), acks=0), 9))
    partition = broker.server.services.partitions.find(compacted, 0)
    eventually(lambda: broker.call(lambda: partition.log.log_end_offset) == MANY, "all records are stored")


def test_log_append_time_is_set_after_the_validation_in_steps(client: RawClient) -> None:
    topic, _ = create_topic(client, message_timestamp_type="LogAppendTime")
    answer = produce(client, topic, many_records(codec=Codec.GZIP))
    assert answer.error_code == 0
    assert answer.log_append_time_ms > NOW_MS


class Place:
    """Holder of a broker's place for large batches."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self._batches: Any = broker.server.services.large_batches

    def __enter__(self) -> Self:
        self._broker.start(self._batches.acquire()).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.call(self._batches.release)

    def wait_for_one(self) -> None:
        eventually(lambda: self._broker.call(lambda: len(self._batches._place._waiters or ())) == 1, "a batch waits")


def test_a_batch_for_a_deleted_topic_is_not_appended_to_its_successor(broker: RunningBroker, client: RawClient) -> None:
    topic, topic_id = create_topic(client, cleanup_policy="compact")
    request = produce_request("", many_records(), topic_id=topic_id)
    with broker.client() as other:
        with Place(broker) as place:
            other.send_bytes(other.frame(request, 13))
            place.wait_for_one()
            client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
            _, new_id = create_topic(client, name=topic)
            assert new_id != topic_id
        answer = other.receive(request, 13).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(client, topic).high_watermark == 0


def test_a_batch_is_validated_again_after_a_config_change(broker: RunningBroker, client: RawClient) -> None:
    """A second check in a single step would block the event loop."""
    topic, _ = create_topic(client)
    request = produce_request(topic, many_records(key=None))
    with broker.client() as other:
        with Place(broker) as place:
            other.send_bytes(other.frame(request, 9))
            place.wait_for_one()
            partition = broker.server.services.partitions.find(topic, 0)
            config = replace(partition.log.config, cleanup_policy=("compact",))
            broker.call(lambda: partition.log.update_config(config))
        answer = other.receive(request, 9).responses[0].partition_responses[0]
    # The first check used the old config and found no error: only the second one requires keys.
    assert (answer.error_code, len(answer.record_errors)) == (ErrorCode.INVALID_RECORD, 100)


def test_a_batch_validated_for_another_config_is_not_appended() -> None:
    validated = through(validate_in_steps(many_records(), COMPACTED, NOW_MS, InPlace()))
    with pytest.raises(KafkaError) as rejection:
        prepare_batch(many_records(), LogConfig(), AppendOrigin.CLIENT, NOW_MS, validated)
    assert rejection.value.code is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.skipif(IS_COMPILED, reason="compiled generators do not show their locals")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_that_waits_for_the_worker_is_not_decompressed(codec: Codec) -> None:
    steps: Any = validate_in_steps(many_records(codec=codec), COMPACTED, NOW_MS, InPlace())
    assert next(steps) is not None, "it waits for the place"
    assert inspect.getgeneratorlocals(steps.gi_yieldfrom)["body"] is None
    steps.close()


def test_an_uncompressed_batch_is_compressed_by_a_worker(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client, compression_type="gzip")
    request = produce_request(topic, batch(bytes(2 * PACKED_AT_ONCE_BYTES_MAX)))
    with broker.client() as other:
        with Place(broker) as place:
            other.send_bytes(other.frame(request, 9))
            place.wait_for_one()
        assert other.receive(request, 9).responses[0].partition_responses[0].error_code == 0


def test_batches_of_a_partition_are_verified_in_their_order(client: RawClient) -> None:
    """The second batch is compressed again meanwhile, and batches that wait for verification must wait for it."""
    topic, _ = create_topic(client, compression_type="gzip")
    producer = init(client)
    add(client, producer, topic, 0)
    sent: dict[str, Any] = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transactional": True,
    }
    batches = [
        transactional_batch(b"first", sequence=0, codec=Codec.GZIP, **sent),
        transactional_batch(*[bytes(1000)] * 100, sequence=1, **sent),
    ]
    produced = [PartitionProduceData(index=0, records=bytes(each)) for each in batches]
    request = ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=produced)],
    )
    outcomes = client.ask(request, 9).responses[0].partition_responses
    assert [(each.error_code, each.base_offset) for each in outcomes] == [(0, 0), (0, 1)]
