"""Cleaner in virtual time: choice of logs, checkpoints, and events during a round."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import CurrentSettings
from kwire.log.checkpoints import CLEANER_FILE, read_offsets
from kwire.log.compaction.plan import CleanedGroup, RoundEnd, RoundPlan
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure, DiskFullError, RealDisk
from kwire.log.errors import CorruptLogError
from kwire.log.index_rebuild import BATCHES_AT_ONCE
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.server.compaction.cleaner import CleanerParts, LogCleaner
from kwire.server.compaction.rounds import InlineRounds, RoundFailedError
from tests.cluster.world import InlineWorkers
from tests.log.compaction.support import append
from tests.log.faults import FaultyDisk, broken, full
from tests.log.support import FixedChance, ManualClock, batch, everything, surroundings
from tests.virtual_loop import virtual_loop

CONFIG = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.1, file_delete_delay_ms=0)
T = TypeVar("T")
SETTINGS = {
    "log.cleaner.backoff.ms": 15000,
    "log.cleaner.dedupe.buffer.size": 134217728,
    "log.cleaner.io.buffer.load.factor": 0.9,
    "log.cleaner.io.max.bytes.per.second": 1e308,
    "log.cleaner.threads": 1,
}


class Rounds(InlineRounds):
    """Rounds that count, and run a callback before each report."""

    def __init__(self) -> None:
        super().__init__(RealDisk())
        self.plans: list[RoundPlan] = []
        self.between: Callable[[], None] = lambda: None
        self.running = 0

    async def run(self, plan: RoundPlan, bytes_per_second: float) -> AsyncGenerator[CleanedGroup | RoundEnd, None]:
        self.plans.append(plan)
        self.running += 1
        try:
            async for report in super().run(plan, bytes_per_second):
                self.between()
                yield report
        finally:
            await asyncio.sleep(1)  # the process takes a second to exit
            self.running -= 1


class World:
    """A log manager with a cleaner."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        disk: RealDisk = settings.pop("disk", None) or RealDisk()
        more: list[str] = settings.pop("more_directories", [])
        random_source: FixedChance | None = settings.pop("random_source", None)
        self.clock = ManualClock()
        self.settings = CurrentSettings(default_settings() | SETTINGS | settings)
        self.rounds = Rounds()
        self.workers = InlineWorkers()
        self.directory = directory
        self.logs = LogManager([str(directory), *more], surroundings(disk, self.clock, random_source))
        self.logs.load_all(lambda topic: CONFIG)
        self.cleaner = LogCleaner(
            CleanerParts(
                settings=self.settings,
                logs=self.logs,
                disk=disk,
                clock=self.clock,
                workers=self.workers,
                rounds=self.rounds,
                last_stable_offset_of=lambda log: log.last_stable_offset(log.log_end_offset),
            )
        )

    def log(self, topic: str, *, dirty: int = 10, config: LogConfig = CONFIG) -> PartitionLog:
        log = self.logs.get_or_create(topic, 0, config, None)
        for index in range(dirty):
            append(log, (b"%d" % (index % 2), b"x"))
        log.roll()
        log.flush()
        return log

    def set(self, values: Mapping[str, Any]) -> None:
        """Change settings."""
        self.settings.replace({**self.settings.values, **values})

    def clean(self) -> bool:
        with virtual_loop() as loop:
            return bool(loop.run_until_complete(self.cleaner.clean_dirtiest()))

    def checkpoint(self) -> dict[tuple[str, int], int]:
        return read_offsets(RealDisk(), str(self.directory / CLEANER_FILE))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "d")


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in everything(log)]


def test_the_dirtiest_log_comes_first_and_topics_that_are_not_compacted_never(world: World) -> None:
    log = world.log("half")
    assert world.clean()
    world.log("half", dirty=1)
    dirty, plain = world.log("dirty"), world.log("plain", config=LogConfig())
    assert world.clean()
    assert offsets(dirty) == [8, 9]
    assert world.clean()
    assert offsets(log) == [9, 10]
    assert not world.clean()
    assert len(offsets(plain)) == 10
    assert world.checkpoint() == {("half", 0): 11, ("dirty", 0): 10}


