"""Hand-written codec of Produce: it reads and writes the same bytes as the compiled codec of its messages."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwire.chunks import at_once
from kwire.protocol.codec import decode_prefix, encode
from kwire.protocol.error_codes import EncodeError, ProtocolError
from kwire.protocol.framing import encode_response
from kwire.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceLeaderIdAndEpoch,
    ProduceNodeEndpoint,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.protocol.produce_exchange import (
    FLEXIBLE_SINCE,
    LEADERS_SINCE,
    TOPIC_IDS_SINCE,
    ProducedPartition,
    ProducedTopic,
    ProduceExchange,
    exchange_decoder,
    exchange_framer,
    exchange_pieces_framer,
)
from kwire.protocol.schema import schema_of
from tests.protocol.strategies import values

NODE_ID = st.integers(0, 2**31 - 1)
VERSIONS = list(schema_of(ProduceRequest).versions)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


def encoded(value: object, version: int) -> bytes:
    out = bytearray()
    encode(value, version, out)
    return bytes(out)


def request_of(exchange: ProduceExchange, version: int) -> ProduceRequest:
    """Return the declared message with the same contents."""
    request = ProduceRequest(
        transactional_id=exchange.transactional_id, acks=exchange.acks, timeout_ms=exchange.timeout_ms
    )
    for topic in exchange.topics:
        data = TopicProduceData(
            partition_data=[PartitionProduceData(index=part.index, records=part.records) for part in topic.partitions]
        )
        if version >= TOPIC_IDS_SINCE:
            assert topic.topic_id is not None
            data.topic_id = topic.topic_id
        else:
            data.name = topic.name
        request.topic_data.append(data)
    return request


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_requests_are_read_as_declared(data: st.DataObject, version: int) -> None:
    request = data.draw(values(schema_of(ProduceRequest), version))
    frame = b"head" + encoded(request, version)
    exchange, position = exchange_decoder(version)(frame + b"tail", 4)
    assert position == len(frame)
    assert request_of(exchange, version) == request


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_answers_are_written_as_declared(data: st.DataObject, version: int) -> None:
    response = ProduceResponse(throttle_time_ms=data.draw(INT32))
    exchange = ProduceExchange(None, 1, 0)
    exchange.throttle_time_ms = response.throttle_time_ms
    for _ in range(data.draw(st.integers(0, 3))):
        name, topic_id = data.draw(st.text(max_size=20)), data.draw(st.uuids())
        produced = ProducedTopic(name, topic_id if version >= TOPIC_IDS_SINCE else None)
        for _ in range(data.draw(st.integers(0, 3))):
            partition = ProducedPartition(data.draw(INT32), None)
            partition.error_code = data.draw(st.integers(-1, 133))
            partition.base_offset, partition.log_append_time_ms = data.draw(INT64), data.draw(INT64)
            partition.log_start_offset = data.draw(INT64)
            partition.record_errors = data.draw(st.lists(st.tuples(INT32, st.none() | st.text(max_size=9)), max_size=3))
            partition.error_message = data.draw(st.none() | st.text(max_size=150))
            partition.current_leader = data.draw(st.none() | st.tuples(NODE_ID, INT32))
            produced.partitions.append(partition)
        exchange.topics.append(produced)
        response.responses.append(
            TopicProduceResponse(
                name=name,
                topic_id=topic_id,
                partition_responses=[answer_of(part, version) for part in produced.partitions],
            )
        )
    endpoints = st.tuples(NODE_ID, st.text(max_size=150), INT32, st.none() | st.text(max_size=9))
    exchange.node_endpoints = data.draw(st.lists(endpoints, max_size=3))
    if version >= LEADERS_SINCE:
        response.node_endpoints = [
            ProduceNodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in exchange.node_endpoints
        ]
    correlation_id = data.draw(INT32)
    (frame,) = exchange_framer(version)(correlation_id, exchange)
    assert at_once(exchange_pieces_framer(version)(correlation_id, exchange)) == [frame]
    assert frame == b"".join(encode_response(correlation_id, response, version))


def answer_of(partition: ProducedPartition, version: int) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(
        index=partition.index,
        error_code=partition.error_code,
        base_offset=partition.base_offset,
        log_append_time_ms=partition.log_append_time_ms,
        log_start_offset=partition.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in partition.record_errors
        ],
        error_message=partition.error_message,
    )
    if partition.current_leader is not None and version >= LEADERS_SINCE:
        leader_id, leader_epoch = partition.current_leader
        answer.current_leader = ProduceLeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_frames_give_the_same_result_with_both_decoders(version: int) -> None:
    """Both codecs reject the same frames, and decode the others to the same values."""
    random_source = random.Random(version)
    topic = TopicProduceData(partition_data=[PartitionProduceData(index=3, records=b"records"), PartitionProduceData()])
    if version < TOPIC_IDS_SINCE:
        topic.name = "topic"
    sound = encoded(ProduceRequest(transactional_id="id", acks=-1, timeout_ms=9, topic_data=[topic]), version)
    rejected = 0
    for _ in range(2_000):
        frame = bytearray(sound[: random_source.randrange(len(sound) + 1)] if random_source.random() < 0.3 else sound)
        for _ in range(random_source.randrange(4)):
            if frame:
                frame[random_source.randrange(len(frame))] = random_source.choice(
                    (0, 1, 2, 127, 128, 255, random_source.randrange(256))
                )
        try:
            request, end = decode_prefix(ProduceRequest, version, frame)
        except ProtocolError:
            rejected += 1
            with pytest.raises(ProtocolError):
                exchange_decoder(version)(bytes(frame), 0)
        else:
            exchange, position = exchange_decoder(version)(bytes(frame), 0)
            assert position == end
            assert request_of(exchange, version) == request
    assert 200 < rejected < 1_900


@pytest.mark.parametrize("version", [3, FLEXIBLE_SINCE])
def test_too_many_partitions_are_rejected_before_they_are_made(version: int) -> None:
    topics = [
        TopicProduceData(name="t", partition_data=[PartitionProduceData(index=i) for i in range(60_000)])
        for _ in range(2)
    ]
    with pytest.raises(ProtocolError, match="elements"):
        exchange_decoder(version)(encoded(ProduceRequest(topic_data=topics), version), 0)


@pytest.mark.parametrize("version", [8, FLEXIBLE_SINCE])
def test_an_error_message_that_is_too_long_is_an_encode_error(version: int) -> None:
    exchange = ProduceExchange(None, 1, 0)
    exchange.topics.append(ProducedTopic("t", None))
    exchange.topics[0].partitions.append(ProducedPartition(0, None))
    exchange.topics[0].partitions[0].error_message = "x" * 40_000
    with pytest.raises(EncodeError):
        exchange_framer(version)(1, exchange)
