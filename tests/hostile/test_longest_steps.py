"""Event loop steps: the code between two turns of the loop does not grow with the lists in a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.partitions.partition import READ_COMMITTED
from kwire.log.lookup import end_offset_of
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_offsets import (
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.produce_exchange import PRODUCED_ELEMENTS_MAX
from kwire.protocol.records import Record, encode_batch
from kwire.protocol.schema import ELEMENTS_MAX, schema_of
from kwire.server.apis import SERVED
from kwire.server.requests.api import Api
from tests.hostile.largest import Known, array_paths, long_request
from tests.log.support import NOW_MS, batch, marker
from tests.support.compiled import IS_COMPILED
from tests.support.loop_steps import LoopSteps
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(IS_COMPILED, reason="compiled code runs no lines")

ELEMENTS = 10_000
LINES_PER_MS = 20_000
"""Lines per millisecond: a line of Python takes about 50 ns."""
TURN_LINES = 6 * LINES_PER_MS
"""Lines of a turn: it takes 2 ms, and ends after the step in progress."""
LINES_MAX = TURN_LINES + 2 * LINES_PER_MS
QUICK = 4
"""Speed-up of the clock for requests with long lists. Their turns end after fewer lines, so that work that handles all
elements in one step exceeds the limit.
"""
ELEMENT_LINES_MAX = TURN_LINES // QUICK
STEPS_OF_SOME = {
    ApiKey.DELETE_GROUPS: 60_000,
    ApiKey.FETCH: 60_000,
    ApiKey.OFFSET_COMMIT: 60_000,
    ApiKey.OFFSET_DELETE: 60_000,
    ApiKey.TXN_OFFSET_COMMIT: 60_000,
    ApiKey.WRITE_TXN_MARKERS: 60_000,
}
"""Limits of APIs with a fixed number of elements in each step: longer steps, which do not grow with the request."""
PRODUCED_LINES_MAX = 100_000
"""Limit for Produce, decoded and answered in one step: 1,000 partitions of the 10,000 that a request may have."""
PARTITIONS = 500
ABORTS = 3000
"""Number of transactions whose comparison in one step would take about 400,000 lines."""
ANSWER_SECONDS = 120.0
"""Timeout: line counting makes the broker many times slower."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningBroker, Known]]:
    with RunningBroker(tmp_path_factory.mktemp("large")) as broker, broker.client() as client:
        names = [f"t{number}" for number in range(20)]
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        topics[0].num_partitions = PARTITIONS
        answer = client.ask(CreateTopicsRequest(topics=topics), 7)
        assert {topic.error_code for topic in answer.topics} == {0}
        yield broker, Known(tuple(names), tuple(topic.topic_id for topic in answer.topics), ("g",), PARTITIONS)


@pytest.mark.long
@pytest.mark.parametrize("api", SERVED, ids=[api.key.name for api in SERVED])
def test_a_step_does_not_grow_with_the_lists_of_a_request(large: tuple[RunningBroker, Known], api: Api) -> None:
    broker, known = large
    too_long: list[str] = []
    limit = STEPS_OF_SOME.get(api.key, ELEMENT_LINES_MAX) if api.key is not ApiKey.PRODUCE else PRODUCED_LINES_MAX
    elements = ELEMENTS * _elements_max(api) // ELEMENTS_MAX
    for path in array_paths(schema_of(api.request), api.max_version):
        for names in (known, None):
            request = long_request(api, path, elements, names)
            lines, culprits = longest_step(broker, request, api.max_version, limit=limit)
            if lines > limit:  # unrelated work of the broker may be part of this step
                lines, culprits = longest_step(broker, request, api.max_version, limit=limit)
            if lines > limit:
                what = "known" if names else "unknown"
                too_long.append(f"{'.'.join(path)} ({what}): {lines} lines, {culprits[0]}")
    assert not too_long


