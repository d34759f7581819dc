"""Memory of a request: freed after the response; no large object waits for the collection of reference cycles.

The command `kwire server` collects cycles rarely; an exception, or a future with callbacks, is easily part of a cycle.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

import kwire
from kwire.cluster.partitions.partition import Partition
from kwire.log.partition_log import PartitionLog
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages import alter_client_quotas as quotas
from kwire.protocol.messages import incremental_alter_configs as configs
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.server.apis import SERVED
from kwire.server.fetching.fetch import PARTITIONS_AT_ONCE
from tests.hostile.attack import Attack
from tests.hostile.frames import OPENED, REJECTED, TOPICS, Frames, Shot, bomb, frame_of
from tests.support.raw_client import RawClient, sized
from tests.support.requests import batch, create_topic, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

RECORD_BYTES = 800_000
GARBAGE_BYTES_MAX = 50_000


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.freeze()  # a collection examines only what the test makes, not all modules and earlier tests
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()


def cyclic_garbage_bytes(broker: RunningBroker) -> int:
    """Return the size of all bytes that only reference cycles hold."""
    broker.call(lambda: None)  # waits for the end of the loop turn that wrote the response
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    held = {id(each): len(each) for each in gc.get_referents(*gc.garbage) if isinstance(each, bytes | bytearray)}
    return sum(held.values())


def waiting_fetch(client: RawClient, topic: str, partitions: int) -> FetchRequest:
    asked = [FetchPartition(partition=index, partition_max_bytes=2 * RECORD_BYTES) for index in range(partitions)]
    return FetchRequest(
        max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 30, topics=[FetchTopic(topic=topic, partitions=asked)]
    )


@pytest.mark.parametrize("partitions", [1, PARTITIONS_AT_ONCE + 10])
def test_a_waiting_fetch_leaves_no_cyclic_garbage(
    broker: RunningBroker, client: RawClient, partitions: int, no_collections: None
) -> None:
    topic, _ = create_topic(client, partitions)
    partition = broker.call(lambda: broker.server.services.partitions.find(topic, 0))
    with broker.client() as consumer:
        request = waiting_fetch(consumer, topic, partitions)
        consumer.send_bytes(consumer.frame(request, 12))
        eventually(lambda: broker.call(lambda: len(partition._waiters)) > 0, "the fetch waits")
        produce(client, topic, batch(bytes(RECORD_BYTES)))
        answer = consumer.receive(request, 12).responses[0].partitions[0]
        assert len(answer.records) > RECORD_BYTES
        del answer
    assert cyclic_garbage_bytes(broker) < GARBAGE_BYTES_MAX


def rejected(client: RawClient, topic: str) -> None:
    without_key = batch(bytes(8 * RECORD_BYTES), key=None, codec=Codec.ZSTD)
    assert produce(client, topic, without_key).error_code == ErrorCode.INVALID_RECORD


def stored(client: RawClient, topic: str) -> None:
    assert produce(client, topic, batch(bytes(8 * RECORD_BYTES), codec=Codec.ZSTD)).error_code == 0


def too_large(client: RawClient, topic: str) -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        assert produce(client, topic, bomb(codec)).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("send", [rejected, stored, too_large])
def test_a_validated_batch_leaves_no_cyclic_garbage(
    broker: RunningBroker, client: RawClient, send: Callable[[RawClient, str], None], no_collections: None
) -> None:
    measure_clients(client)
    topic, _ = create_topic(client, cleanup_policy="compact")
    send(client, topic)
    assert cyclic_garbage_bytes(broker) < GARBAGE_BYTES_MAX


def measure_clients(client: RawClient) -> None:
    """Set a default quota: from then on, the time of each request is measured."""
    entity = quotas.AlterClientQuotasEntity(entity_type="client-id", entity_name=None)
    operation = quotas.AlterClientQuotasOperation(key="producer_byte_rate", value=1e12)
    request = quotas.AlterClientQuotasRequest(entries=[quotas.AlterClientQuotasEntry(entity=[entity], ops=[operation])])
    assert client.ask(request, 1).entries[0].error_code == ErrorCode.NONE


ELEMENTS = 500


def cyclic_objects(broker: RunningBroker) -> int:
    broker.call(lambda: None)
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    return len(gc.garbage)


def create_topics(names: list[str]) -> Any:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=0) for name in names])


def create_partitions(names: list[str]) -> Any:
    return CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name) for name in names])


def delete_topics(names: list[str]) -> Any:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])


def delete_groups(names: list[str]) -> Any:
    return DeleteGroupsRequest(groups_names=names)


def alter_topics(names: list[str]) -> Any:
    resource = configs.IncrementalAlterConfigsAlterConfigsResource
    return configs.IncrementalAlterConfigsRequest(resources=[resource(resource_type=2, resource_name=n) for n in names])


def alter_loggers(names: list[str]) -> Any:
    resource = configs.IncrementalAlterConfigsAlterConfigsResource
    changes = [[configs.IncrementalAlterConfigsAlterableConfig(name=name, config_operation=9)] for name in names]
    resources = [resource(resource_type=8, resource_name="0", configs=each) for each in changes]
    return configs.IncrementalAlterConfigsRequest(resources=resources)


def alter_quotas(names: list[str]) -> Any:
    entities = [quotas.AlterClientQuotasEntity(entity_type="user", entity_name=name) for name in names]
    operation = quotas.AlterClientQuotasOperation(key="unknown")
    entries = [quotas.AlterClientQuotasEntry(entity=[entity], ops=[operation]) for entity in entities]
    return quotas.AlterClientQuotasRequest(entries=entries)


@pytest.mark.parametrize(
    ("request_of", "version"),
    [
        (create_topics, 7),
        (create_partitions, 3),
        (delete_topics, 6),
        (delete_groups, 2),
        (alter_topics, 1),
        (alter_loggers, 1),
        (alter_quotas, 1),
    ],
)
def test_rejected_elements_leave_no_cyclic_garbage(
    broker: RunningBroker, client: RawClient, request_of: Callable[[list[str]], Any], version: int, no_collections: None
) -> None:
    """A stored exception references the frames that it passed, and these reference it: a cycle for each element."""
    request = request_of([f"rejected-{number}" for number in range(ELEMENTS)])
    client.ask(request, version)
    assert cyclic_objects(broker) < ELEMENTS


def test_a_deleted_topic_leaves_no_cyclic_garbage(
    broker: RunningBroker, client: RawClient, no_collections: None
) -> None:
    """Objects that survive a full collection are left out of the next hundred collections."""
    topic, _ = create_topic(client, 3)
    for index in range(3):
        produce(client, topic, batch(b"x"), partition=index)
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=60_000), 6)
    eventually(lambda: broker.call(lambda: broker.server.services.partitions.get(topic, 0) is None), "they are gone")
    cyclic_objects(broker)
    assert not [each for each in gc.garbage if isinstance(each, Partition | PartitionLog)]


SHOTS = 3000
SAMPLES = 3
SOURCES = Path(kwire.__file__).parent


def shots() -> Iterator[Shot]:
    """Yield valid frames of each API and version, then hostile ones."""
    random_source = random.Random(0)
    for api in SERVED:
        for version in range(api.min_version, api.max_version + 1):
            for _ in range(SAMPLES):
                yield Shot("valid", sized(frame_of(api, version, random_source)))
    frames = Frames(1)
    for number in range(SHOTS):
        yield frames.shot(number)


def exceptions_in_cycles(broker: RunningBroker) -> Counter[str]:
    """Return exceptions of the broker that only reference cycles hold, with the functions that they passed."""
    cyclic_objects(broker)
    found: Counter[str] = Counter()
    for each in gc.garbage:
        if isinstance(each, BaseException):
            codes = [frame.f_code for frame, _ in walk_tb(each.__traceback__)]
            names = [code.co_qualname for code in codes if Path(code.co_filename).is_relative_to(SOURCES)]
            found.update([f"{each!r}: {names}"] if names else [])
    return found


def test_hostile_frames_leave_no_exceptions_in_cycles(tmp_path: Path, no_collections: None) -> None:
    """An exception in a cycle keeps the variables of all its frames: a decompressed batch may have 8 MiB."""
    with RunningBroker(tmp_path, {"auto.create.topics.enable": "false"}) as broker, broker.client() as client:
        measure_clients(client)
        for name in (*TOPICS, REJECTED):
            create_topic(client, name=name)
        create_topic(client, name=OPENED, compression_type="gzip")
        asyncio.run(Attack(broker.bootstrap_server, shots()).run())
        eventually(lambda: broker.connection_count == 1, "the connections to be gone")
        assert exceptions_in_cycles(broker) == {}
