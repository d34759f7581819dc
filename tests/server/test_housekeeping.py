"""Periodic work of the broker in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import CurrentSettings
from kwire.log.config import LogConfig
from kwire.log.errors import CorruptLogError
from kwire.log.flushing import FlushJob
from kwire.log.index_rebuild import BATCHES_AT_ONCE
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.log.retention import SEGMENTS_AT_ONCE
from kwire.server.assembly.housekeeping import (
    FIRST_SCRUB_SECONDS,
    HIGH_WATERMARK_STEP_MS,
    SCRUB_BYTES_PER_SECOND,
    SCRUB_PAUSE_SECONDS,
    Housekeeping,
)
from tests.cluster.world import InlineWorkers
from tests.log.faults import FaultyDisk, broken, full
from tests.log.support import ManualClock, batch, surroundings
from tests.support.compiled import replaces_methods
from tests.virtual_loop import virtual_loop

SEGMENT_BYTES = 1024 * 1024
SEGMENTS = 8
T = TypeVar("T")


def test_a_flipped_bit_is_found_by_a_later_pass_at_a_bounded_rate(tmp_path: Path) -> None:
    logs = LogManager([str(tmp_path / "d")], surroundings())
    log = logs.get_or_create("t", 0, LogConfig(segment_bytes=SEGMENT_BYTES), None)
    while len(log.segments) <= SEGMENTS:
        log.append(batch(b"x" * 60_000), leader_epoch=0)
    housekeeping = Housekeeping(
        settings=cast("Any", None),
        image=lambda: cast("Any", None),
        partitions=cast("Any", ()),
        logs=logs,
        workers=InlineWorkers(),
    )
    pass_seconds = SEGMENTS * SEGMENT_BYTES / SCRUB_BYTES_PER_SECOND

    def failures() -> list[type]:
        return [] if log.failure is None else [type(log.failure)]

    async def acts() -> None:
        task = asyncio.get_running_loop().create_task(housekeeping._scrub())
        await asyncio.sleep(FIRST_SCRUB_SECONDS + pass_seconds + 1)
        assert not failures()
        path = Path(log.segments[SEGMENTS - 1].file.path)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        await asyncio.sleep(SCRUB_PAUSE_SECONDS - 1 + pass_seconds / 2)
        assert not failures()  # a pass takes some time
        await asyncio.sleep(pass_seconds / 2)
        assert failures() == [CorruptLogError]
        task.cancel()

    with virtual_loop() as loop:
        loop.run_until_complete(acts())
    logs.close(clean=False)


def test_flushes_continue_when_a_directory_with_several_of_them_fails(tmp_path: Path) -> None:
    disk = FaultyDisk()
    paths = [str(tmp_path / name) for name in ("d0", "d1")]
    logs = LogManager(paths, surroundings(disk))
    found = [logs.get_or_create("t", partition, LogConfig(flush_ms=0), None) for partition in range(4)]
    for log in found:
        log.append(batch(b"x"), leader_epoch=0)
    disk.fail = lambda what, path: broken(what, path) if what == "fsync" and path.startswith(paths[0]) else None
    housekeeping = Housekeeping(
        settings=cast("Any", None),
        image=lambda: cast("Any", None),
        partitions=cast("Any", ()),
        logs=logs,
        workers=InlineWorkers(),
    )
    with virtual_loop() as loop:
        task = loop.create_task(housekeeping._flush())
        loop.run_until_complete(asyncio.sleep(3))
        assert not task.done()
        task.cancel()
    assert [log.failure is not None for log in found] == [True, False, True, False]
    assert [log.recovery_point for log in found[1::2]] == [1, 1]
    logs.close(clean=False)


class SlowWorkers:
    """Workers with a delay after each call, as with a slow disk."""

    async def run(self, work: Callable[[], T]) -> T:
        result = work()
        await asyncio.sleep(0.7)
        return result


def test_concurrent_checkpoints_do_not_remove_each_others_files(tmp_path: Path) -> None:
    logs = LogManager([str(tmp_path / "d")], surroundings())
    logs.get_or_create("t", 0, LogConfig(), None)
    image = SimpleNamespace(replicas=(1, 2))
    partition = SimpleNamespace(topic="t", index=0, image=image, high_watermark=0)
    housekeeping = Housekeeping(
        settings=cast("Any", None),
        image=lambda: cast("Any", None),
        partitions=cast("Any", (partition,)),
        logs=logs,
        workers=cast("Any", SlowWorkers()),
    )
    with virtual_loop() as loop:
        tasks = [
            loop.create_task(housekeeping._write_checkpoints(1000)),
            loop.create_task(housekeeping._write_high_watermarks(1000)),
        ]
        for high_watermark in range(1, 20):
            partition.high_watermark = high_watermark
            loop.run_until_complete(asyncio.sleep(1))
        assert not any(task.done() for task in tasks)
        assert not logs.directories[0].is_offline
        for task in tasks:
            task.cancel()
    logs.close(clean=False)


def housekeeping_of(logs: LogManager, **parts: Any) -> Housekeeping:
    return Housekeeping(
        settings=CurrentSettings(default_settings() | {"producer.id.expiration.ms": 1000} | parts.pop("values", {})),
        image=lambda: cast("Any", None),
        partitions=cast("Any", parts.pop("partitions", ())),
        logs=logs,
        workers=parts.pop("workers", InlineWorkers()),
        **parts,
    )


def test_producers_that_are_silent_are_forgotten(tmp_path: Path) -> None:
    clock = ManualClock()
    logs = LogManager([str(tmp_path / "d")], surroundings(clock=clock))
    log = logs.get_or_create("t", 0, LogConfig(), None)
    log.append(batch(b"x", timestamp=clock.now_ms, producer_id=7, producer_epoch=0, sequence=0), leader_epoch=0)
    housekeeping = housekeeping_of(logs)
    housekeeping._expire_producers(log)
    assert list(log.producers.entries) == [7]
    clock.now_ms += 2000
    housekeeping._expire_producers(log)
    assert list(log.producers.entries) == []
    logs.close(clean=False)


def test_retention_waits_for_an_index_rebuild(tmp_path: Path) -> None:
    clock = ManualClock()
    config = LogConfig(retention_ms=1000)
    logs = LogManager([str(tmp_path / "d")], surroundings(clock=clock))
    log = logs.get_or_create("t", 0, config, None)
    for _ in range(3 * BATCHES_AT_ONCE):
        log.append(batch(b"x", timestamp=clock.now_ms), leader_epoch=0)
    log.roll()
    logs.close(clean=True)
    (tmp_path / "d" / "t-0" / f"{0:020d}.index").unlink()
    clock.now_ms += 2000
    logs = LogManager([str(tmp_path / "d")], surroundings(clock=clock))
    logs.load_all(lambda topic: config)
    (log,) = logs.logs()
    partition = SimpleNamespace(log=log, high_watermark=log.log_end_offset, log_start_moved=lambda: None)
    housekeeping = housekeeping_of(logs, partitions=SimpleNamespace(get=lambda *_: partition))
    with virtual_loop() as loop:
        task = loop.create_task(housekeeping._every(300_000, housekeeping._apply_retention, 0))
        loop.run_until_complete(asyncio.sleep(1))
        task.cancel()
    assert log.segments.first.base_offset == log.log_end_offset
    logs.close(clean=False)


@replaces_methods
def test_a_flush_without_space_is_tried_again_and_a_log_that_goes_meanwhile_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logs = LogManager([str(tmp_path / "d")], surroundings())
    gone, kept = [logs.get_or_create(name, 0, LogConfig(flush_ms=0), None) for name in ("gone", "kept")]
    for log in (gone, kept):
        log.append(batch(b"x"), leader_epoch=0)
    begin, failures = logs.begin_flush, [full("append", "the index")]

    def without_space(log: PartitionLog) -> FlushJob | None:
        if logs.get("gone", 0) is not None:
            logs.delete("gone", 0)
        if log is kept and failures:
            raise failures.pop()
        return begin(log)

    monkeypatch.setattr(logs, "begin_flush", without_space)
    with virtual_loop() as loop:
        task = loop.create_task(housekeeping_of(logs)._flush())
        loop.run_until_complete(asyncio.sleep(5))
        assert not task.done()
        task.cancel()
    assert "cannot flush, the disk is full" in caplog.text
    assert kept.recovery_point == 1
    logs.close(clean=False)


def test_memory_is_given_back_by_a_worker_when_it_is_due(tmp_path: Path) -> None:
    logs = LogManager([str(tmp_path / "d")], surroundings())
    given: list[float] = []
    with virtual_loop() as loop:
        memory = SimpleNamespace(is_due=True, give_back=lambda: given.append(loop.time()))
        task = loop.create_task(housekeeping_of(logs, memory=cast("Any", memory))._return_memory())
        loop.run_until_complete(asyncio.sleep(60))
        assert given
        memory.is_due = False
        before = len(given)
        loop.run_until_complete(asyncio.sleep(60))
        assert len(given) == before
        task.cancel()
    logs.close(clean=False)


@pytest.mark.parametrize("interval_ms", [-1, 0])
def test_high_watermarks_are_not_written_all_the_time(tmp_path: Path, interval_ms: int) -> None:
    """The setting has no minimum value."""
    logs = LogManager([str(tmp_path / "d")], surroundings())
    looks = 0

    class Counted:
        def __iter__(self) -> Iterator[Any]:
            nonlocal looks
            looks += 1
            return iter(())

    settings = {
        "log.retention.check.interval.ms": 300_000,
        "log.initial.task.delay.ms": 30_000,
        "producer.id.expiration.check.interval.ms": 600_000,
        "log.flush.offset.checkpoint.interval.ms": 60_000,
        "replica.high.watermark.checkpoint.interval.ms": interval_ms,
    }
    housekeeping = housekeeping_of(logs, values=settings, partitions=Counted())
    with virtual_loop() as loop:
        tasks = [loop.create_task(work) for work in housekeeping.tasks()]
        loop.run_until_complete(asyncio.sleep(10))
        assert 10 <= looks <= 1000 * 10 / HIGH_WATERMARK_STEP_MS + 10
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    logs.close(clean=False)


def test_the_loop_turns_between_two_parts_of_what_retention_removes(tmp_path: Path) -> None:
    clock = ManualClock()
    logs = LogManager([str(tmp_path / "d")], surroundings(clock=clock))
    logs_of = [logs.get_or_create("t", partition, LogConfig(retention_ms=1), None) for partition in range(2)]
    for log in logs_of:
        for _ in range(2 * SEGMENTS_AT_ONCE + 1):
            log.append(batch(b"x", timestamp=clock.now_ms), leader_epoch=0)
            log.roll()
    clock.now_ms += 1000
    moved: list[int] = []
    partitions = {
        log.partition: SimpleNamespace(
            log=log, high_watermark=log.log_end_offset, log_start_moved=partial(moved.append, log.partition)
        )
        for log in logs_of
    }
    found = SimpleNamespace(get=lambda topic, index: partitions[index])
    housekeeping = housekeeping_of(logs, partitions=found)
    left: list[int] = []

    async def act() -> None:
        work = asyncio.get_running_loop().create_task(housekeeping._every(1000, housekeeping._apply_retention, 0))
        while not left or left[-1] > len(logs_of):
            left.append(sum(len(log.segments) for log in logs_of))
            await asyncio.sleep(0)
        work.cancel()

    with virtual_loop() as loop:
        loop.run_until_complete(act())
    assert left[0] == 2 * len(logs_of) * (SEGMENTS_AT_ONCE + 1)
    assert max(before - after for before, after in itertools.pairwise(left)) == SEGMENTS_AT_ONCE
    assert moved == [0, 0, 0, 1, 1, 1]
    logs.close(clean=False)


def test_the_loop_turns_between_the_logs_that_retention_looks_at(tmp_path: Path) -> None:
    """The first retention check after a start loads indexes, which takes some milliseconds for each log."""
    logs = LogManager([str(tmp_path / "d")], surroundings())
    found = [logs.get_or_create("t", partition, LogConfig(), None) for partition in range(5)]
    housekeeping = housekeeping_of(logs)
    seen: list[str] = []

    def look(log: PartitionLog) -> None:
        seen.append(f"{log.topic}-{log.partition}")

    async def turns() -> None:
        while len(seen) < 2 * len(found):
            seen.append("turn")
            await asyncio.sleep(0)

    with virtual_loop() as loop:
        turning = loop.create_task(turns())
        work = loop.create_task(housekeeping._every(1000, look, 0))
        loop.run_until_complete(turning)
        work.cancel()
        loop.run_until_complete(asyncio.gather(work, return_exceptions=True))
    looked = [index for index, each in enumerate(seen) if each != "turn"]
    assert [seen[index] for index in looked] == [f"t-{partition}" for partition in range(5)]
    assert all(after - before > 1 for before, after in itertools.pairwise(looked))
    logs.close(clean=False)
