"""Cold reads: the bytes that a worker reads for a fetch, and the part that the fetch uses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kwire.log import cold_reads
from kwire.log.disk import RealDisk, RealFile
from kwire.server.fetching.cold_reads import ColdReader
from tests.cluster.world import InlineWorkers
from tests.support.compiled import replaces_methods

pytestmark = replaces_methods


class ColdFile:
    """File in memory that is never in the page cache; it records the positions of reads."""

    path = "/data/topic-0/00000000000000000000.log"

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


def note(cold: cold_reads.ColdReads, file: Any, position: int, length: int, *, is_due: bool = False) -> bool:
    """Request a range that is not in memory; return True if a worker must read it."""
    assert cold.readable(file, position, length) == 0
    return cold.add(file, position, length, length_min=length, is_first=is_due)


def warm(cold: cold_reads.ColdReads, is_wanted: Any = lambda: True) -> None:
    asyncio.run(ColdReader(InlineWorkers()).warm(cold, is_wanted))


def test_reading_stops_when_the_client_has_disconnected() -> None:
    file = cold_file(bytes(3000))
    cold = cold_reads.ColdReads()
    assert all(note(cold, file, position, 100) for position in (0, 1000, 2000))
    warm(cold, lambda: len(file.read_at) < 2)
    assert file.read_at == [0, 1000]
    assert cold.read(file, 1010, 20) == bytes(20)
    assert file.read_at == [0, 1000, 1010], "nothing is kept for a client that has left"


def test_ranges_read_by_a_worker_are_not_read_again() -> None:
    file = cold_file(bytes(range(200)))
    cold = cold_reads.ColdReads()
    assert note(cold, file, 0, 100)
    warm(cold)
    assert [cold.readable(file, *part) for part in ((0, 100), (50, 50), (50, 80), (100, 10))] == [100, 50, 50, 0]
    assert cold.read(file, 10, 20) == bytes(range(10, 30))
    assert file.read_at == [0]
    assert cold.read(file, 90, 20) == bytes(range(90, 110)), "what goes on behind it is read by the fetch"
    assert file.read_at == [0, 90]


def test_an_optional_read_without_room_waits_for_the_next_fetch() -> None:
    file = cold_file(bytes(cold_reads.COLD_BYTES_MAX + 3000))
    cold = cold_reads.ColdReads()
    assert note(cold, file, 0, cold_reads.COLD_BYTES_MAX)
    assert not note(cold, file, cold_reads.COLD_BYTES_MAX, 1000)
    assert note(cold, file, cold_reads.COLD_BYTES_MAX, 2000, is_due=True)
    warm(cold)
    assert file.read_at == [0, cold_reads.COLD_BYTES_MAX]


def test_the_longer_of_two_ranges_at_a_position_is_used() -> None:
    """If a batch is larger than the first requested range, it is requested whole."""
    file = cold_file(bytes(range(200)))
    cold = cold_reads.ColdReads()
    assert note(cold, file, 0, 50)
    warm(cold)
    assert cold.readable(file, 0, 150) == 50
    assert cold.add(file, 0, 150, length_min=150, is_first=True)
    warm(cold)
    assert cold.readable(file, 20, 130) == 130
    assert cold.read(file, 0, 150) == bytes(range(150))
    assert file.read_at == [0, 0]


def test_the_page_cache_is_not_checked_twice_for_a_range() -> None:
    asked: list[int] = []
    file = cold_file(bytes(10_000))

    def is_cached(position: int, length: int) -> bool:
        asked.append(position)
        return True

    file.is_cached = is_cached
    cold = cold_reads.ColdReads()
    assert [cold.readable(file, *part) for part in ((0, 5000), (100, 4900), (101, 4900))] == [5000, 4900, 4900]
    assert asked == [0, 101]
    cold.release()
    assert cold.readable(file, 0, 5000) == 5000
    assert asked == [0, 101, 0]


def test_bytes_appended_after_the_worker_read_are_read() -> None:
    file = cold_file(b"0123456789")
    cold = cold_reads.ColdReads()
    assert note(cold, file, 0, 10)
    warm(cold)
    file.content += b"abcdefghij"
    assert cold.read(file, 5, 10) == b"56789abcde"
    assert cold.read(file, 2, 5) == b"23456"
    assert file.read_at == [0, 5]


def test_bytes_truncated_after_the_worker_read_are_not_returned() -> None:
    """A new leader's records replace those that a worker has read."""
    file = cold_file(b"0123456789")
    cold = cold_reads.ColdReads()
    assert note(cold, file, 0, 10)
    warm(cold)
    file.content, file.cuts = b"01234abcde", 1
    assert cold.read(file, 0, 10) == b"01234abcde"


def test_a_file_that_was_closed_for_good_is_not_opened_for_a_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file may have its name by then: one of the cleaner, or of a topic created again."""
    monkeypatch.setattr(RealFile, "is_cached", lambda *_: False)
    disk = RealDisk()
    path = str(tmp_path / "00000000000000000000.log")
    file = disk.open(path, create=True)
    file.append(bytes(10_000))
    cold = cold_reads.ColdReads()
    assert note(cold, file, 0, 5000)
    file.close()
    warm(cold)
    assert disk.open_files == 0
