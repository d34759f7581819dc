"""Pitfall 17: without quotas every response with a throttle time has 0."""

from compat_tests.raw.peer import batch_of
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def test_throttle_times_are_zero(peer, topic):
    peer.create_topic(topic)
    data = PartitionProduceData(index=0, records=bytes(batch_of(10)))
    produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    requests = [(produce, 9), (fetch, 12), (MetadataRequest(topics=[]), 9), (ApiVersionsRequest(), 2)]
    answers = [peer.ask(request, version) for _ in range(20) for request, version in requests]
    assert {each.throttle_time_ms for each in answers} == {0}
