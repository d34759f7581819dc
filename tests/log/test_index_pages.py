"""Large indexes of closed segments: searched in their files, with the same results as entries in memory."""

from __future__ import annotations

import random
import struct
from functools import partial
from pathlib import Path

import pytest

from kwire.log import index as index_module
from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.errors import CorruptIndexError, NotReadyError
from kwire.log.index import LOADED_BYTES_MAX, OffsetIndex, TimeIndex
from kwire.log.index_memory import IndexMemory
from kwire.log.index_pages import FIRST_BYTES, PAGE_ENTRIES
from kwire.log.not_ready import ready_at_once
from kwire.log.partition_log import PartitionLog
from tests.log.searching import offset_for_timestamp
from tests.log.support import NOW_MS, batch, headers, open_at
from tests.log.test_bit_flips import flip

DENSE = LogConfig(index_interval_bytes=1, segment_bytes=10 * 1024**2)
BATCHES = LOADED_BYTES_MAX // 8 + PAGE_ENTRIES
"""Number of batches in a segment whose two indexes are too large to be loaded."""
ENTRIES = 3 * PAGE_ENTRIES + 5


def write_both(directory: Path, entries: int) -> list[tuple[int, int]]:
    """Write an offset index and a time index with the same increasing pairs, and return them."""
    random_source = random.Random(entries)
    first = sorted(random_source.sample(range(20 * entries), entries))
    second = sorted(random_source.sample(range(20 * entries), entries))
    pairs = list(zip(first, second, strict=True))
    (directory / "x.index").write_bytes(b"".join(struct.pack(">ii", *pair) for pair in pairs))
    (directory / "x.timeindex").write_bytes(b"".join(struct.pack(">qi", *pair) for pair in pairs))
    return pairs


