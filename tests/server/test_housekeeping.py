"""What the broker does by itself, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from kwire.log.config import LogConfig
from kwire.log.errors import CorruptLogError
from kwire.log.log_manager import LogManager
from kwire.server.housekeeping import FIRST_SCRUB_SECONDS, SCRUB_BYTES_PER_SECOND, SCRUB_PAUSE_SECONDS, Housekeeping
from tests.cluster.world import InlineWorkers
from tests.log.faults import FaultyDisk, broken
from tests.log.support import batch, surroundings
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
        config=cast("Any", SimpleNamespace()),
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
        assert not failures()  # a pass takes its time
        await asyncio.sleep(pass_seconds / 2)
        assert failures() == [CorruptLogError]
        task.cancel()

    with virtual_loop() as loop:
        loop.run_until_complete(acts())
    logs.close(clean=False)


def test_flushes_go_on_when_a_directory_with_several_of_them_fails(tmp_path: Path) -> None:
    disk = FaultyDisk()
    paths = [str(tmp_path / name) for name in ("d0", "d1")]
    logs = LogManager(paths, surroundings(disk))
    found = [logs.get_or_create("t", partition, LogConfig(flush_ms=0), None) for partition in range(4)]
    for log in found:
        log.append(batch(b"x"), leader_epoch=0)
    disk.fail = lambda what, path: broken(what, path) if what == "fsync" and path.startswith(paths[0]) else None
    housekeeping = Housekeeping(
        config=cast("Any", SimpleNamespace()),
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
    """The disk takes its time after the work."""

    async def run(self, work: Callable[[], T]) -> T:
        result = work()
        await asyncio.sleep(0.7)
        return result


def test_checkpoints_that_are_due_at_once_do_not_take_each_others_files_away(tmp_path: Path) -> None:
    logs = LogManager([str(tmp_path / "d")], surroundings())
    logs.get_or_create("t", 0, LogConfig(), None)
    image = SimpleNamespace(replicas=(1, 2))
    partition = SimpleNamespace(topic="t", index=0, image=image, high_watermark=0)
    housekeeping = Housekeeping(
        config=cast("Any", SimpleNamespace()),
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
