"""Client that sends any request at any version, and returns the complete response."""

from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import Record, decode_all, encode_batch
from tests.support.raw_client import NO_ID, RawClient


class Peer(RawClient):
    """Connection to a broker, with requests that many suites send."""

    def create_topic(self, name, partitions=1, **configs):
        """Create a topic, wait until every partition has a leader, and return its id."""
        named = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=named)
        (answer,) = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
        assert answer.error_code == 0, answer
        eventually(lambda: self.leaders(name) == [1] * partitions, "the leaders of the topic")
        eventually(lambda: set(self.start_errors(name, partitions)) == {0}, "the leaders to know their part")
        return answer.topic_id

    def leaders(self, name):
        return [each.leader_id for each in self.describe(name).partitions if each.error_code == 0]

    def start_errors(self, name, partitions):
        """Return the error of each partition from a ListOffsets request for its start."""
        wanted = [ListOffsetsPartition(partition_index=index, timestamp=-2) for index in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted)])
        return [each.error_code for each in self.ask(request, 7).topics[0].partitions]

    def describe(self, name, *, create=False, version=12):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=create)
        (topic,) = self.ask(request, version).topics
        return topic

    def produce(self, topic, batch, *, partition=0, acks=-1, version=11, topic_id=NO_ID):
        data = PartitionProduceData(index=partition, records=bytes(batch))
        topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])]
        answer = self.ask(ProduceRequest(acks=acks, timeout_ms=5000, topic_data=topics), version)
        return answer.responses[0].partition_responses[0]

    def fetch(self, topic, offset, *, version=12, topic_id=NO_ID, partition_max_bytes=1 << 20, **settings):
        """Fetch partition 0 without a session; return the partition's answer."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])]
        answer = self.ask(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics, **settings), version)
        assert answer.error_code == 0
        return answer.responses[0].partitions[0]


def batch_of(count, start=0, **settings):
    """Return one batch of records with increasing numbers and timestamps."""
    records = [
        Record(key=b"k", value=b"%d" % number, timestamp=FIRST_TIMESTAMP_MS + number * 10)
        for number in range(start, start + count)
    ]
    return encode_batch(records, **settings)


def offsets_in(records):
    return [each.offset for each in decode_all(records)]