def test_a_step_does_not_grow_with_the_aborted_transactions_of_a_segment(
    large: tuple[RunningBroker, Known],
) -> None:
    """The first read_committed fetch after a start waits until the transactions were compared with the log."""
    broker, known = large
    topic = known.topics[1]
    ends = broker.call(lambda: _abort_many(broker, topic))
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=64 * 1024)
    request = FetchRequest(
        isolation_level=READ_COMMITTED, topics=[FetchTopic(topic=topic, partitions=[partition])], max_wait_ms=0
    )
    lines, culprits = longest_step(broker, request, 12)
    assert lines < LINES_MAX, culprits
    with broker.client() as client:
        read = client.ask(request, 12).responses[0].partitions[0]
    expected = range(0, end_offset_of(bytes(read.records)), 2)
    assert [each.first_offset for each in read.aborted_transactions] == list(expected)
    assert len(expected) < ends


@pytest.mark.parametrize(("count", "batches"), [(20, 1000), (300, 100)], ids=["few", "many"])
def test_a_step_does_not_grow_with_the_batches_that_a_fetch_verifies(tmp_path: Path, count: int, batches: int) -> None:
    """The first fetches after a start return a part of the data at once, even if it is less than min.bytes."""
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        created = CreatableTopic(name="t", num_partitions=count, replication_factor=1)
        assert client.ask(CreateTopicsRequest(topics=[created]), 7).topics[0].error_code == 0
        broker.call(lambda: _append_many(broker, "t", count, batches))
    ends = [0] * count
    with RunningBroker(tmp_path) as broker:
        while min(ends) < batches:
            before = sum(ends)
            request = _fetch_rest("t", ends, batches)
            lines, culprits = longest_step(broker, request, 12)
            assert lines < LINES_MAX, culprits
            with broker.client() as client:
                answer = client.ask(request, 12)
            for partition in answer.responses[0].partitions:
                if partition.records:
                    ends[partition.partition_index] = end_offset_of(bytes(partition.records))
            assert sum(ends) > before
    assert ends == [batches] * count


@pytest.mark.parametrize("kind", ["fetch", "largest", "timestamp"])
def test_a_step_does_not_grow_with_the_batches_of_a_segment_without_an_index(tmp_path: Path, kind: str) -> None:
    """The first reader waits until the index has been rebuilt."""
    count, segments = 10_000, 2
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        created = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        assert client.ask(CreateTopicsRequest(topics=[created]), 7).topics[0].error_code == 0
        for _ in range(segments):
            broker.call(lambda: _append_many(broker, "t", 1, count))
            broker.call(broker.server.services.partitions.find("t", 0).log.roll)
    for path in tmp_path.glob("t-0/*.index"):
        path.unlink()
    offset = segments * count - 10
    fetched = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=offset)])]
    fetched[0].partitions[0].partition_max_bytes = 1
    timestamp = MAX_TIMESTAMP if kind == "largest" else NOW_MS
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    request: FetchRequest | ListOffsetsRequest = ListOffsetsRequest(topics=[asked])
    if kind == "fetch":
        request = FetchRequest(max_wait_ms=0, max_bytes=1000, topics=fetched)
    with RunningBroker(tmp_path) as broker:
        version = 12 if isinstance(request, FetchRequest) else 7
        lines, culprits = longest_step(broker, request, version)
        assert lines < LINES_MAX, culprits
        with broker.client() as client:
            answer = client.ask(request, version)
    if isinstance(request, FetchRequest):
        assert end_offset_of(bytes(answer.responses[0].partitions[0].records)) == offset + 1
    else:
        assert answer.topics[0].partitions[0].offset == 0


def _append_many(broker: RunningBroker, topic: str, count: int, batches: int) -> None:
    for index in range(count):
        partition = broker.server.services.partitions.find(topic, index)
        for _ in range(batches):
            partition.append(batch(b"v"), -1)


