"""Fetches of many partitions: each uses its own turns of the event loop, and waits like other fetches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.server.fetching.fetch import PARTITIONS_AT_ONCE
from kwire.server.fetching.fetch_sessions import FetchSessions
from kwire.server.requests.dispatch import ENCODED_AT_ONCE
from tests.support.compiled import replaces_methods
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, produce, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

COUNT = PARTITIONS_AT_ONCE + 1


def large(topic: str, session: tuple[int, int] = (0, -1), *, count: int = COUNT, max_wait_ms: int = 0) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(count)
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, partitions=partitions)] if count else [],
    )


def test_a_large_fetch_reads_waits_and_is_woken(data_dir: Path) -> None:
    with RunningBroker(data_dir) as broker, broker.client() as client, broker.client() as other:
        topic, _ = create_topic(client, COUNT)
        waiting = large(topic, max_wait_ms=600_000)
        client.send_bytes(client.frame(waiting, 12))
        eventually(lambda: broker.waiters(topic, COUNT - 1) == 1, "the fetch to wait")
        produce(other, topic, batch(b"a"))
        for answer in (client.receive(waiting, 12), client.ask(waiting, 12)):
            first, *rest = answer.responses[0].partitions
            assert values_in(first.records) == [b"a"]
            assert [len(each.records) for each in rest] == [0] * (COUNT - 1)
        assert broker.waiters(topic) == 0


def test_an_error_ends_the_wait_of_a_large_fetch(client: RawClient) -> None:
    answer = client.ask(large("never-made", max_wait_ms=600_000), 12)
    assert all(each.error_code for each in answer.responses[0].partitions)


@replaces_methods
def test_large_fetches_do_not_block_other_requests(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn, concluded = 0, []
    conclude = FetchSessions.conclude

    def noted(*arguments: Any, **more: Any) -> Any:
        concluded.append(turn)
        return conclude(*arguments, **more)

    with RunningBroker(data_dir) as broker, broker.client() as client:
        topic, _ = create_topic(client, COUNT)

        def count() -> None:
            nonlocal turn
            turn += 1
            if len(concluded) < 20:
                broker._loop.call_soon(count)

        monkeypatch.setattr(FetchSessions, "conclude", noted)
        broker.call(count)
        requests = [large(topic) for _ in range(20)]
        first = client.correlation_id + 1
        client.send_bytes(b"".join(client.frame(request, 12) for request in requests))
        for number, request in enumerate(requests, first):
            assert client.receive(request, 12, correlation_id=number).error_code == 0
        assert len(set(concluded)) == 20


def test_a_small_request_may_have_a_large_answer(client: RawClient) -> None:
    """The response is encoded in steps."""
    count = ENCODED_AT_ONCE + 100
    topic, _ = create_topic(client, count)
    session_id = client.ask(large(topic, (0, 0), count=count), 12).session_id
    assert session_id
    produced = [PartitionProduceData(index=index, records=bytes(batch(b"%d" % index))) for index in range(count)]
    sent = ProduceRequest(acks=1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=produced)])
    outcomes = client.ask(sent, 9).responses[0].partition_responses
    assert [(each.index, each.error_code, each.base_offset) for each in outcomes] == [
        (index, 0, 0) for index in range(count)
    ]
    partitions = client.ask(large("", (session_id, 1), count=0), 12).responses[0].partitions
    assert {each.partition_index: values_in(each.records) for each in partitions} == {
        index: [b"%d" % index] for index in range(count)
    }
