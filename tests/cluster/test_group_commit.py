"""Group commit: which requests wait for a flush, which one flush serves, and errors if no flush succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from kwire.cluster.partitions import group_commit
from kwire.cluster.partitions.group_commit import GroupCommit
from kwire.cluster.partitions.partition import Partition
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import STEPS_AT_ONCE
from kwire.log.replay import BATCHES_AT_ONCE
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.cluster.world import InlineWorkers
from tests.coordinator.world import topic_image
from tests.log.faults import FaultyDisk, broken, full
from tests.log.support import surroundings
from tests.support.metadata import Alone
from tests.support.requests import batch


class Watcher:
    """A waiter that records the notifications of a partition."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def data_available(self, size: int) -> None:
        self.heard.append(size)

    def state_changed(self) -> None:
        self.heard.append(0)


class Scene:
    """A partition of a log manager on a disk that can fail, with workers that can be held."""

    def __init__(self, directory: Path, flush_messages: int) -> None:
        self.disk = FaultyDisk()
        self.workers = InlineWorkers()
        self.failures: list[BaseException] = []
        self.logs = LogManager([str(directory / "d")], surroundings(self.disk))
        self.group_commit = GroupCommit(self.logs, self.workers, failed=self.failures.append)
        log = self.logs.get_or_create("t", 0, LogConfig(flush_messages=flush_messages), None)
        image = topic_image("t", 1, 1).partitions[0]
        self.partition = Partition(
            topic="t",
            topic_id=UUID(int=1),
            index=0,
            image=image,
            log=log,
            group_commit=self.group_commit,
            peers=Alone(),
        )
        self.watcher = Watcher()
        self.partition.wait(self.watcher)

    def append(self, *values: bytes) -> int:
        return self.partition.append(batch(*values), 1).last_offset


