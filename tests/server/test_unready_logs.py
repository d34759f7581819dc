"""Fetches of many logs without indexes: each step derives a few, and the response is sent when there is enough data."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kwire.log.errors import NotReadyError
from kwire.log.partition_log import PartitionLog
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.server.fetching.unready_logs import READY_AT_ONCE, UNREADY_AT_ONCE
from tests.log.support import batch
from tests.support.compiled import replaces_methods
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic
from tests.support.running import RunningBroker

COUNT = READY_AT_ONCE + 8
BATCHES = 600
"""Number of batches in one closed segment: its index is derived in several steps."""
TOPIC = "t"


def fill(broker: RunningBroker) -> None:
    """Fill each partition with a closed segment and a batch after it."""
    for index in range(COUNT):
        partition = broker.server.services.partitions.find(TOPIC, index)
        for _ in range(BATCHES):
            partition.append(batch(b"v"), -1)
        partition.log.roll()
        partition.append(batch(b"v"), -1)


def answered(client: RawClient, *, min_bytes: int = 1, max_wait_ms: int = 600_000) -> set[int]:
    """Return the partitions from which a fetch from offset 0 has returned records."""
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in range(COUNT)]
    topics = [FetchTopic(topic=TOPIC, partitions=partitions)]
    request = FetchRequest(min_bytes=min_bytes, max_wait_ms=max_wait_ms, max_bytes=1 << 20, topics=topics)
    answer = client.ask(request, 12).responses[0].partitions
    assert {each.error_code for each in answer} == {0}
    return {each.partition_index for each in answer if each.records}


@pytest.fixture
def data(data_dir: Path) -> Path:
    """Return the data of a stopped broker without the indexes of closed segments."""
    with RunningBroker(data_dir) as broker, broker.client() as client:
        create_topic(client, COUNT, name=TOPIC)
        broker.call(lambda: fill(broker))
    for index in data_dir.glob(f"{TOPIC}-*/{0:020d}.index"):
        index.unlink()
    return data_dir


def test_a_fetch_is_answered_when_enough_logs_are_ready(data: Path) -> None:
    with RunningBroker(data) as broker, broker.client() as client:
        first = answered(client)
        assert first
        assert len(first) < COUNT, "it did not wait for all"
        fetches = (answered(client) for _ in range(COUNT))
        assert any(each == set(range(COUNT)) for each in fetches), "each fetch makes some ready"


def test_a_fetch_with_large_min_bytes_waits_for_all_logs(data: Path) -> None:
    with RunningBroker(data) as broker, broker.client() as client:
        assert answered(client, min_bytes=COUNT * 900) == set(range(COUNT))


def test_a_fetch_that_may_not_wait_has_records_of_what_was_made_ready(data: Path) -> None:
    with RunningBroker(data) as broker, broker.client() as client:
        assert answered(client, min_bytes=COUNT * 900, max_wait_ms=0)


@replaces_methods
def test_one_loop_iteration_prepares_a_bounded_number_of_logs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunningBroker(data) as broker, broker.client() as client:
        read = PartitionLog.read
        turn, met = 0, [0]

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            met.append(0)
            asyncio.get_running_loop().call_soon(next_turn)

        def counted(log: PartitionLog, *args: object, **named: object) -> object:
            try:
                return read(log, *args, **named)  # type: ignore[arg-type]
            except NotReadyError:
                met[turn] += 1
                raise

        monkeypatch.setattr(PartitionLog, "read", counted)
        broker.call(next_turn)
        assert answered(client, min_bytes=COUNT * 900) == set(range(COUNT))
        assert 0 < max(met) <= UNREADY_AT_ONCE
