"""A connection may have several requests in flight; responses come in order, also those after a waiting fetch."""

import pytest

from compat_tests.raw.peer import Peer, batch_of, offsets_in
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

LONG_WAIT_MS = 15_000


def waiting_fetch(topic, offset=0, min_bytes=1):
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=LONG_WAIT_MS, min_bytes=min_bytes, topics=topics)


@pytest.mark.short
def test_a_fetch_that_waits_is_answered_first_by_the_append_that_ends_its_wait(peer, topic, bootstrap):
    peer.create_topic(topic)
    requests = [(waiting_fetch(topic), 12), (ApiVersionsRequest(), 2), (MetadataRequest(topics=[]), 9)]
    for request, version in requests:
        peer.send(request, version)
    with Peer(bootstrap) as other:
        assert other.produce(topic, batch_of(3)).base_offset == 0
    fetched, versions, metadata = peer.receive_all(requests)
    assert offsets_in(fetched.responses[0].partitions[0].records) == [0, 1, 2]
    assert (versions.error_code, len(metadata.brokers)) == (0, 1)


def test_a_fetch_waits_for_its_least_bytes(peer, topic, bootstrap):
    peer.create_topic(topic)
    batch = bytes(batch_of(5))
    request = waiting_fetch(topic, min_bytes=3 * len(batch))
    peer.send(request, 12)
    with Peer(bootstrap) as other:
        for _ in range(3):
            other.produce(topic, batch)
    assert len(peer.receive(request, 12).responses[0].partitions[0].records) == 3 * len(batch)


def test_many_produces_sent_ahead_are_answered_and_stored_in_order(peer, topic):
    peer.create_topic(topic)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch_of(2)))])
        ],
    )
    for _ in range(50):
        peer.send(request, 9)
    answers = [each.responses[0].partition_responses[0] for each in peer.receive_all([(request, 9)] * 50)]
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, 2 * number) for number in range(50)]


def test_a_produce_without_acknowledgement_has_no_answer(peer, topic):
    peer.create_topic(topic)
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch_of(2)))])]
    peer.send(ProduceRequest(acks=0, timeout_ms=5000, topic_data=data), 9)
    assert peer.ask(ApiVersionsRequest(), 2).error_code == 0
    assert peer.fetch(topic, 0).high_watermark == 2