def test_compaction_continues_at_the_checkpoint_after_a_restart(world: World) -> None:
    world.log("orders")
    assert world.clean()
    world.logs.close(clean=True)
    again = World(world.directory)
    log = again.logs.get("orders", 0)
    assert log is not None
    assert log.offsets.first_dirty == 10
    assert not again.clean()


@pytest.mark.parametrize("number", [0, 1])
def test_a_round_begins_when_the_indexes_are_whole(world: World, number: int) -> None:
    for _ in range(2):
        log = world.log("orders", dirty=3 * BATCHES_AT_ONCE)
    world.logs.close(clean=True)
    sorted((world.directory / "orders-0").glob("*.index"))[number].unlink()
    again = World(world.directory)
    assert again.clean()
    found = again.logs.get("orders", 0)
    assert found is not None
    assert offsets(found) == [log.log_end_offset - 2, log.log_end_offset - 1]


def test_sources_are_removed_after_their_delay(world: World) -> None:
    log = world.log("orders")
    world.clean()
    due = world.logs.directories.take_due_files()
    assert due
    assert all(path.endswith(".deleted") for path in due)
    world.logs.directories.remove_files(due)
    assert len(list(Path(log.directory).glob("*.log"))) == 2


def test_a_deleted_topic_leaves_the_checkpoint(world: World) -> None:
    world.log("orders")
    world.log("others")
    world.clean()
    world.clean()
    with virtual_loop() as loop:
        task = loop.create_task(world.cleaner.run())
        loop.run_until_complete(asyncio.sleep(1))
        world.logs.delete("orders", 0)
        world.cleaner.partition_removed(None)
        loop.run_until_complete(asyncio.sleep(1))
        assert world.checkpoint() == {("others", 0): 10}
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    assert world.log("orders").offsets.first_dirty == 0


def test_a_deletion_does_not_trigger_a_check_of_other_logs(world: World) -> None:
    """With 50,000 partitions, a check of all logs takes 30 ms."""
    with virtual_loop() as loop:
        task = loop.create_task(world.cleaner.run())
        loop.run_until_complete(asyncio.sleep(1))
        world.log("orders")  # makes the log dirty
        for _ in range(3):
            world.cleaner.partition_removed(None)
            loop.run_until_complete(asyncio.sleep(1))
        assert world.rounds.plans == []
        loop.run_until_complete(asyncio.sleep(11.1))
        assert len(world.rounds.plans) == 1, "it has not put off the look that is due"
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))


def test_the_cleaner_checks_logs_again_after_backoff_ms(world: World) -> None:
    with virtual_loop() as loop:
        task = loop.create_task(world.cleaner.run())
        loop.run_until_complete(asyncio.sleep(1))
        world.log("orders")
        loop.run_until_complete(asyncio.sleep(13.9))
        assert world.rounds.plans == []
        loop.run_until_complete(asyncio.sleep(0.2))
        assert len(world.rounds.plans) == 1
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))


def test_cleaner_settings_bound_memory_and_rate(tmp_path: Path) -> None:
    world = World(
        tmp_path / "d",
        **{
            "log.cleaner.threads": 2,
            "log.cleaner.dedupe.buffer.size": 1000,
            "log.cleaner.io.max.bytes.per.second": 100.0,
        },
    )
    log = world.log("orders")
    size = log.segments.first.size
    with virtual_loop() as loop:
        assert loop.run_until_complete(world.cleaner.clean_dirtiest())
        assert world.rounds.plans[0].offset_map_bytes == 450
        assert loop.time() == pytest.approx((2 * size + log.segments.first.size) / 100, abs=1.0)


def test_altered_settings_count_at_once(world: World) -> None:
    with virtual_loop() as loop:
        task = loop.create_task(world.cleaner.run())
        loop.run_until_complete(asyncio.sleep(1))
        world.log("orders")
        world.set({"log.cleaner.dedupe.buffer.size": 10_000, "log.cleaner.io.buffer.load.factor": 0.5})
        world.cleaner.settings_changed()
        loop.run_until_complete(asyncio.sleep(0.1))
        assert [plan.offset_map_bytes for plan in world.rounds.plans] == [5000]
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))


def test_a_log_that_is_deleted_meanwhile_is_left_alone(world: World) -> None:
    log = world.log("orders")
    world.rounds.between = lambda: world.logs.delete("orders", 0) if world.logs.get("orders", 0) else None
    assert world.clean()
    assert log.failure is None
    assert world.logs.directories[0].failure is None
    assert not world.clean()


