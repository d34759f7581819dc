"""Records that are not in the page cache: a worker reads them first, and the event loop waits for no device."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kwire.log import cold_reads
from kwire.log.segment import Segment
from kwire.protocol.error_codes import ErrorCode
from kwire.server.cold_reads import ColdReader
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


VALUES = [bytes([letter]) * 1000 for letter in b"abcdefgh"]


def filled_with_values(client: Any) -> str:
    """A topic with a batch for each of VALUES."""
    topic, _ = create_topic(client)
    for value in VALUES:
        produce(client, topic, batch(value))
    return topic


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
    with broker.client() as client:
        topic = filled_with_values(client)
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
        while len(found) < len(VALUES):
            found += values_in(fetch(client, topic, len(found), max_wait_ms=60_000).records)
    assert found == VALUES
    assert lengths == [2200, 2200, 2200, 2142], "each 2,200 bytes, or what is left"


def test_the_search_for_an_offset_waits_for_no_device(
    broker: RunningBroker, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers, and the records behind them, are read by a worker in one go; the fetch reads nothing besides."""
    with broker.client() as client:
        topic = filled_with_values(client)
        monkeypatch.setattr(WatchedFile, "is_cached", lambda *_: False)
        monkeypatch.setattr(Segment, "known_position", lambda *_: -1)
        read = WatchedFile.read
        loop_thread = broker.call(threading.current_thread)
        read_by_worker: list[bool] = []

        def noted(file: WatchedFile, position: int, length: int) -> bytes:
            if file.path.endswith(".log"):
                read_by_worker.append(threading.current_thread() is not loop_thread)
            return read(file, position, length)

        monkeypatch.setattr(WatchedFile, "read", noted)
        assert values_in(fetch(client, topic, 5, max_wait_ms=60_000).records) == VALUES[5:]
    assert read_by_worker == [True]


def test_what_a_worker_has_read_is_given_back_while_a_fetch_waits(broker: RunningBroker, cache: Cache) -> None:
    """A fetch of more than there is waits; what was handed over does not stay in memory."""
    with broker.client() as client, broker.client() as other:
        topic = filled(client)
        cache.is_cold = True
        released = threading.Event()
        release = cold_reads.ColdReads.release

        def noted(cold: cold_reads.ColdReads) -> None:
            held = bool(cold._held)
            release(cold)
            assert not cold._held
            if held:
                released.set()

        with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(1) as pool:
            patched.setattr(cold_reads.ColdReads, "release", noted)
            fetched = pool.submit(lambda: fetch(client, topic, 0, min_bytes=500, max_wait_ms=60_000))
            assert released.wait(60)
            assert not fetched.done()
            produce(other, topic, batch(bytes(1000)))
            assert values_in(fetched.result().records) == [b"a", b"b", b"c", bytes(1000)]


class ColdFile:
    """A file in memory that is never in the page cache; it notes where it was read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.cuts = 0
        self.read_at: list[int] = []

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self, position: int, length: int) -> bytes:
        self.read_at.append(position)
        return self.content[position : position + length]

    def is_cached(self, position: int, length: int) -> bool:
        return False

    def pin(self) -> None: ...

    def unpin(self) -> None: ...


def cold_file(content: bytes) -> Any:
    return ColdFile(content)


def test_a_client_that_has_left_is_read_for_no_more() -> None:
    wanted = iter([True, True, False])
    file = cold_file(bytes(3000))
    cold = cold_reads.ColdReads()
    assert [cold.readable(file, position, 100) for position in (0, 1000, 2000)] == [0, 0, 0]
    asyncio.run(ColdReader(InlineWorkers()).warm(cold, lambda: next(wanted)))
    assert file.read_at == [0, 1000]
    assert [cold.readable(file, position, 100) for position in (50, 1000)] == [50, 100]
    assert cold.read(file, 1010, 20) == bytes(20)
    assert file.read_at == [0, 1000], "what was handed over is not read again"
    assert cold.read(file, 2000, 100) == bytes(100)
    assert file.read_at == [0, 1000, 2000], "what was not read by a worker is read by the fetch"


def test_what_was_found_in_the_page_cache_is_not_asked_about_twice() -> None:
    asked: list[int] = []
    file = cold_file(bytes(10_000))

    def is_cached(position: int, length: int) -> bool:
        asked.append(position)
        return True

    file.is_cached = is_cached
    cold = cold_reads.ColdReads()
    assert [cold.readable(file, *stretch) for stretch in ((0, 5000), (100, 4900), (101, 4900))] == [5000, 4900, 4900]
    assert asked == [0, 101]
    cold.release()
    assert cold.readable(file, 0, 5000) == 5000
    assert asked == [0, 101, 0]


def test_what_a_file_has_gained_since_is_read_as_well() -> None:
    file = cold_file(b"0123456789")
    cold = cold_reads.ColdReads()
    assert cold.readable(file, 0, 20) == 0
    asyncio.run(ColdReader(InlineWorkers()).warm(cold, lambda: True))
    file.content += b"abcdefghij"
    assert cold.read(file, 5, 10) == b"56789abcde"
    assert cold.read(file, 2, 5) == b"23456"
    assert file.read_at == [0, 5]


def test_what_was_cut_off_meanwhile_is_not_answered() -> None:
    """A new leader's log replaces what a worker has read."""
    file = cold_file(b"0123456789")
    cold = cold_reads.ColdReads()
    assert cold.readable(file, 0, 10) == 0
    asyncio.run(ColdReader(InlineWorkers()).warm(cold, lambda: True))
    file.content, file.cuts = b"01234abcde", 1
    assert cold.read(file, 0, 10) == b"01234abcde"
