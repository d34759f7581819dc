"""Attacks with requests that read and write records and look up offsets in partitions."""

import random
from functools import cache

from compat_tests.starvation.attack import MANY, SOME, TIMEOUT_MS, UNKNOWN, Attack
from compat_tests.starvation.packing import numbered_batch
from compat_tests.starvation.scene import COMPACTED, COMPACTED_PARTITIONS, FIRST, PACKED, PACKED_LAST_MS, now_ms
from kwire.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import Record, encode_batch

LARGE_BATCH_BYTES = 1_000_000
LARGE_BATCHES = 10
EARLIEST, MAX_TIMESTAMP = -2, -3
READ_BYTES = 55 * 1024 * 1024
"""Default of Kafka's fetch.max.bytes."""


def produce(topics):
    return ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=topics)


@cache
def small_records(total_bytes):
    """Return an uncompressed batch with as many records as fit: the broker inspects each record."""
    value = random.Random(1).randbytes(10)
    return bytes(encode_batch([Record(value=value, timestamp=now_ms())] * (total_bytes // 20)))


def produce_large(scene):
    """Return full batches of small records, one for each of some partitions."""
    data = [PartitionProduceData(index=0, records=small_records(LARGE_BATCH_BYTES))]
    return [(produce([TopicProduceData(name=name, partition_data=data) for name in scene.topics[:LARGE_BATCHES]]), 11)]


def produce_unpacked(scene):
    """Return batches for a compacted topic; the broker must decompress each to 8 MB to see the record keys."""
    batch = numbered_batch(800_000)
    data = [PartitionProduceData(index=index, records=batch) for index in range(COMPACTED_PARTITIONS)]
    return [(produce([TopicProduceData(name=COMPACTED, partition_data=data)]), 11)]


PRODUCED_MANY = 9_900
"""Partitions of a produce request; kwire limits a request to 10,000 elements."""


def produce_many(scene):
    data = [PartitionProduceData(index=index, records=small_records(20)) for index in range(PRODUCED_MANY)]
    return [(produce([TopicProduceData(name=FIRST, partition_data=data)]), 11)]


def fetch(topics, **settings):
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=READ_BYTES, topics=topics, **settings)


def fetched(index):
    return FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=READ_BYTES)


def fetch_many(scene):
    """Return a fetch, without a session, of partitions that do not exist."""
    partitions = [fetched(index + 1) for index in range(MANY)]
    return [(fetch([FetchTopic(topic=FIRST, partitions=partitions)]), 12)]


def fetch_sessions(scene):
    """Return a fetch that opens a new session of many partitions."""
    partitions = [fetched(index + 1) for index in range(MANY)]
    return [(fetch([FetchTopic(topic=FIRST, partitions=partitions)], session_epoch=0), 12)]


def fetch_all(scene):
    """Return a fetch of every topic's records from the start."""
    topics = [FetchTopic(topic=name, partitions=[fetched(0)]) for name in scene.topics]
    return [(fetch(topics), 12)]


def list_offsets(topics, version=7):
    return [(ListOffsetsRequest(replica_id=-1, topics=topics, timeout_ms=TIMEOUT_MS), version)]


def list_offsets_many(scene):
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=EARLIEST) for index in range(MANY)]
    return list_offsets([ListOffsetsTopic(name=FIRST, partitions=partitions)])


def list_offsets_all(scene):
    """Return a lookup of the record with the largest timestamp of every topic."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=MAX_TIMESTAMP)
    return list_offsets([ListOffsetsTopic(name=name, partitions=[partition]) for name in scene.topics])


def list_offsets_packed(scene):
    """Return a lookup by a timestamp that only the last of millions of records in a batch of a few kilobytes has."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=PACKED_LAST_MS)
    return list_offsets([ListOffsetsTopic(name=PACKED, partitions=[partition])])


def delete_records_many(scene):
    partitions = [DeleteRecordsPartition(partition_index=index + 1, offset=0) for index in range(MANY)]
    return [(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=FIRST, partitions=partitions)], timeout_ms=1000), 2)]


def delete_records_all(scene):
    topics = [
        DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
        for name in scene.topics
    ]
    return [(DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 2)]


def leader_epochs_many(scene):
    partitions = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(MANY)]
    return [(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=FIRST, partitions=partitions)]), 4)]


def leader_epochs_topics(scene):
    partition = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic=name, partitions=[partition]) for name in (*scene.topics, *UNKNOWN[:SOME])]
    return [(OffsetForLeaderEpochRequest(topics=topics), 4)]


def producers_many(scene):
    topics = [DescribeProducersTopicRequest(name=FIRST, partition_indexes=list(range(MANY)))]
    return [(DescribeProducersRequest(topics=topics), 0)]


ATTACKS = (
    Attack("Produce, full batches of small records", produce_large),
    Attack("Produce, compressed for a compacted topic", produce_unpacked, is_short=True),
    Attack("Produce, many partitions", produce_many),
    Attack("Fetch, many partitions", fetch_many, is_short=True),
    Attack("Fetch, many partitions in new sessions", fetch_sessions),
    Attack("Fetch, all topics", fetch_all),
    Attack("ListOffsets, many partitions", list_offsets_many),
    Attack("ListOffsets, largest timestamps of all topics", list_offsets_all),
    Attack("ListOffsets, timestamp in a packed batch", list_offsets_packed, is_short=True),
    Attack("DeleteRecords, many partitions", delete_records_many),
    Attack("DeleteRecords, all topics", delete_records_all),
    Attack("OffsetForLeaderEpoch, many partitions", leader_epochs_many),
    Attack("OffsetForLeaderEpoch, many topics", leader_epochs_topics),
    Attack("DescribeProducers, many partitions", producers_many),
)