@pytest.mark.parametrize("report", [1, 2])
def test_a_log_that_moves_to_another_directory_meanwhile_is_compacted_there(tmp_path: Path, report: int) -> None:
    world = World(tmp_path / "d", more_directories=[str(tmp_path / "e")])
    log = world.log("orders")
    reports: list[bool] = []

    def move() -> None:
        reports.append(True)
        if len(reports) == report:
            copying = world.logs.futures.begin(log, world.logs.directories[1])
            while copying.step(1000):
                pass
            world.logs.futures.replace(log)

    world.rounds.between = move
    assert world.clean()
    moved = world.logs.get("orders", 0)
    assert moved is not None
    assert moved is not log
    assert not world.logs.directories.any_offline
    assert (moved.failure, moved.offsets.first_dirty) == (None, 0)
    assert offsets(moved)[-2:] == [8, 9]
    assert world.clean()
    assert offsets(moved) == [8, 9]


def test_a_log_that_is_deleted_after_its_last_group_does_not_stop_the_cleaner(world: World) -> None:
    log = world.log("orders")
    others = world.log("others", dirty=5)
    reports: list[bool] = []

    def delete_before_the_end() -> None:
        reports.append(True)
        if len(reports) == 2:
            world.logs.delete("orders", 0)

    world.rounds.between = delete_before_the_end
    assert world.clean()
    assert log.failure is None
    assert world.clean()
    assert offsets(others) == [3, 4]


def test_a_checkpoint_that_cannot_be_written_after_a_deletion_takes_its_directory_offline(tmp_path: Path) -> None:
    disk = FaultyDisk()
    world = World(tmp_path / "d", disk=disk)
    world.log("orders")
    assert world.clean()
    disk.fail = lambda operation, path: broken(operation, path) if path.endswith(CLEANER_FILE) else None
    world.logs.delete("orders", 0)
    with virtual_loop() as loop:
        task = loop.create_task(world.cleaner.run())
        loop.run_until_complete(asyncio.sleep(1))
        assert world.logs.directories[0].is_offline
        assert not task.done()
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))


def test_retention_that_takes_sources_overtakes_the_round(world: World) -> None:
    log = world.log("orders")

    def drop() -> None:
        log.delete_records_before(10)
        log.apply_retention(world.clock.now_ms, log.log_end_offset)

    world.rounds.between = drop
    assert world.clean()
    assert log.failure is None
    assert offsets(log) == []
    assert not list(Path(log.directory).glob("*.cleaned"))


@pytest.mark.parametrize(
    ("error", "goes_on", "log_fails", "directory_fails"),
    [
        (DiskFullError("append", "x", OSError(errno.ENOSPC, "full")), False, False, False),
        (DiskFailure("read", "x", OSError(errno.EIO, "broken")), True, True, True),
        (CorruptLogError("a batch fails its CRC"), True, True, False),
        (RoundFailedError("out of memory"), False, False, False),
    ],
)
def test_each_error_fails_the_round_the_log_or_the_directory(
    world: World, error: Exception, goes_on: bool, log_fails: bool, directory_fails: bool
) -> None:
    log = world.log("orders")
    before = offsets(log)

    def fail() -> None:
        raise error

    world.rounds.between = fail
    assert world.clean() is goes_on
    assert (log.failure is not None) is log_fails
    assert (world.logs.directories[0].failure is not None) is directory_fails
    if not log_fails:
        assert offsets(log) == before
        world.rounds.between = lambda: None
        assert world.clean()
        assert offsets(log) == [8, 9]


def test_a_log_whose_rounds_fail_again_and_again_is_left_alone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    log = world.log("orders")

    def fail() -> None:
        raise RoundFailedError("out of memory")

    with virtual_loop() as loop:
        world.rounds.between = fail
        task = loop.create_task(world.cleaner.run())
        loop.run_until_complete(asyncio.sleep(100))
        assert len(world.rounds.plans) == 3
        assert "orders-0 is not cleaned any more: out of memory" in caplog.text
        world.rounds.between = lambda: None
        others = world.log("others")
        loop.run_until_complete(asyncio.sleep(16))
        assert (len(offsets(others)), len(offsets(log))) == (2, 10)
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))


