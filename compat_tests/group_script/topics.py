"""Topics of a script, which grow and are deleted while the groups use them."""

import random
from typing import Any

from compat_tests.group_script.known import Known, Step
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import Record, encode_batch

PARTITIONS = {"apples": 1, "berries": 3, "cherries": 5, "dates": 2, "elders": 2, "figs": 4}
"""Topics that exist from the beginning. None is created later: its id would differ between the brokers."""
LASTING = ("apples", "berries", "cherries", "dates")
DELETED = ("elders", "figs")
CHANGELOGS = {f"streams-{number}-counts-changelog": PARTITIONS["berries"] for number in (1, 2)}
"""Internal topics of the streams groups. They exist, because a broker takes some time to create them."""
MISSING = "missing"
PARTITIONS_MAX = 8
TIMESTAMP_MS = 1_700_000_000_000
TIMEOUT_MS = 30_000


def any_topic(source: random.Random) -> str:
    return source.choice((*LASTING, *PARTITIONS, MISSING))


def delete(source: random.Random) -> Step:
    return _change(5, DeleteTopicsRequest(topic_names=[source.choice(DELETED)], timeout_ms=TIMEOUT_MS))


def grow(source: random.Random) -> Step:
    topic = CreatePartitionsTopic(
        name=source.choice(("dates", *DELETED)), count=source.randint(2, PARTITIONS_MAX), assignments=None
    )
    return _change(3, CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))


def _change(version: int, request: Any) -> Step:
    return Step(version=version, build=lambda known, source: request, changes_topics=True)


def produce(source: random.Random) -> Step:
    """Write a few records to one partition."""
    topic = source.choice(LASTING)
    partition = source.randrange(PARTITIONS[topic])
    values = [b"v" * source.randint(0, 20) for _ in range(source.choice((1, 2, 5, 20)))]
    batch = encode_batch([Record(value=value, timestamp=TIMESTAMP_MS) for value in values])

    def build(known: Known, source: random.Random) -> ProduceRequest:
        data = PartitionProduceData(index=partition, records=bytes(batch))
        return ProduceRequest(
            acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )

    return Step(version=9, build=build)
