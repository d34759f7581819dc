"""Indexes of closed segments: unloaded when they use too much memory, with the same search results."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.index_memory import IndexMemory
from kwire.log.partition_log import PartitionLog
from kwire.log.positions import POSITIONS_KEPT, Positions
from kwire.log.recovery import Surroundings
from tests.log.searching import aborted_transactions, max_timestamp_offset, offset_for_timestamp
from tests.log.support import NOW_MS, batch, headers, marker, open_at, surroundings
from tests.support.compiled import replaces_methods

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=100)


def bounded(limit_bytes: int) -> Surroundings:
    return dataclasses.replace(surroundings(), indexes=IndexMemory(limit_bytes))


def filled(directory: Path, world: Surroundings, batches: int = 600) -> PartitionLog:
    """Return a log of many small segments; each timestamp is NOW_MS plus the offset."""
    log = open_at(directory, CONFIG, world)
    for offset in range(batches):
        log.append(batch(b"v", timestamp=NOW_MS + offset), leader_epoch=0)
    log.flush()
    return log


def loaded_bytes(log: PartitionLog) -> int:
    return sum(segment.index_bytes for segment in list(log.segments)[:-1])


@pytest.mark.parametrize("is_reopened", [False, True])
def test_reading_all_segments_keeps_index_memory_within_its_bound(tmp_path: Path, is_reopened: bool) -> None:
    world = bounded(2500)
    log = filled(tmp_path / "t-0", world)
    if is_reopened:
        log.close(clean=True)
        world = bounded(2500)
        log = open_at(tmp_path / "t-0", CONFIG, world, clean=True, recovery_point=600)
    assert len(log.segments) > 8
    for offset in range(600):
        assert headers(log.read(offset, 1))[0].base_offset == offset
        assert loaded_bytes(log) <= 2500
        assert world.indexes.used_bytes == loaded_bytes(log)
    for offset in range(0, 600, 7):
        found = offset_for_timestamp(log, NOW_MS + offset)
        assert found is not None
        assert found.offset == offset
        assert loaded_bytes(log) <= 2500
    assert log.segments.first.is_loaded is False
    log.truncate_to(20)
    assert world.indexes.used_bytes == loaded_bytes(log) == 0
    log.append(batch(b"v", timestamp=NOW_MS + 20), leader_epoch=0)
    assert headers(log.read(20, 1))[0].base_offset == 20
    log.close(clean=True)


def test_rebuilt_indexes_are_written_and_unloaded(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=20_000)
    log = open_at(tmp_path, config)
    for offset in range(800):
        log.append(batch(b"v" * 100, timestamp=NOW_MS + offset), leader_epoch=0)
    log.close(clean=True)
    for path in tmp_path.glob("*index"):
        path.unlink()
    world = bounded(100)
    log = open_at(tmp_path, config, world, clean=True, recovery_point=800)
    closed = list(log.segments)[:-1]
    assert len(closed) > 4
    for offset in range(800):
        assert headers(log.read(offset, 1))[0].base_offset == offset
    assert world.indexes.used_bytes == loaded_bytes(log) <= 100
    assert all((tmp_path / f"{segment.base_offset:020d}.index").stat().st_size for segment in closed)
    for offset in range(0, 800, 7):
        found = offset_for_timestamp(log, NOW_MS + offset)
        assert found is not None
        assert found.offset == offset


def test_aborted_transactions_are_unloaded_as_well(tmp_path: Path) -> None:
    world = bounded(20_000)
    log = open_at(tmp_path, LogConfig(segment_bytes=10_000), world)
    for number in range(400):
        producer: dict[str, Any] = {"producer_id": 1, "producer_epoch": number, "transactional": True}
        log.append(batch(b"v", sequence=0, **producer), leader_epoch=0)
        log.append(marker(1, number, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    log.flush()
    for is_reopened in (False, True):
        if is_reopened:
            log.close(clean=True)
            world = bounded(20_000)
            log = open_at(tmp_path, LogConfig(segment_bytes=10_000), world, clean=True, recovery_point=800)
        assert len(log.segments) > 5
        for number in range(400):
            (found,) = aborted_transactions(log, 2 * number, 2 * number + 1)
            assert (found.first_offset, found.last_offset) == (2 * number, 2 * number + 1)
            assert loaded_bytes(log) <= 20_000
        assert any(not segment.transaction_index.memory_bytes for segment in log.segments)


def test_an_index_in_frequent_use_stays_loaded(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", bounded(2500))
    for offset in range(100, 500):
        log.read(3, 1)
        log.read(offset, 1)
        assert log.segments.first.is_loaded


def test_a_closed_log_releases_its_index_memory(tmp_path: Path) -> None:
    world = bounded(100_000)
    logs = [filled(tmp_path / name, world, 200) for name in ("t-0", "t-1")]
    for log in logs:
        for offset in range(200):
            log.read(offset, 1)
    assert world.indexes.used_bytes == sum(map(loaded_bytes, logs)) > 0
    logs[0].close(clean=False)
    assert world.indexes.used_bytes == loaded_bytes(logs[1])
    logs[1].truncate_fully_and_start_at(7)
    assert world.indexes.used_bytes == 0


@replaces_methods
def test_timestamps_are_known_without_an_index(tmp_path: Path) -> None:
    world = bounded(0)
    log = filled(tmp_path / "t-0", world)
    assert max_timestamp_offset(log) is not None
    loads: list[int] = []
    for segment in log.segments:
        segment._load = lambda: loads.append(1)  # type: ignore[method-assign]
        segment.load_timestamps()
    assert not loads


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=3 * POSITIONS_KEPT), st.data())
@settings(max_examples=30, deadline=None)
def test_the_position_cache_holds_the_newest_batches(steps: list[tuple[int, bool]], data: st.DataObject) -> None:
    positions = Positions()
    known: dict[int, int] = {}
    offset = position = 0
    for records, cuts in steps:
        if cuts and known and data.draw(st.integers(0, 9)) == 0:
            position = data.draw(st.sampled_from(sorted(known.values())))
            offset = next(base for base, at in known.items() if at == position)
            known = {base: at for base, at in known.items() if at < position}
            positions.cut(position)
        positions.add(offset, position)
        known[offset] = position
        offset, position = offset + records, position + 61 + records
    newest = sorted(known)[-POSITIONS_KEPT // 2 :]
    for base in range(offset + 2):
        found = positions.find(base)
        assert found in (-1, known.get(base))
        assert base not in newest or found == known[base] or len(known) != len(steps)
    assert len(positions._offsets) <= POSITIONS_KEPT
