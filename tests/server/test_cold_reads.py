"""Records outside the page cache: a worker reads them first, so the event loop does not wait for a device."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kwire.log import cold_reads
from kwire.log.segment import Segment
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition
from kwire.protocol.records import Record, encode_batch
from kwire.server.fetching.cold_reads import FETCHES_MAX
from tests.log.faults import FaultyDisk, WatchedFile, broken
from tests.support.compiled import replaces_methods
from tests.support.requests import (
    NOW_MS,
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    produce_request,
    values_in,
)
from tests.support.running import RunningBroker

pytestmark = replaces_methods


class Cache:
    """Simulated page cache: it records which threads read uncached ranges."""

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
def broker(tmp_path: Path, disk: FaultyDisk, cache: Cache) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data", disk=disk) as running:
        yield running


VALUES = [bytes([letter]) * 10_000 for letter in b"abcdefgh"]


def filled_with_values(client: Any) -> str:
    """Create a topic with a batch for each of VALUES."""
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


def test_records_evicted_again_are_read_synchronously(
    broker: RunningBroker, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little memory, the system may evict a range before it is read; the retry does not check the cache again."""
    monkeypatch.setattr(WatchedFile, "is_cached", lambda *_: False)
    with broker.client() as client:
        assert values_in(fetch(client, filled(client), 1).records) == [b"b", b"c"]


