"""Helpers that build the requests that most tests need."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.protocol.compression import Codec
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.protocol.messages.fetch import FetchForgottenTopic, FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import Record, decode_all, encode_batch
from tests.support.raw_client import NO_ID, RawClient

NOW_MS = 1_700_000_000_000
_numbers = itertools.count(1)


def unique(prefix: str = "topic") -> str:
    """Return a topic name that no other test in this process uses."""
    return f"{prefix}-{next(_numbers)}"


def batch(
    *values: bytes,
    timestamp: int = NOW_MS,
    key: bytes | None = b"k",
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """Return one batch with a record for each value and increasing timestamps."""
    records = [Record(key=key, value=value, timestamp=timestamp + index) for index, value in enumerate(values)]
    return bytes(
        encode_batch(
            records, codec=codec, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence
        )
    )


def produce_request(
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    topic_id: UUID = NO_ID,
    timeout_ms: int = 5000,
) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)],
    )


def produce(client: RawClient, topic: str, records: bytes | None, *, version: int = 11, **more: Any) -> Any:
    """Produce to one partition and return its response."""
    answer = client.ask(produce_request(topic, records, **more), version)
    return answer.responses[0].partition_responses[0]


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    topic_id: UUID = NO_ID,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 30,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    rack_id: str = "",
    forgotten: list[FetchForgottenTopic] | None = None,
) -> FetchRequest:
    asked = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[asked])] if topic or topic_id.int else [],
        forgotten_topics_data=forgotten or [],
        rack_id=rack_id,
    )


def fetch(client: RawClient, topic: str, offset: int = 0, *, version: int = 12, **more: Any) -> Any:
    """Fetch one partition and return its response."""
    answer = client.ask(fetch_request(topic, offset, **more), version)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


def values_in(records: bytes) -> list[bytes | None]:
    return [record.value for record in decode_all(records)]


def create_request(name: str, partitions: int = 1, *, replicas: int = 1, **configs: object) -> CreateTopicsRequest:
    """Return a CreateTopics request; config names are written with underscores."""
    named = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=named)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def create_topic(
    client: RawClient, partitions: int = 1, *, name: str = "", replicas: int = 1, **configs: object
) -> tuple[str, UUID]:
    """Create a topic and return its (name, id)."""
    name = name or unique()
    (answer,) = client.ask(create_request(name, partitions, replicas=replicas, **configs), 7).topics
    assert answer.error_code == 0, answer
    return name, answer.topic_id


def list_offset(
    client: RawClient, topic: str, timestamp: int, *, version: int = 10, epoch: int = -1, **more: Any
) -> Any:
    """List an offset of one partition and return its response."""
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])], **more)
    return client.ask(request, version).topics[0].partitions[0]


def group_configs(group: str, configs: Mapping[str, object]) -> IncrementalAlterConfigsRequest:
    """Return the request that sets configurations of a group."""
    entries = [IncrementalAlterConfigsAlterableConfig(name=name, value=str(value)) for name, value in configs.items()]
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name=group, configs=entries
    )
    return IncrementalAlterConfigsRequest(resources=[resource])
