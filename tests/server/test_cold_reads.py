"""Records that are not in the page cache: a worker reads them first, and the event loop waits for no device."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kwire.log import cold_reads
from kwire.log.disk import RealDisk
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.server.cold_reads import READ_BYTES, ColdReader
from tests.cluster.world import InlineWorkers
from tests.log.faults import FaultyDisk, WatchedFile, broken
from tests.support.compiled import replaces_methods
from tests.support.requests import batch, create_topic, fetch, produce, values_in
from tests.support.running import RunningBroker

pytestmark = replaces_methods


class Cache:
    """Which stretches of files are in the page cache, and who has read those that were not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_cold = False
        self.readers: list[str] = []
        read = WatchedFile.read

        def watched(file: WatchedFile, position: int, length: int) -> bytes:
            if self.is_cold and file.path.endswith(".log"):
                self.readers.append(threading.current_thread().name)
                self.is_cold = False
            return read(file, position, length)

        monkeypatch.setattr(WatchedFile, "read", watched)
        monkeypatch.setattr(WatchedFile, "is_cached", lambda *_: not self.is_cold)
        monkeypatch.setattr("kwire.log.segment.HOT_BYTES", -1)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Cache:
    return Cache(monkeypatch)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def broker(tmp_path: Path, disk: FaultyDisk, cache: Cache) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data", disk=disk) as running:
        yield running


def filled(client: Any) -> str:
    topic, _ = create_topic(client)
    for value in (b"a", b"b", b"c"):
        produce(client, topic, batch(value))
    return topic


def test_a_worker_reads_what_is_cold(broker: RunningBroker, cache: Cache) -> None:
    with broker.client() as client:
        topic = filled(client)
        loop_thread = broker.call(lambda: threading.current_thread().name)
        cache.is_cold = True
        assert values_in(fetch(client, topic, 0).records) == [b"a", b"b", b"c"]
    assert len(cache.readers) == 1
    assert cache.readers[0] != loop_thread


def test_what_is_cold_again_is_waited_for(broker: RunningBroker, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system short of memory may drop it before it is read: the second time nobody is asked."""
    monkeypatch.setattr(WatchedFile, "is_cached", lambda *_: False)
    with broker.client() as client:
        assert values_in(fetch(client, filled(client), 1).records) == [b"b", b"c"]


def test_a_device_that_fails_is_told_of_as_ever(broker: RunningBroker, cache: Cache, disk: FaultyDisk) -> None:
    with broker.client() as client:
        topic = filled(client)
        cache.is_cold = True
        disk.fail = lambda operation, path: broken(operation, path) if operation == "read" else None
        assert fetch(client, topic, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_what_was_just_written_is_not_asked_about(
    broker: RunningBroker, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.log.segment.HOT_BYTES", cold_reads.HOT_BYTES)

    def asked(*_: object) -> bool:
        raise AssertionError("it is in the page cache")

    monkeypatch.setattr(WatchedFile, "is_cached", asked)
    with broker.client() as client:
        assert values_in(fetch(client, filled(client), 0).records) == [b"a", b"b", b"c"]


def test_a_fetch_has_a_worker_read_so_much_and_the_next_one_more(
    broker: RunningBroker, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much it asks for: what is not read by a worker is not read."""
    values = [bytes([letter]) * 1000 for letter in b"abcdefgh"]
    with broker.client() as client:
        topic, _ = create_topic(client)
        for value in values:
            produce(client, topic, batch(value))
        monkeypatch.setattr(cold_reads, "COLD_BYTES_MAX", 2200)
        monkeypatch.setattr(WatchedFile, "is_cached", lambda *_: False)
        lengths: list[int] = []
        read = WatchedFile.read
        loop_thread = broker.call(threading.current_thread)

        def noted(file: WatchedFile, position: int, length: int) -> bytes:
            if threading.current_thread() is not loop_thread:
                lengths.append(length)
            return read(file, position, length)

        monkeypatch.setattr(WatchedFile, "read", noted)
        found: list[bytes | None] = []
        while len(found) < len(values):
            found += values_in(fetch(client, topic, len(found), max_wait_ms=60_000).records)
    assert found == values
    assert lengths == [2200, 2200, 2200, 2142], "each 2,200 bytes, or what is left"


def test_a_client_that_has_left_is_read_for_no_more(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    file.append(bytes(3 * READ_BYTES))
    wanted = iter([True, True, False])
    read: list[int] = []
    monitored = SimpleNamespace(
        pin=lambda: None, unpin=lambda: None, size=file.size, read=lambda position, length: read.append(position)
    )
    stretch = cold_reads.ColdStretch(cast("Any", monitored), 0, file.size)
    asyncio.run(ColdReader(InlineWorkers()).warm([stretch], lambda: next(wanted)))
    assert read == [0, READ_BYTES]
    file.close()


def test_an_unknown_topic_id_stays_one_when_the_fetch_reads_again(broker: RunningBroker, cache: Cache) -> None:
    with broker.client() as client:
        topic, topic_id = create_topic(client)
        produce(client, topic, batch(b"a"))
        cache.is_cold = True
        asked = [
            FetchTopic(topic_id=each, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])
            for each in (topic_id, UUID(int=77))
        ]
        answer = client.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=asked), 16)
        codes = [each.error_code for topic in answer.responses for each in topic.partitions]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
        assert len(cache.readers) == 1


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system cannot tell")
def test_a_file_tells_what_the_system_has(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    file.append(bytes(1 << 20))
    file.sync()
    assert file.is_cached(0, 1 << 20)
    assert file.is_cached(1 << 20, 1), "behind the end there is nothing to wait for"
    os.posix_fadvise(file._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if not file.is_cached(0, 4096):  # some file systems keep all in memory
        file.read(0, 4096)
        assert file.is_cached(0, 4096)
    file.close()