def test_a_failing_device_is_still_reported(broker: RunningBroker, cache: Cache, disk: FaultyDisk) -> None:
    with broker.client() as client:
        topic = filled(client)
        cache.is_cold = True
        disk.fail = lambda operation, path: broken(operation, path) if operation == "read" else None
        assert fetch(client, topic, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_recent_records_are_read_without_a_page_cache_check(
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
    """The limit holds for any fetch size: a fetch returns only what a worker has read."""
    with broker.client() as client:
        topic = filled_with_values(client)
        monkeypatch.setattr(cold_reads, "COLD_BYTES_MAX", 22_000)
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
    assert max(lengths) == 22_000
    assert len(lengths) == len(VALUES) - 1, "each time one batch, with the header of the next; at the end two"


def test_the_search_for_an_offset_waits_for_no_device(
    broker: RunningBroker, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker reads headers and the following records in one read; the fetch itself reads no file."""
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


def test_bytes_read_by_a_worker_are_released_while_a_fetch_waits(broker: RunningBroker, cache: Cache) -> None:
    """A fetch waits for more data than exists; bytes that a worker has read must not stay in memory meanwhile."""
    with broker.client() as client, broker.client() as other:
        topic = filled(client)
        cache.is_cold = True
        released = threading.Event()
        release = cold_reads.ColdReads.release

        def noted(cold: cold_reads.ColdReads) -> None:
            held = bool(cold._data)
            release(cold)
            assert not cold._data
            if held:
                released.set()

        with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(1) as pool:
            patched.setattr(cold_reads.ColdReads, "release", noted)
            fetched = pool.submit(lambda: fetch(client, topic, 0, min_bytes=500, max_wait_ms=60_000))
            assert released.wait(60)
            assert not fetched.done()
            produce(other, topic, batch(bytes(1000)))
            assert values_in(fetched.result().records) == [b"a", b"b", b"c", bytes(1000)]


class Device:
    """Device whose page cache contains each range after one read; the broker has no positions in memory."""

    def __init__(self, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waited: list[int] = []
        """Byte counts of the reads that the event loop waited for."""
        self.is_forgetful = False
        """True if each range is evicted at once, as with too little memory."""
        pages: set[tuple[str, int]] = set()
        read = WatchedFile.read
        loop_thread = broker.call(threading.current_thread)

        def pages_of(file: WatchedFile, position: int, length: int) -> set[tuple[str, int]]:
            return {(file.path, page) for page in range(position // 4096, (position + max(length, 1) - 1) // 4096 + 1)}

        def watched(file: WatchedFile, position: int, length: int) -> bytes:
            data = read(file, position, length)
            if file.path.endswith(".log"):
                wanted = pages_of(file, position, len(data))
                if threading.current_thread() is loop_thread and wanted - pages:
                    self.waited.append(len(data))
                if not self.is_forgetful:
                    pages.update(wanted)
            return data

        monkeypatch.setattr(WatchedFile, "read", watched)
        monkeypatch.setattr(WatchedFile, "is_cached", lambda *part: pages_of(*part) <= pages)
        monkeypatch.setattr(Segment, "known_position", lambda *_: -1)
        monkeypatch.setattr("kwire.log.segment.HOT_BYTES", -1)


def filled_before_an_open_transaction(client: Any, partitions: int) -> str:
    """Create a topic with 2 MB of stable records in each partition, followed by an open transaction."""
    topic, _ = create_topic(client, partitions)
    for partition in range(partitions):
        for _ in range(8):
            produce(client, topic, batch(bytes(250_000)), partition=partition)
        records = [Record(key=b"k", value=b"open", timestamp=NOW_MS)]
        opened = encode_batch(records, producer_id=4242, producer_epoch=0, base_sequence=0, transactional=True)
        request = produce_request(topic, bytes(opened), partition=partition)
        request.transactional_id = "open"
        assert client.ask(request, 11).responses[0].partition_responses[0].error_code == 0
        produce(client, topic, batch(bytes(250_000)), partition=partition)
    return topic


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("is_forgetful", [False, True])
@pytest.mark.parametrize(("partitions", "bytes_each"), [(1, 10 << 20), (6, 1 << 20), (3, 5 << 20), (2, 1)])
def test_each_fetch_of_cold_records_progresses_and_never_blocks_the_loop(
    tmp_path: Path,
    disk: FaultyDisk,
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
    bytes_each: int,
    is_forgetful: bool,
    isolation_level: int,
) -> None:
    settings = {"transaction.partition.verification.enable": "false"}
    with RunningBroker(tmp_path / "data", settings, disk=disk) as broker, broker.client() as client:
        topic = filled_before_an_open_transaction(client, partitions)
        device = Device(broker, monkeypatch)
        device.is_forgetful = is_forgetful
        request = fetch_request(topic, 0, isolation_level=isolation_level, max_wait_ms=500)
        request.topics[0].partitions = [
            FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=bytes_each)
            for partition in range(partitions)
        ]
        for _ in range(2):
            found = client.ask(request, 12).responses[0].partitions
            assert sum(len(each.records or b"") for each in found) > 0
    assert not device.waited


@pytest.mark.parametrize(("size", "bytes_wanted"), [(900_000, 1), (900_000, 64 * 1024), (6_000_000, 1 << 20)])
def test_a_worker_reads_all_of_a_batch_that_is_larger_than_what_was_wanted(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, size: int, bytes_wanted: int
) -> None:
    settings = {"message.max.bytes": "10000000", "log.segment.bytes": "100000000"}
    with RunningBroker(tmp_path / "data", settings, disk=disk) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        for _ in range(3):
            produce(client, topic, batch(bytes(size)))
        device = Device(broker, monkeypatch)
        for offset in range(3):
            found = fetch(client, topic, offset, partition_max_bytes=bytes_wanted, max_wait_ms=500)
            assert values_in(found.records) == [bytes(size)]
    assert not device.waited


def test_a_log_directory_that_hangs_holds_up_no_other(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetches of its partitions get a response without records after a timeout."""
    monkeypatch.setattr("kwire.server.fetching.cold_reads.WAIT_SECONDS_MAX", 0.3)
    paths = [tmp_path / "good", tmp_path / "bad"]
    settings = {"log.dirs": ",".join(map(str, paths))}
    with RunningBroker(paths[0], settings, disk=disk) as broker, broker.client() as client:
        topic, _ = create_topic(client, 4)
        for partition in range(4):
            produce(client, topic, batch(b"x" * 1000), partition=partition)
        bad, good = (
            [number for number in range(4) if (path / f"{topic}-{number}").exists()] for path in reversed(paths)
        )
        Device(broker, monkeypatch).is_forgetful = True
        ends = threading.Event()
        read = WatchedFile.read
        loop_thread = broker.call(threading.current_thread)

        def hangs(file: WatchedFile, position: int, length: int) -> bytes:
            if str(paths[1]) in file.path:
                assert threading.current_thread() is not loop_thread
                assert ends.wait(60)
            return read(file, position, length)

        monkeypatch.setattr(WatchedFile, "read", hangs)
        try:
            for _ in range(3):
                assert not fetch(client, topic, 0, partition=bad[0], max_wait_ms=60_000).records
                assert values_in(fetch(client, topic, 0, partition=good[0]).records) == [b"x" * 1000]
            request = fetch_request(topic, 0)
            request.topics[0].partitions = [
                FetchPartition(partition=each, partition_max_bytes=1000) for each in range(4)
            ]
            found = client.ask(request, 12).responses[0].partitions
            assert {each.partition_index for each in found if each.records} <= set(good)
            assert any(each.records for each in found)
        finally:
            ends.set()
        while not fetch(client, topic, 0, partition=bad[0], max_wait_ms=100).records:
            pass


def test_no_more_fetches_hold_cold_records_than_there_are_places(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: dict[int, int] = {}
    most = 0
    store, release = cold_reads.ColdReads.store, cold_reads.ColdReads.release

    def holding(cold: cold_reads.ColdReads, *read: Any) -> None:
        nonlocal most
        store(cold, *read)
        held[id(cold)] = sum(map(len, cold._data.values()))
        most = max(most, sum(held.values()))

    def releasing(cold: cold_reads.ColdReads) -> None:
        release(cold)
        held.pop(id(cold), None)

    with RunningBroker(tmp_path / "data", disk=disk) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        for _ in range(8):
            produce(client, topic, batch(bytes(250_000)))
        Device(broker, monkeypatch).is_forgetful = True
        monkeypatch.setattr(cold_reads.ColdReads, "store", holding)
        monkeypatch.setattr(cold_reads.ColdReads, "release", releasing)
        with ThreadPoolExecutor(40) as pool, ExitStack() as stack:
            clients = [stack.enter_context(broker.client()) for _ in range(40)]
            sizes = list(
                pool.map(lambda each: len(fetch(each, topic, 0, partition_max_bytes=1 << 20).records), clients)
            )
    assert all(sizes)
    assert 0 < most <= FETCHES_MAX * (2 << 20)
