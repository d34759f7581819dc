"""File cleaner-offset-checkpoint: it never covers records that are not compacted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from kwire.log.checkpoints import CLEANER_FILE, HIGH_WATERMARK_FILE, read_offsets
from kwire.log.disk import RealDisk
from kwire.log.log_directory import LogDirectory
from kwire.log.log_manager import LogManager
from tests.log.compaction.support import append
from tests.log.faults import FaultyDisk, broken
from tests.log.support import surroundings
from tests.server.compaction.test_cleaner import CONFIG, World
from tests.virtual_loop import virtual_loop

T = TypeVar("T")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "d")


def test_an_offline_directory_gets_no_checkpoint(tmp_path: Path) -> None:
    disk = FaultyDisk()
    world = World(tmp_path / "d", disk=disk)
    world.log("orders")
    assert world.clean()
    (directory,) = world.logs.directories
    world.logs.directories.take_offline(directory, broken("fsync", directory.path))
    disk.operations.clear()
    with virtual_loop() as loop:
        loop.run_until_complete(world.cleaner._write_checkpoint(directory))
    assert disk.operations == []


def test_a_checkpoint_is_written_again_when_a_log_was_cut_meanwhile(tmp_path: Path) -> None:
    world = World(tmp_path / "d")
    log = world.log("orders")
    assert world.clean()
    (directory,) = world.logs.directories
    path = f"{directory.path}/{CLEANER_FILE}"
    before = read_offsets(RealDisk(), path)
    assert before[("orders", 0)] > 0
    run, runs = world.workers.run, 0

    async def cut_then_run(call: Callable[[], T]) -> T:
        nonlocal runs
        runs += 1
        if runs == 1:
            log.offsets.first_dirty = 1
            directory.checkpoints_written += 1
        return await run(call)

    world.workers.run = cut_then_run  # type: ignore[method-assign]
    with virtual_loop() as loop:
        loop.run_until_complete(world.cleaner._write_checkpoint(directory))
    assert runs == 2
    assert read_offsets(RealDisk(), path) == {("orders", 0): 1}


def reopened(world: World) -> LogManager:
    """Reopen the logs as a broker whose cleaner has not started, or has log.cleaner.enable=false."""
    world.logs.close(clean=False)
    logs = LogManager([str(world.directory)], surroundings(RealDisk(), world.clock))
    logs.load_all(lambda topic: CONFIG)
    return logs


def test_a_truncation_before_the_cleaner_starts_lowers_its_checkpoint(world: World) -> None:
    world.log("orders")
    assert world.clean()
    assert world.checkpoint() == {("orders", 0): 10}
    logs = reopened(world)
    log = logs.get("orders", 0)
    assert log is not None
    log.truncate_to(9)
    for _ in range(5):
        append(log, (b"1", b"y"))
    assert world.checkpoint().get(("orders", 0), 0) < 10
    logs.close(clean=False)
    again = World(world.directory)
    found = again.logs.get("orders", 0)
    assert found is not None
    assert found.offsets.first_dirty <= 9


def test_a_log_moved_back_to_a_directory_ignores_the_old_checkpoint_entry(tmp_path: Path) -> None:
    """The directory's checkpoint was not rewritten in between, and its entry belongs to a log of an earlier topic."""
    world = World(tmp_path / "d", more_directories=[str(tmp_path / "e")])
    first, second = world.logs.directories

    def move_to(directory: LogDirectory) -> None:
        log = world.logs.get("orders", 0)
        assert log is not None
        copying = world.logs.futures.begin(log, directory)
        while copying.step(1000):
            pass
        world.logs.futures.replace(log)

    world.log("orders")
    move_to(second)
    assert world.clean()
    world.logs.directories.checkpoint({("orders", 0): 10})
    names = (CLEANER_FILE, HIGH_WATERMARK_FILE)
    assert [read_offsets(RealDisk(), f"{second.path}/{name}") for name in names] == [{("orders", 0): 10}] * 2
    move_to(first)
    world.logs.delete("orders", 0)
    log = world.logs.get_or_create("orders", 0, CONFIG, None)
    assert world.logs.directories.directory_of(log) is first
    append(log, (b"1", b"x"))
    move_to(second)
    assert [read_offsets(RealDisk(), f"{second.path}/{name}") for name in names] == [{}, {}]
    world.logs.close(clean=False)


def test_a_topic_recreated_before_the_cleaner_starts_is_dirty(world: World) -> None:
    world.log("orders")
    assert world.clean()
    logs = reopened(world)
    logs.delete("orders", 0)
    assert world.checkpoint() == {}
    log = logs.get_or_create("orders", 0, CONFIG, None)
    assert log.offsets.first_dirty == 0
    logs.close(clean=False)


def test_records_appended_after_a_torn_tail_are_dirty(world: World) -> None:
    log = world.log("orders")
    assert world.clean()
    path = Path(f"{log.directory}/{0:020}.log")
    world.logs.close(clean=False)
    for newer in world.directory.glob("orders-0/*.log"):
        if newer != path:
            newer.unlink()
    path.write_bytes(path.read_bytes()[:-3])
    logs = reopened(world)
    found = logs.get("orders", 0)
    assert found is not None
    assert found.log_end_offset < 10
    assert found.offsets.first_dirty <= found.log_end_offset
    logs.close(clean=False)
