"""Share coordinator's state: snapshots, epochs, restarts, pruning, deleted topics and changes of the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kwire.coordinator import loading
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.memory import BATCH_BYTES, PARTITION_BYTES
from kwire.coordinator.share.state import ShareState, ShareUpdate
from kwire.coordinator.share_coordinator import BATCHES_AT_ONCE, BATCHES_MAX
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.coordinator.share.world import KEY, OTHER_ID, TOPIC_ID, ShareWorld
from tests.virtual_loop import virtual_loop

Acts = Callable[[ShareWorld], Coroutine[Any, Any, None]]
MINUTES_MS = 60_000


def run(directory: Path, acts: Acts, **config: Any) -> None:
    async def main(world: ShareWorld) -> None:
        await world.start()
        try:
            await acts(world)
        finally:
            world.stop()

    with virtual_loop() as loop:
        loop.run_until_complete(main(ShareWorld(directory, loop, **config)))


def rejected(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        call()
    return error.value.code


def test_a_snapshot_follows_after_the_configured_number_of_updates(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=0)
        for offset in range(7):
            world.write((offset, offset, 2, 1), delivery_complete_count=offset + 1)
        values = [record.value for record in world.new_records()]
        kinds = "".join("S" if isinstance(value, ShareState) else "u" for value in values)
        assert kinds == "SuuuSuuu"
        assert [value.snapshot_epoch for value in values if value is not None] == [0, 0, 0, 0, 1, 1, 1, 1]
        snapshot = values[4]
        assert isinstance(snapshot, ShareState)
        assert (snapshot.batches, snapshot.delivery_complete_count) == (((0, 3, 2, 1),), 4)
        before = world.state()
        assert before.batches == ((0, 6, 2, 1),)
        await world.restart()
        assert world.state() == before
        world.write((7, 7, 2, 1))
        assert isinstance(world.new_records()[-1].value, ShareState)

    run(tmp_path, acts, updates_per_snapshot=3)


def test_without_updates_every_write_is_a_snapshot(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=5)
        world.write((5, 6, 0, 1), (6, 7, 2, 1))
        world.write((8, 9, 0, 1), start=6)
        values = [record.value for record in world.new_records()]
        assert all(isinstance(value, ShareState) for value in values)
        assert world.state().batches == ((6, 7, 2, 1), (8, 9, 0, 1))

    run(tmp_path, acts, updates_per_snapshot=0)


def test_a_new_leader_is_stored_by_its_read(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise()
        read = world.coordinator.read
        read(KEY, leader_epoch=5)
        read(KEY, leader_epoch=5)
        read(KEY, leader_epoch=-1)
        world.write(leader_epoch=9)
        update = ShareUpdate(snapshot_epoch=0, leader_epoch=5, start_offset=-1, delivery_complete_count=-1, batches=())
        values = [record.value for record in world.new_records()[1:]]
        assert values[0] == update
        assert isinstance(values[1], ShareUpdate)
        assert (len(values), values[1].leader_epoch) == (2, 5)
        world.initialise(epoch=1, start=3)
        assert (world.state().leader_epoch, world.state().snapshot_epoch) == (0, 1)
        assert rejected(lambda: read(KEY, leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
        await world.restart()
        assert rejected(lambda: world.coordinator.read(KEY, leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
        assert rejected(lambda: world.write(leader_epoch=5)) is ErrorCode.FENCED_STATE_EPOCH

    run(tmp_path, acts)


def test_an_answer_waits_for_the_commit_of_what_it_contains(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=0)
        world.hold_commits()
        written = world.write((0, 0, 2, 1))
        read = world.coordinator.read(KEY, leader_epoch=-1)
        summed = world.coordinator.read_summary(KEY)
        late = world.coordinator.delete(ShareKey("other", TOPIC_ID, 0))
        answers = [written, read, summed, late]
        assert all(isinstance(answer, asyncio.Future) and not answer.done() for answer in answers)
        world.release_commits()
        state = await read  # type: ignore[misc]
        assert state.batches == ((0, 0, 2, 1),)

    run(tmp_path, acts)


def test_a_write_that_is_not_committed_in_time_fails_and_stays(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=0)
        world.hold_commits()
        written = world.write((0, 0, 2, 1))
        with pytest.raises(KafkaError) as error:
            await written  # type: ignore[misc]
        assert error.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.release_commits()
        assert world.state().batches == ((0, 0, 2, 1),)

    run(tmp_path, acts, write_timeout_ms=100)


def test_a_rejected_append_changes_nothing(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=0)
        world.reject_appends(reject=True)
        assert rejected(lambda: world.write((0, 0, 2, 1))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert rejected(lambda: world.coordinator.read(KEY, leader_epoch=3)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.state().batches == ()
        world.reject_appends(reject=False)
        world.coordinator.read(KEY, leader_epoch=2)
        assert world.state().leader_epoch == 2

    run(tmp_path, acts)


def test_another_leader_takes_over_and_this_one_loads_the_state_again(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=0)
        world.hold_commits()
        waiting = world.write((0, 3, 2, 1))
        world.lead(2)
        with pytest.raises(KafkaError) as error:
            await waiting  # type: ignore[misc]
        assert error.value.code is ErrorCode.NOT_COORDINATOR
        assert rejected(world.initialise) is ErrorCode.NOT_COORDINATOR
        world.release_commits()
        world.lead(1)
        await world.coordinator.loaded()
        assert world.state().batches == ((0, 3, 2, 1),)
        assert world.coordinator._memory._partitions == 1

    run(tmp_path, acts)


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_memory_is_released_with_a_shard_that_is_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(loading, "SLICE_MS", 0.0)

    async def acts(world: ShareWorld) -> None:
        for number in range(300):
            key = ShareKey(f"g{number}", TOPIC_ID, 0)
            world.initialise(key)
            world.write((0, 0, 2, 1), (2, 2, 2, 1), key=key)
        memory = world.coordinator._memory
        assert (memory._partitions, memory._batches) == (300, 600)
        world.lead(2)
        assert (memory._partitions, memory._batches) == (0, 0)
        world.lead(1)
        for _ in range(turns):
            await asyncio.sleep(0)
        world.lead(2)
        assert (memory._partitions, memory._batches) == (0, 0)
        world.lead(1)
        await world.coordinator.loaded()
        assert (memory._partitions, memory._batches) == (300, 600)

    run(tmp_path, acts)


def test_old_records_are_pruned_and_a_restart_needs_none_of_them(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        keys = [ShareKey(group, TOPIC_ID, partition) for group in "ab" for partition in range(3)]
        for key in keys:
            world.initialise(key, start=0)
        for offset in range(20):
            for key in keys:
                world.write((offset, offset, 2, 1), key=key)
        before = {key: world.state(key) for key in keys}
        await asyncio.sleep(1.5)
        start = world.partition.log.log_start_offset
        assert 0 < start == world.machine.lowest_needed_offset()
        assert len(world.records()) < len(keys) * 8
        await world.restart()
        assert {key: world.state(key) for key in keys} == before
        for key in keys:
            world.coordinator.delete(key)
        await asyncio.sleep(1.5)
        assert [record.value for _, record in world.records()] == [None]
        await world.restart()
        assert not world.machine.partitions

    run(tmp_path, acts, updates_per_snapshot=5, prune_interval_ms=1000)


def test_uncommitted_snapshots_prune_nothing(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=0)
        world.hold_commits()
        world.initialise(epoch=1, start=0)
        await asyncio.sleep(3)
        assert world.partition.log.log_start_offset == 0
        world.release_commits()
        assert world.partition.log.log_start_offset == 1

    run(tmp_path, acts, prune_interval_ms=1000)


def test_cold_share_partitions_get_a_snapshot_so_that_the_others_can_be_pruned(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        cold, warm = KEY, ShareKey("g", TOPIC_ID, 1)
        world.initialise(cold, start=7)
        world.initialise(warm, start=0)
        created_ms = world.state(cold).create_ms
        for offset in range(16):
            await asyncio.sleep(60)
            world.write((offset, offset, 2, 1), key=warm)
        state = world.state(cold)
        assert (state.create_ms, state.start_offset) == (created_ms, 7)
        assert state.write_ms >= created_ms + 10 * MINUTES_MS
        assert state.snapshot_epoch >= 2
        await asyncio.sleep(600)
        end = world.partition.log.log_end_offset
        assert world.partition.log.log_start_offset >= end - 4
        await asyncio.sleep(3600)
        assert world.partition.log.log_end_offset <= end + 4, "a quiet coordinator writes nothing"

    run(tmp_path, acts, updates_per_snapshot=2)


def test_many_cold_share_partitions_are_written_in_steps(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        keys = [ShareKey(f"g{number}", TOPIC_ID, 0) for number in range(150)]
        for key in keys:
            world.initialise(key)
        await asyncio.sleep(301)
        assert {world.state(key).snapshot_epoch for key in keys} == {1}
        assert world.batch_sizes()[len(keys) :] == [64, 64, 22]

    run(tmp_path, acts, prune_interval_ms=1_000_000)


def test_the_state_of_a_deleted_topic_is_deleted_in_steps(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        kept = ShareKey("g", OTHER_ID, 0)
        world.initialise(kept)
        for number in range(150):
            world.initialise(ShareKey(f"g{number}", TOPIC_ID, 0))
        world.delete_topic("t")
        await asyncio.sleep(0.1)
        assert world.batch_sizes()[151:] == [64, 64, 22]
        assert list(world.machine.partitions) == [kept]
        await world.restart()
        assert list(world.machine.partitions) == [kept]
        assert rejected(lambda: world.coordinator.delete(KEY)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(tmp_path, acts)


def test_tombstones_of_a_deleted_topic_are_retried(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise()
        world.reject_appends(reject=True)
        world.delete_topic("t")
        await asyncio.sleep(1)
        assert KEY in world.machine.partitions
        world.reject_appends(reject=False)
        await asyncio.sleep(10)
        assert not world.machine.partitions

    run(tmp_path, acts)


def test_a_topic_that_is_deleted_while_a_shard_loads_leaves_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "SLICE_MS", 0.0)

    async def acts(world: ShareWorld) -> None:
        for number in range(100):
            world.initialise(ShareKey(f"g{number}", TOPIC_ID, 0))
        world.lead(2)
        world.lead(1)
        await asyncio.sleep(0)
        assert rejected(world.initialise) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        world.delete_topic("t")
        await world.coordinator.loaded()
        await asyncio.sleep(1)
        assert not world.machine.partitions

    run(tmp_path, acts)


def test_a_topic_that_is_deleted_while_no_coordinator_is_active_leaves_no_state(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        kept = ShareKey("g", OTHER_ID, 0)
        world.initialise(kept)
        world.initialise()
        world.lead(2)
        world.delete_topic("t")
        world.lead(1)
        await world.coordinator.loaded()
        await asyncio.sleep(1)
        assert list(world.machine.partitions) == [kept]

    run(tmp_path, acts)


def test_memory_and_batches_are_limited(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=0)
        many = [(2 * number, 2 * number, 2, 1) for number in range(BATCHES_MAX)]
        assert rejected(lambda: world.write(*many, (1, 1, 2, 1), (3, 3, 2, 2))) is ErrorCode.INVALID_REQUEST
        await world.write(*many, delivery_complete_count=BATCHES_MAX)  # type: ignore[misc]
        assert world.batch_sizes() == [1] * (1 + BATCHES_MAX // BATCHES_AT_ONCE)
        assert world.state().delivery_complete_count == BATCHES_MAX
        assert len(world.state().batches) == BATCHES_MAX
        assert rejected(lambda: world.write((2 * BATCHES_MAX, 2 * BATCHES_MAX, 2, 1))) is ErrorCode.INVALID_REQUEST
        assert rejected(lambda: world.initialise(ShareKey("h", TOPIC_ID, 0))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.write((1, 1, 2, 1))
        assert len(world.state().batches) == BATCHES_MAX - 1
        assert rejected(lambda: world.write((5, 5, 0, 9))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.write(start=2 * BATCHES_MAX)
        world.initialise(ShareKey("h", TOPIC_ID, 0))

    run(tmp_path, acts, memory_bytes_max=60 + PARTITION_BYTES + BATCH_BYTES * (BATCHES_MAX - 500))


def test_a_large_write_ends_with_the_first_error(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=0)
        written = world.write(*[(2 * number, 2 * number, 2, 1) for number in range(3 * BATCHES_AT_ONCE)])
        world.initialise(epoch=1, start=0)
        with pytest.raises(KafkaError) as error:
            await written  # type: ignore[misc]
        assert error.value.code is ErrorCode.FENCED_STATE_EPOCH
        assert world.state().batches == ()

    run(tmp_path, acts)


def test_an_update_without_a_snapshot_is_a_state(tmp_path: Path) -> None:
    async def acts(world: ShareWorld) -> None:
        world.initialise(start=0)
        world.write((0, 0, 2, 1), start=0)
        world.partition.delete_records_before(1)
        await world.restart()
        assert (world.state().state_epoch, world.state().batches) == (0, ((0, 0, 2, 1),))
        assert world.machine.lowest_needed_offset() == 1

    run(tmp_path, acts)