def play(scene: Scene, acts: Callable[[], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        await acts()
        await scene.group_commit.close()

    asyncio.run(all_of_it())


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, flush_messages=1)


def test_unflushed_records_cannot_be_read(scene: Scene) -> None:
    partition = scene.partition

    async def acts() -> None:
        scene.workers.held = True
        scene.append(b"a")
        assert (partition.log.log_end_offset, partition.high_watermark) == (1, 0)
        assert scene.watcher.heard == []
        scene.workers.release()
        await scene.group_commit.close()
        assert (partition.high_watermark, partition.log.recovery_point) == (1, 1)
        assert scene.watcher.heard == [len(batch(b"a"))]
        assert not partition.waits_for_flush

    play(scene, acts)


def test_one_flush_serves_all_that_came_during_the_one_before(scene: Scene) -> None:
    async def acts() -> None:
        scene.workers.held = True
        scene.append(b"first")
        await asyncio.sleep(0)
        for _ in range(50):
            scene.append(b"later")
        scene.workers.release()
        await scene.group_commit.close()
        assert scene.workers.calls == 2
        assert scene.partition.high_watermark == 51

    play(scene, acts)


def test_appends_below_the_count_do_not_wait(tmp_path: Path) -> None:
    scene = Scene(tmp_path, flush_messages=3)

    async def acts() -> None:
        scene.workers.held = True
        scene.append(b"a", b"b")
        assert scene.partition.high_watermark == 2
        assert not scene.partition.waits_for_flush
        scene.append(b"c")
        assert scene.partition.high_watermark == 2
        scene.append(b"d")
        scene.workers.release()
        await scene.group_commit.close()
        assert scene.partition.high_watermark == scene.partition.log.recovery_point == 4
        scene.append(b"e")
        assert scene.partition.high_watermark == 5

    play(scene, acts)


def test_a_larger_count_does_not_let_later_appends_overtake(scene: Scene) -> None:
    async def acts() -> None:
        scene.workers.held = True
        scene.append(b"a")
        scene.partition.log.update_config(LogConfig())
        scene.append(b"b")
        assert scene.partition.high_watermark == 0
        scene.workers.release()
        await scene.group_commit.close()
        assert scene.partition.high_watermark == 2

    play(scene, acts)


def test_a_failed_fsync_wakes_all_waiters_and_takes_the_log_offline(scene: Scene) -> None:
    async def acts() -> None:
        scene.disk.fail = lambda operation, path: broken(operation, path) if operation == "fsync" else None
        scene.append(b"a")
        await scene.group_commit.close()
        assert scene.partition.log.failure is not None
        assert scene.partition.high_watermark == 0
        assert scene.watcher.heard == [0]

    play(scene, acts)


def test_a_log_deleted_during_its_flush_is_left_alone(scene: Scene) -> None:
    async def acts() -> None:
        scene.workers.held = True
        scene.append(b"a")
        await asyncio.sleep(0)
        scene.logs.delete("t", 0)
        scene.workers.release()
        await scene.group_commit.close()
        assert scene.partition.high_watermark == 0
        assert scene.logs.directories[0].failure is None

    play(scene, acts)


def test_a_full_disk_holds_a_flush_up_until_there_is_space(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "FULL_DISK_PAUSE_SECONDS", 0.001)

    async def acts() -> None:
        scene.disk.fail = lambda operation, path: full(operation, path) if "leader-epoch" in path else None
        scene.partition.log.leader_epochs.assign(5, scene.partition.log.log_end_offset)
        scene.append(b"a")
        while not any(operation == "replace" for operation, _ in scene.disk.operations[-3:]):
            await asyncio.sleep(0)
        assert scene.partition.high_watermark == 0
        scene.disk.fail = lambda operation, path: None
        while scene.partition.waits_for_flush:
            await asyncio.sleep(0)
        assert (scene.partition.high_watermark, scene.failures) == (1, [])

    play(scene, acts)


def test_a_close_gives_up_what_a_full_disk_holds_up(scene: Scene) -> None:
    async def acts() -> None:
        scene.disk.fail = lambda operation, path: full(operation, path) if "leader-epoch" in path else None
        scene.partition.log.leader_epochs.assign(5, scene.partition.log.log_end_offset)
        scene.append(b"a")
        await asyncio.wait_for(scene.group_commit.close(), 10)
        assert (scene.partition.high_watermark, scene.failures) == (0, [])

    play(scene, acts)


def test_an_unexpected_flush_error_stops_the_broker(scene: Scene) -> None:
    bug = RuntimeError("a bug")

    def broken_begin(log: object) -> None:
        raise bug

    async def acts() -> None:
        scene.append(b"a")
        scene.group_commit._logs = cast("LogManager", SimpleNamespace(begin_flush=broken_begin))
        await scene.group_commit.close()
        assert scene.failures == [bug]

    play(scene, acts)


@pytest.mark.parametrize("lacking", ["replace", "fsync"], ids=["space", "a descriptor"])
def test_a_flush_that_was_tried_in_vain_is_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lacking: str
) -> None:
    monkeypatch.setattr(group_commit, "FULL_DISK_PAUSE_SECONDS", 0.001)

    async def acts() -> None:
        scene.disk.fail = lambda operation, path: (
            full(operation, path) if operation == lacking and "leader-epoch" in path else None
        )
        scene.partition.log.leader_epochs.assign(5, scene.partition.log.log_end_offset)
        scene.append(b"a")
        while caplog.text.count("cannot flush") < 2:
            await asyncio.sleep(0)
        assert scene.partition.high_watermark == 0
        scene.disk.fail = lambda operation, path: None
        while scene.partition.waits_for_flush:
            await asyncio.sleep(0)
        assert (scene.partition.high_watermark, scene.failures) == (1, [])

    play(scene, acts)


def as_follower_of(scene: Scene, batches: int) -> None:
    """Make the partition follow broker 2, with this many batches of a producer in its log."""
    for sequence in range(batches):
        data = batch(b"x", producer_id=7, producer_epoch=0, sequence=sequence)
        scene.partition.append(data, 1)
    followed = replace(scene.partition.image, replicas=(1, 2), isr=(1, 2), leader=2, leader_epoch=1)
    scene.partition.update(followed, is_led=False)


def following(directory: Path, batches: int) -> Scene:
    """Return a partition that follows broker 2, with this many batches in its log; none of them requires a flush."""
    scene = Scene(directory, flush_messages=2**62)
    as_follower_of(scene, batches)
    return scene


def test_producer_state_after_a_truncation_is_derived_in_steps(tmp_path: Path) -> None:
    batches = 4 * BATCHES_AT_ONCE
    scene = following(tmp_path, batches)
    settled: list[int] = []
    partition = scene.partition
    partition.on_log_durable = lambda: settled.append(partition.log.producers.entries[7].last_sequence)
    turns = 0

    async def acts() -> None:
        nonlocal turns
        partition.truncate_to_leaders_end(batches - 1)
        assert partition.waits_for_flush
        while not settled:
            turns += 1
            await asyncio.sleep(0)
        assert (partition.waits_for_flush, partition.log.pending_truncation) == (False, None)
        assert 0 in scene.watcher.heard  # a delayed read_committed fetch may depend on it

    play(scene, acts)
    assert settled == [batches - 2]
    assert turns >= 3


