"""Setting flush.messages: a record is acknowledged and readable once it is durable, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.seams import ThreadWorkers
from kwire.server.network.connection_limits import LONG_REQUEST_BYTES
from tests.log.faults import FaultyDisk
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce, produce_request, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

T = TypeVar("T")


class GatedWorkers:
    """Threads whose calls wait while the gate is closed."""

    def __init__(self) -> None:
        self._workers = ThreadWorkers()
        self.gate: asyncio.Event | None = None
        self.calls = 0

    def shut(self) -> None:
        self.gate = asyncio.Event()

    def release(self) -> None:
        assert self.gate is not None
        self.gate.set()
        self.gate = None

    async def run(self, call: Callable[[], T]) -> T:
        if self.gate is not None:
            await self.gate.wait()
        self.calls += 1
        return await self._workers.run(call)

    def close(self) -> None:
        self._workers.close()


@pytest.fixture
def workers() -> GatedWorkers:
    return GatedWorkers()


@pytest.fixture
def broker(tmp_path: Path, workers: GatedWorkers, disk: FaultyDisk) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data", {"log.flush.interval.messages": "1"}, workers=workers, disk=disk) as running:
        yield running


def send(client: RawClient, topic: str, records: bytes) -> int:
    """Send a produce request and return its correlation id."""
    client.send_bytes(client.frame(produce_request(topic, records), 11))
    return client.correlation_id


def receive(client: RawClient, topic: str, correlation_id: int) -> Any:
    """Return the response of one partition."""
    answer = client.receive(produce_request(topic, b""), 11, correlation_id=correlation_id)
    return answer.responses[0].partition_responses[0]


def test_a_produce_response_follows_the_fsync(client: RawClient, disk: FaultyDisk) -> None:
    topic, _ = create_topic(client)
    disk.operations.clear()
    assert produce(client, topic, batch(b"a")).base_offset == 0
    ours = [operation for operation, path in disk.operations if f"{topic}-0" in path and path.endswith(".log")]
    assert ours == ["append", "fsync"]


def test_unacknowledged_records_are_not_fetched(
    broker: RunningBroker, client: RawClient, workers: GatedWorkers
) -> None:
    topic, _ = create_topic(client)
    broker.call(workers.shut)
    sent = [send(client, topic, batch(value)) for value in (b"a", b"b", b"c")]
    with broker.client() as reader:
        partition: Any = broker.server.services.partitions.find(topic, 0)
        eventually(lambda: partition.log.log_end_offset == 3, "three appends")
        found = fetch(reader, topic)
        assert (found.high_watermark, found.records) == (0, b"")
        broker.call(workers.release)
        for offset, correlation_id in enumerate(sent):
            answer = receive(client, topic, correlation_id)
            assert (answer.error_code, answer.base_offset) == (0, offset)
        assert values_in(fetch(reader, topic).records) == [b"a", b"b", b"c"]


def test_a_repeated_batch_waits_for_the_first(broker: RunningBroker, client: RawClient, workers: GatedWorkers) -> None:
    topic, _ = create_topic(client)
    broker.call(workers.shut)
    repeated = batch(b"a", producer_id=7, producer_epoch=0, sequence=0)
    sent = [send(client, topic, repeated) for _ in range(2)]
    partition: Any = broker.server.services.partitions.find(topic, 0)
    eventually(lambda: broker.call(lambda: len(partition._waiters)) == 2, "two that wait")
    broker.call(workers.release)
    for correlation_id in sent:
        answer = receive(client, topic, correlation_id)
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert partition.log.log_end_offset == 1


def test_a_produce_request_fails_when_its_topic_is_deleted_during_the_fsync(
    broker: RunningBroker, client: RawClient, workers: GatedWorkers
) -> None:
    topic, _ = create_topic(client)
    partitions: Any = broker.server.services.partitions
    partition = partitions.find(topic, 0)
    broker.call(workers.shut)
    correlation_id = send(client, topic, batch(b"a"))
    eventually(lambda: partition.log.log_end_offset == 1, "an append")
    # The metadata log's flush is held as well, so the test removes the topic as the deletion will do after the flush.
    broker.call(lambda: partitions._remove(broker.server.services.image.topics[topic]))
    answer = receive(client, topic, correlation_id)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    broker.call(workers.release)
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)


def test_a_client_that_disconnects_during_the_fsync_leaves_no_waiter(
    broker: RunningBroker, client: RawClient, workers: GatedWorkers
) -> None:
    topic, _ = create_topic(client)
    partition: Any = broker.server.services.partitions.find(topic, 0)
    broker.call(workers.shut)
    with broker.client() as leaving:
        send(leaving, topic, batch(b"a"))
        eventually(lambda: broker.call(lambda: len(partition._waiters)) == 1, "one that waits")
    eventually(lambda: broker.call(lambda: len(partition._waiters)) == 0, "no waiter is left")
    broker.call(workers.release)
    eventually(lambda: partition.high_watermark == 1, "the flush")
    assert values_in(fetch(client, topic).records) == [b"a"]


def test_committed_offsets_are_durable_too(client: RawClient, disk: FaultyDisk) -> None:
    topic, _ = create_topic(client)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)])
    client.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
    eventually(lambda: client.ask(request, 8).topics[0].partitions[0].error_code == 0, "a coordinator")
    disk.operations.clear()
    assert client.ask(request, 8).topics[0].partitions[0].error_code == 0
    ours = [operation for operation, path in disk.operations if "__consumer_offsets" in path and path.endswith(".log")]
    assert ours == ["append", "fsync"]


def test_a_long_produce_response_keeps_the_order_of_the_connection(client: RawClient) -> None:
    """The response is long enough to be built in steps, while later requests of the connection are already served."""
    topic, _ = create_topic(client)
    asked = [PartitionProduceData(index=0, records=bytes(batch(b"a")))]
    asked += [PartitionProduceData(index=index, records=None) for index in range(1, 700)]
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=asked)])
    frame = client.frame(request, 9)
    assert len(frame) < LONG_REQUEST_BYTES
    client.send_bytes(frame)
    first = client.correlation_id
    second = send(client, topic, batch(b"b"))
    answered = client.receive(request, 9, correlation_id=first).responses[0].partition_responses
    assert [each.base_offset for each in answered if each.error_code == 0] == [0]
    assert len(answered) == 700
    assert receive(client, topic, second).base_offset == 1