@pytest.mark.parametrize("entries", [1, 2, PAGE_ENTRIES, PAGE_ENTRIES + 1, ENTRIES])
def test_each_lookup_finds_what_it_finds_in_memory(
    tmp_path: Path, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_both(tmp_path, entries)
    monkeypatch.setattr(index_module, "LOADED_BYTES_MAX", 0)
    (loaded, loaded_times), (paged, paged_times) = (
        (
            OffsetIndex(RealDisk(), str(tmp_path / "x"), 100, load=True),
            TimeIndex(RealDisk(), str(tmp_path / "x"), 100, load=True),
        )
        for _ in range(2)
    )
    for offsets, times, is_whole in ((loaded, loaded_times, True), (paged, paged_times, False)):
        offsets.load(is_whole=is_whole)
        times.load(is_whole=is_whole)
        assert offsets.is_in_file is times.is_in_file is not is_whole
    assert len(paged) == len(paged_times) == entries
    assert paged.file_bytes == loaded.file_bytes == 8 * entries
    assert (paged.last_entry(), paged_times.last_entry()) == (loaded.last_entry(), loaded_times.last_entry())
    assert (paged.entries(), paged_times.entries()) == (loaded.entries(), loaded_times.entries())
    random_source = random.Random(1)
    for sought in [-1, 0, 20 * entries, *(random_source.randrange(20 * entries) for _ in range(3000))]:
        assert paged.lookup_entry(100 + sought) == loaded.lookup_entry(100 + sought)
        assert paged.lookup_position(sought) == loaded.lookup_position(sought)
        assert paged_times.lookup_entry(sought) == loaded_times.lookup_entry(sought)
    for near in range(0, 20 * entries, 7):  # as a consumer reads: the page of the last search has most entries
        assert paged.lookup_entry(100 + near) == loaded.lookup_entry(100 + near)
    assert 0 < paged.memory_bytes <= 8 * PAGE_ENTRIES + FIRST_BYTES * -(-entries // PAGE_ENTRIES)


@pytest.mark.parametrize("data", [bytes(13), b"\xff" * 24])
def test_an_inconsistent_index_file_is_rejected(tmp_path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "LOADED_BYTES_MAX", 0)
    for name in ("x.index", "x.timeindex"):
        (tmp_path / name).write_bytes(data)
    for made in (OffsetIndex, TimeIndex):
        with pytest.raises(CorruptIndexError):
            index = made(RealDisk(), str(tmp_path / "x"), 100, load=True)
            index.load(is_whole=False)
            index.last_entry()


def filled(directory: Path, segments: int = 1) -> PartitionLog:
    """Return a cleanly reopened log: closed segments with large indexes, and one batch in the active segment."""
    log = open_at(directory, DENSE)
    for number in range(segments * BATCHES + 1):
        if number % BATCHES == 0 and number:
            log.roll()
        log.append(batch(b"v", timestamp=NOW_MS + number), leader_epoch=0)
    log.close(clean=True)
    return reopened(directory, log.log_end_offset)


def reopened(directory: Path, end_offset: int) -> PartitionLog:
    return open_at(directory, DENSE, clean=True, recovery_point=end_offset)


def test_a_read_and_a_search_leave_the_entries_in_the_files(tmp_path: Path) -> None:
    log = filled(tmp_path)
    segment = log.segments.first
    for offset in range(0, BATCHES + 1, 101):
        assert headers(log.read(offset, 300))[0].base_offset == offset
        found = offset_for_timestamp(log, NOW_MS + offset)
        assert found is not None
        assert found.offset == offset
    assert len(segment.offset_index) * 8 > LOADED_BYTES_MAX
    assert 0 < segment.index_bytes <= PAGE_ENTRIES * (8 + 12) + 2 * FIRST_BYTES * -(-BATCHES // PAGE_ENTRIES)
    assert not log.segments.active.offset_index.is_in_file


def test_timestamps_of_many_segments_take_no_index_into_memory(tmp_path: Path) -> None:
    log = filled(tmp_path, segments=4)
    assert ready_at_once(log.max_timestamp) == (NOW_MS + 4 * BATCHES, 4 * BATCHES)
    closed = list(log.segments)[:-1]
    assert [segment.max_timestamp for segment in closed] == [NOW_MS + BATCHES * n - 1 for n in range(1, 5)]
    assert sum(segment.index_bytes for segment in closed) <= 4 * PAGE_ENTRIES * (8 + 12)


def test_reads_succeed_without_memory_for_indexes(tmp_path: Path) -> None:
    log = filled(tmp_path, segments=3)
    log.segments.share(IndexMemory(0))
    for offset in range(0, BATCHES, 401):
        for number in range(3):
            assert headers(log.read(number * BATCHES + offset, 1))[0].base_offset == number * BATCHES + offset


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_spoiled_entry_hides_no_record(tmp_path: Path, suffix: str) -> None:
    """An entry may name a position or an offset before its batch, after it, or after the log's end."""
    log = filled(tmp_path)
    path, random_source = Path(log.segments.first.stem + suffix), random.Random(7)
    sound, entry = path.read_bytes(), 8 if suffix == ".index" else 12
    for bit in range(8 * entry):
        number = random_source.randrange(BATCHES - 2)
        path.write_bytes(sound)
        flip(path, number * entry + bit // 8, bit % 8)
        log = reopened(tmp_path, BATCHES + 1)
        for offset in (number - 1, number, number + 1, number + 2, number // 2, (number + BATCHES) // 2, BATCHES - 1):
            if offset >= 0:
                assert headers(ready_at_once(partial(log.read, offset, 1)))[0].base_offset == offset
                found = offset_for_timestamp(log, NOW_MS + offset)
                assert found is not None
                assert found.offset == offset
        log.close(clean=False)


def test_a_truncation_loads_index_entries_into_memory(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.read(BATCHES // 2, 1)
    assert log.segments.first.offset_index.is_in_file
    log.truncate_to(BATCHES - 7)
    assert not log.segments.active.offset_index.is_in_file
    for number in range(BATCHES - 7, BATCHES + 100):
        log.append(batch(b"v", timestamp=NOW_MS + number), leader_epoch=0)
    log.roll()
    log.close(clean=True)
    log = reopened(tmp_path, BATCHES + 100)
    for offset in range(0, BATCHES + 100, 57):
        assert headers(log.read(offset, 1))[0].base_offset == offset
    assert log.segments.first.offset_index.is_in_file


def test_an_index_file_removed_during_a_search_is_rebuilt(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.read(BATCHES // 2, 1)
    segment = log.segments.first
    segment.offset_index.storage.remove()
    with pytest.raises(NotReadyError):
        log.read(3, 1)
    assert headers(ready_at_once(lambda: log.read(3, 1)))[0].base_offset == 3
