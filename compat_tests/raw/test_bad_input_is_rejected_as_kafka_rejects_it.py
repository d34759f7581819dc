"""Invalid requests get Kafka's error code or a closed connection, and nothing is stored."""

import struct

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.raw.peer import Peer, batch_of, offsets_in
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import seal
from tests.support.raw_client import sized

ATTRIBUTES, MAGIC, LAST_OFFSET_DELTA, COUNT = 21, 16, 23, 57


def changed(offset, layout, value, *, resealed=True, **settings):
    """Return a batch of ten records with one header field overwritten."""
    batch = bytearray(batch_of(10, **settings))
    struct.pack_into(layout, batch, offset, value)
    if resealed:
        seal(batch, 0, len(batch))
    return batch


BAD_BATCHES = {
    "flipped-bit": (lambda: changed(COUNT + 8, ">B", 0xFF, resealed=False), ErrorCode.CORRUPT_MESSAGE),
    "wrong-count": (lambda: changed(COUNT, ">i", 9), ErrorCode.INVALID_RECORD),
    "wrong-last-offset": (lambda: changed(LAST_OFFSET_DELTA, ">i", 5), ErrorCode.INVALID_RECORD),
    "control-batch": (lambda: batch_of(1, control=True), ErrorCode.INVALID_RECORD),
    "two-batches": (lambda: batch_of(2) + batch_of(2, 2), ErrorCode.INVALID_RECORD),
    "no-batch": (lambda: b"", ErrorCode.INVALID_RECORD),
    "magic-3": (lambda: changed(MAGIC, ">b", 3, resealed=False), ErrorCode.CORRUPT_MESSAGE),
    "too-short": (lambda: batch_of(2)[:40], ErrorCode.INVALID_RECORD),
}


@pytest.mark.short
@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_is_rejected_and_not_stored(peer, topic, case):
    make, code = BAD_BATCHES[case]
    peer.create_topic(topic)
    answer = peer.produce(topic, make())
    assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
    assert peer.produce(topic, batch_of(1)).base_offset == 0


@pytest.mark.parametrize(
    ("api_key", "version"), [(999, 0), (-1, 0), (3, 99), (1, 3), (0, 99), (4, 0), (52, 0), (3, -1)]
)
def test_an_unknown_api_or_version_closes_the_connection(peer, api_key, version):
    peer.send_bytes(sized(peer.header(api_key, version, flexible=False)))
    assert peer.is_closed()


@pytest.mark.parametrize("size", [-1, 104_857_601, 2**31 - 1])
def test_a_frame_size_out_of_bounds_closes_the_connection(peer, size):
    peer.socket.sendall(struct.pack(">i", size))
    assert peer.is_closed()


@pytest.mark.parametrize(
    "body", [b"", b"\x00", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01\x00\x50", b"\x00\x00\x00\x01\xff\xff"]
)
def test_a_body_that_cannot_be_read_closes_the_connection(peer, body):
    peer.send_bytes(sized(peer.header(3, 1, flexible=False) + body))
    assert peer.is_closed()


@pytest.mark.short
def test_bad_input_does_not_affect_other_connections(peer, bootstrap):
    with Peer(bootstrap) as bad:
        bad.send_bytes(sized(b"\xff" * 50))
        assert bad.is_closed()
    assert peer.ask(ApiVersionsRequest(), 2).error_code == 0


def test_produce_to_unknown_topics_and_partitions_returns_an_error(peer, topic, unique):
    peer.create_topic(topic)
    assert peer.produce(unique("unknown"), batch_of(1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert peer.produce(topic, batch_of(1), partition=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert peer.produce(topic, batch_of(1), partition=-1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_an_impossible_acknowledgement_is_rejected(peer, topic, acks):
    peer.create_topic(topic)
    assert peer.produce(topic, batch_of(1), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert peer.fetch(topic, 0).high_watermark == 0


def test_valid_and_invalid_partitions_of_one_request_have_their_own_codes(peer, topic):
    peer.create_topic(topic, 2)
    good, bad = bytes(batch_of(3)), bytes(BAD_BATCHES["flipped-bit"][0]())
    parts = [PartitionProduceData(index=0, records=good), PartitionProduceData(index=1, records=bad)]
    request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=parts)])
    answers = {each.index: each for each in peer.ask(request, 9).responses[0].partition_responses}
    assert (answers[0].error_code, answers[0].base_offset) == (0, 0)
    assert (answers[1].error_code, answers[1].base_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)


@pytest.fixture
def producer_id(peer):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    return eventually(lambda: (got := peer.ask(request, 4)).error_code == 0 and got, "a producer id").producer_id


@pytest.mark.short
def test_sequences_are_held_in_order_and_repeats_are_answered_as_before(peer, topic, producer_id):
    peer.create_topic(topic)

    def send(sequence, epoch=0, count=2):
        batch = batch_of(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        answer = peer.produce(topic, batch)
        return answer.error_code, answer.base_offset

    assert [send(sequence) for sequence in (0, 2, 4)] == [(0, 0), (0, 2), (0, 4)]
    assert [send(sequence) for sequence in (0, 2, 4)] == [(0, 0), (0, 2), (0, 4)]
    assert send(8) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert [send(sequence)[0] for sequence in (6, 8, 10)] == [0, 0, 0]
    # The broker remembers five batches; an older one is out of order.
    assert send(2) == (0, 2)
    assert send(0) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(0, epoch=1) == (0, 12)
    assert send(14, epoch=0)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert offsets_in(peer.fetch(topic, 0).records) == list(range(14))


def test_the_first_sequence_of_an_unknown_producer_may_be_any(peer, topic, producer_id):
    peer.create_topic(topic)
    batch = batch_of(2, producer_id=producer_id, producer_epoch=0, base_sequence=40)
    assert peer.produce(topic, batch).error_code == 0


def test_sequences_wrap_around(peer, topic, producer_id):
    peer.create_topic(topic)
    for sequence, offset in ((2**31 - 2, 0), (1, 3)):
        batch = batch_of(3, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        answer = peer.produce(topic, batch)
        assert (answer.error_code, answer.base_offset) == (0, offset)