def test_a_flush_that_ends_after_the_cut_does_not_settle_it(tmp_path: Path) -> None:
    """The recovery point equals the log end then, so only the truncation itself shows that work remains."""
    scene = following(tmp_path, 3)
    partition = scene.partition
    partition.log.flush()

    async def acts() -> None:
        partition.truncate_to_leaders_end(2)
        partition.flushed()
        assert partition.waits_for_flush
        await scene.group_commit.close()
        assert not partition.waits_for_flush

    play(scene, acts)


def test_a_topic_deleted_while_a_cut_is_settled_is_left_alone(tmp_path: Path) -> None:
    scene = following(tmp_path, 2 * BATCHES_AT_ONCE)

    async def acts() -> None:
        scene.partition.truncate_to_leaders_end(2 * BATCHES_AT_ONCE - 1)
        await asyncio.sleep(0)
        scene.logs.delete("t", 0)
        await scene.group_commit.close()
        assert (scene.logs.directories[0].failure, scene.failures) == (None, [])

    play(scene, acts)


def test_a_new_leader_completes_its_pending_truncation(tmp_path: Path) -> None:
    scene = following(tmp_path, 3)
    partition = scene.partition

    async def acts() -> None:
        partition.truncate_to_leaders_end(2)
        partition.update(replace(partition.image, leader=1, leader_epoch=2), is_led=True)
        assert partition.log.producers.entries[7].last_sequence == 1
        again = partition.append(batch(b"x", producer_id=7, producer_epoch=0, sequence=1), 1)
        assert (again.is_duplicate, again.base_offset) == (True, 1)

    play(scene, acts)


def test_a_new_leader_accepts_appends_after_a_long_pending_truncation(tmp_path: Path) -> None:
    batches = (STEPS_AT_ONCE + 2) * BATCHES_AT_ONCE
    scene = following(tmp_path, batches)
    partition = scene.partition

    async def acts() -> None:
        partition.truncate_to_leaders_end(batches - 1)
        partition.update(replace(partition.image, leader=1, leader_epoch=2), is_led=True)
        again = batch(b"x", producer_id=7, producer_epoch=0, sequence=batches - 2)
        with pytest.raises(KafkaError, match="is still completing a truncation; retry") as rejected:
            partition.append(again, 1)
        assert rejected.value.code is ErrorCode.KAFKA_STORAGE_ERROR, "the client asks again"
        while partition.log.pending_truncation is not None:
            await asyncio.sleep(0)
        assert partition.append(again, 1).is_duplicate
        assert not partition.append(batch(b"x", producer_id=7, producer_epoch=0, sequence=batches - 1), 1).is_duplicate

    play(scene, acts)


def test_a_cut_that_could_not_be_settled_is_tried_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "FULL_DISK_PAUSE_SECONDS", 0.001)
    partition = scene.partition
    partition.log.update_config(LogConfig())
    as_follower_of(scene, 3)

    async def acts() -> None:
        rejected: list[str] = []

        def reject(operation: str, path: str) -> DiskFailure | None:
            if operation == "read" and len(rejected) < 2:
                rejected.append(path)
                return full(operation, path)
            return None

        partition.truncate_to_leaders_end(2)
        scene.disk.fail = reject
        while partition.waits_for_flush:
            await asyncio.sleep(0)
        assert (len(rejected), partition.log.pending_truncation, scene.failures) == (2, None, [])

    play(scene, acts)


def test_a_new_leader_whose_disk_fails_while_it_settles_ends_no_broker(tmp_path: Path) -> None:
    scene = following(tmp_path, 3)
    partition = scene.partition

    async def acts() -> None:
        partition.truncate_to_leaders_end(2)
        scene.disk.fail = lambda operation, path: broken(operation, path) if operation == "fsync" else None
        partition.update(replace(partition.image, leader=1, leader_epoch=2), is_led=True)
        assert partition.log.failure is not None
        with pytest.raises(KafkaError):
            partition.append(batch(b"x"), 1)

    play(scene, acts)