def test_a_stop_in_the_midst_of_a_swap_leaves_a_log_in_its_place(world: World) -> None:
    log = world.log("orders")
    with virtual_loop() as loop:
        task = loop.create_task(world.cleaner.clean_dirtiest())
        while world.workers.calls < 2:
            world.workers.held = world.workers.calls == 1
            loop.run_until_complete(asyncio.sleep(0))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    assert offsets(log) == [8, 9]
    assert not list(Path(log.directory).glob("*.swap"))


def test_with_a_malformed_checkpoint_all_records_are_dirty(world: World) -> None:
    world.log("orders")
    world.clean()
    world.logs.close(clean=True)
    (world.directory / CLEANER_FILE).write_text("0\n1\nnonsense\n")
    assert World(world.directory).clean()


class HeldAt(InlineWorkers):
    """Workers that hold one of the calls."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self._call = call

    async def run(self, call: Callable[[], T]) -> T:
        self.held = self.calls + 1 == self._call
        return await super().run(call)


DECIDE, SYNC = 1, 2
"""Positions of these calls among the workers' calls in a round of one group."""


def held_at(tmp_path: Path, call: int) -> World:
    world = World(tmp_path / "d")
    world.workers = world.cleaner._parts.workers = HeldAt(call)
    return world


def test_a_stop_while_a_swap_is_synced_finishes_it(tmp_path: Path) -> None:
    world = held_at(tmp_path, SYNC)
    log = world.log("orders")
    with virtual_loop() as loop:
        task = loop.create_task(world.cleaner.clean_dirtiest())
        while world.workers.calls < SYNC:
            loop.run_until_complete(asyncio.sleep(0))
        assert list(Path(log.directory).glob("*.swap"))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    assert task.cancelled()
    assert offsets(log) == [8, 9]
    assert not list(Path(log.directory).glob("*.swap"))


def test_a_log_that_fails_while_a_swap_is_synced_is_left_as_it_is(tmp_path: Path) -> None:
    world = held_at(tmp_path, SYNC)
    log = world.log("orders")
    with virtual_loop() as loop:
        task = loop.create_task(world.cleaner.clean_dirtiest())
        while world.workers.calls < SYNC:
            loop.run_until_complete(asyncio.sleep(0))
        log.health.damaged(CorruptLogError("found meanwhile"))
        world.workers.release()
        assert loop.run_until_complete(task)
    assert not world.logs.directories[0].is_offline


def test_a_full_disk_at_the_swap_leaves_the_log_unchanged_and_no_files(tmp_path: Path) -> None:
    disk = FaultyDisk()
    world = World(tmp_path / "d", disk=disk)
    log = world.log("orders")
    disk.fail = lambda operation, path: full(operation, path) if operation == "rename" else None
    assert not world.clean()
    assert len(offsets(log)) == 10
    assert not list(Path(log.directory).glob("*.cleaned"))
    disk.fail = lambda operation, path: None
    assert world.clean()
    assert offsets(log) == [8, 9]


def test_a_full_disk_at_the_checkpoint_is_no_failure_of_the_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    world = World(tmp_path / "d", disk=disk)
    log = world.log("orders")
    disk.fail = lambda operation, path: full(operation, path) if CLEANER_FILE in path else None
    assert world.clean()
    assert f"{CLEANER_FILE} stays as it was" in caplog.text
    assert not world.logs.directories[0].is_offline
    assert offsets(log) == [8, 9]


def test_an_error_on_a_log_deleted_during_its_round_keeps_the_directory_online(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    log = world.log("orders")

    def delete_and_fail() -> None:
        world.logs.delete("orders", 0)
        raise DiskFailure("read", "x", OSError(errno.ENOENT, "No such file or directory"))

    world.rounds.between = delete_and_fail
    with caplog.at_level("INFO"):
        assert world.clean()
    assert "The cleaning of orders-0 was overtaken" in caplog.text
    assert (log.failure, world.logs.directories[0].failure) == (None, None)


def test_the_number_of_removed_records_without_a_key_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The records were stored before their topic became compacted."""
    log = world.log("orders", dirty=0, config=LogConfig())
    log.append(batch(b"v", key=None), leader_epoch=0)
    log.update_config(CONFIG)
    world.log("orders")
    assert world.clean()
    assert "1 records of orders-0 had no key" in caplog.text
    assert offsets(log) == [9, 10]