def _fetch_rest(topic: str, offsets: list[int], end: int) -> FetchRequest:
    """Return a fetch of all batches up to an end, with a wait of ten minutes."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in enumerate(offsets)
    ]
    size = sum(end - offset for offset in offsets) * len(batch(b"v"))
    topics = [FetchTopic(topic=topic, partitions=partitions)]
    return FetchRequest(max_wait_ms=600_000, min_bytes=size, max_bytes=50 * 1024 * 1024, topics=topics)


def test_a_step_does_not_grow_with_the_records_of_many_batches(large: tuple[RunningBroker, Known]) -> None:
    """Each batch is short, but the handler walks over all their records."""
    broker, known = large
    records = [Record(key=b"k" * (number % 7), value=b"v", timestamp=NOW_MS + number % 3) for number in range(1000)]
    produced = [PartitionProduceData(index=index, records=bytes(encode_batch(records))) for index in range(60)]
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=known.topics[0], partition_data=produced)]
    )
    lines, culprits = longest_step(broker, request, 9)
    assert lines < LINES_MAX, culprits


def test_a_step_does_not_grow_with_the_offsets_of_a_transaction(large: tuple[RunningBroker, Known]) -> None:
    """All offsets are valid, because invalid ones are rejected early."""
    broker, known = large
    with broker.client() as client:
        begin = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["committing"]), 4)
        while (begun := client.ask(begin, 4)).error_code:
            assert begun.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        producer = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
        add = AddOffsetsToTxnRequest(transactional_id="x", group_id="committing", **producer)
        eventually(lambda: client.ask(add, 3).error_code == 0, "the group is in the transaction")
    partitions = [TxnOffsetCommitRequestPartition(partition_index=index) for index in range(PARTITIONS)]
    topics = [TxnOffsetCommitRequestTopic(name=known.topics[0], partitions=partitions)] * (ELEMENTS // PARTITIONS)
    request = TxnOffsetCommitRequest(transactional_id="x", group_id="committing", topics=topics, **producer)
    lines, culprits = longest_step(broker, request, 3)
    assert lines < LINES_MAX, culprits
    with broker.client() as client:
        answer = client.ask(request, 3)
        assert {each.error_code for topic in answer.topics for each in topic.partitions} == {0}


def _abort_many(broker: RunningBroker, topic: str) -> int:
    """Abort many transactions and return the log end; as after a start, the transaction index is not yet compared."""
    partition = broker.server.services.partitions.find(topic, 0)
    for number in range(ABORTS):
        sent = batch(b"v", producer_id=number, producer_epoch=0, sequence=0, transactional=True)
        partition.append(sent, -1)
        partition.append_marker(bytes(marker(number, 0, commit=False)), number, 0, transaction_version=0)
    index = partition.log.segments.active.transaction_index
    index.is_checked = False
    return partition.log.log_end_offset


def _elements_max(api: Api) -> int:
    return PRODUCED_ELEMENTS_MAX if api.key is ApiKey.PRODUCE else schema_of(api.request).elements_max


def longest_step(
    broker: RunningBroker, request: Any, version: int, *, client_id: str = "raw", limit: int = LINES_MAX
) -> tuple[int, list[str]]:
    """Return the largest number of lines that the loop runs in one step for a request, and the locations of the excess.

    The duration of a turn is a fixed part of the limit.
    """
    lines_per_ms = LINES_PER_MS * limit / LINES_MAX
    steps = LoopSteps(limit)
    turns = broker.server._node.runtime.turns
    with broker.client(client_id=client_id) as client:
        frame = client.frame(request, version)
        client.socket.settimeout(ANSWER_SECONDS)
        broker.call(steps.begin)
        try:
            # Shares of the loop are measured in lines of code, so that the machine does not matter.
            turns._now_ms = lambda: steps.lines / lines_per_ms
            client.send_bytes(frame)
            with suppress(ConnectionError):  # rejected because of its contents
                client.receive_frame()
        finally:
            broker.call(steps.end)
            turns._now_ms = broker.server._node.clock.monotonic_ms
    return steps.longest, steps.culprits
