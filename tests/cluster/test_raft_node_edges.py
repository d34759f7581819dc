"""Nodes of a metadata log: isolated or leaving nodes, damaged snapshots and cancelled requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.metadata import image
from kwire.cluster.raft.snapshotting import SnapshotConfig, Snapshotting
from kwire.log.disk import DiskFailure, DiskFullError
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import TopicRecord
from tests.cluster.raft_world import World, all_have, snapshot, topic, write
from tests.cluster.test_nodes_without_space import no_space
from tests.log.faults import FaultyDisk, broken
from tests.virtual_loop import VirtualClock


def faulty(world: World) -> None:
    world.disks.update({node_id: FaultyDisk() for node_id in (1, 2, 3)})


def disk_of(world: World, node_id: int) -> FaultyDisk:
    disk = world.disks[node_id]
    assert isinstance(disk, FaultyDisk)
    return disk


def files(world: World, node_id: int) -> Path:
    return world.directory / f"node-{node_id}" / "__cluster_metadata-0"


def test_a_node_whose_quorum_state_was_damaged_while_it_was_away_stops(world: World) -> None:
    faulty(world)
    world.start(1, 2, 3)
    leader = world.leader()
    node_id = world.id_of(leader)
    disk_of(world, node_id).fail = no_space
    with pytest.raises(KafkaError):
        write(world, leader, topic("rejected"))
    world.until(lambda: leader.node.is_away)
    state = files(world, node_id) / "quorum-state"
    state.write_text("{")
    disk_of(world, node_id).fail = lambda operation, path: None
    world.until(leader.node.failed.done)
    assert isinstance(leader.node.failed.result(), DirectoryRejected)
    assert "quorum-state cannot be read" in str(leader.node.failed.result())
    assert state.read_text() == "{"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"leaderId": 1, "leaderEpoch": 1, "votedId": -1, "votedDirectoryId": 7}']
)
def test_an_unreadable_quorum_state_prevents_the_start(world: World, text: str) -> None:
    world.start(1)
    world.kill(1)
    (files(world, 1) / "quorum-state").write_text(text)
    with pytest.raises(DirectoryRejected, match="quorum-state cannot be read"):
        world.start(1)


def test_a_node_that_leaves_does_not_wait_for_space(world: World) -> None:
    faulty(world)
    world.start(1, 2, 3)
    leader = world.leader()
    others = [log for log in world.nodes.values() if log is not leader]
    disk_of(world, world.id_of(leader)).fail = no_space
    for log in others:  # the leader receives no confirmation of its resignation
        world.cut.add((world.id_of(log), world.id_of(leader)))
    leaving = world.loop.create_task(leader.node.shut_down(600_000))
    world.until(lambda: any(log.is_active for log in others))
    world.heal()
    world.until(leaving.done)
    assert not leader.node.failed.done()
    assert leader.node.lacks_space


def test_a_flush_that_ends_while_its_node_is_offline_commits_nothing(world: World) -> None:
    faulty(world)
    world.start(1, 2, 3)
    leader = world.leader()
    node_id = world.id_of(leader)
    write(world, leader, topic("kept"))
    world.until(lambda: all_have(world, "kept"))
    workers = world.workers[node_id]
    workers.held = True

    async def write_and_lose_space() -> None:
        leader.append([topic("later")])
        await asyncio.sleep(0)
        disk_of(world, node_id).fail = no_space
        with pytest.raises(KafkaError):
            leader.append([topic("rejected")])

    world.run(write_and_lose_space())
    world.until(lambda: leader.node.is_away)
    workers.release()
    world.run(asyncio.sleep(0.5))
    assert leader.node.is_away
    assert not leader.node.failed.done()
    disk_of(world, node_id).fail = lambda operation, path: None
    world.until(lambda: all("kept" in log.image.topics and not log.node.is_away for log in world.nodes.values()))
    world.until(lambda: len({frozenset(log.image.topics) for log in world.nodes.values()}) == 1)
    assert "rejected" not in leader.image.topics


def test_a_node_that_fails_twice_reports_its_first_failure(world: World) -> None:
    faulty(world)
    world.start(1, 2, 3)
    leader = world.leader()
    node_id = world.id_of(leader)
    workers = world.workers[node_id]
    workers.held = True

    async def fail_twice() -> None:
        leader.append([topic("a")])
        await asyncio.sleep(0)
        disk_of(world, node_id).fail = broken
        with pytest.raises((DiskFailure, KafkaError)):
            leader.append([topic("b")])
        workers.release()
        await asyncio.sleep(1)

    world.run(fail_twice())
    failure = leader.node.failed.result()
    assert isinstance(failure, DiskFailure)
    assert failure.operation == "append"


def test_a_snapshot_that_is_damaged_at_the_leader_is_fetched_until_it_is_sound(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    behind = next(node_id for node_id in world.nodes if world.nodes[node_id] is not leader)
    world.kill(behind)
    for number in range(30):
        write(world, leader, topic(f"t{number}" + "x" * number))
    snapshot(world, leader)
    (path,) = files(world, world.id_of(leader)).glob("*.checkpoint")
    sound = path.read_bytes()
    path.write_bytes(sound[:-20] + bytes([sound[-20] ^ 1]) + sound[-19:])
    world.start(behind)
    late = world.nodes[behind]
    world.run(asyncio.sleep(20))
    assert "the snapshot that the leader sent cannot be read" in caplog.text
    assert not late.node.failed.done()
    assert late.node.log.start_offset == 0
    path.write_bytes(sound)
    world.until(lambda: late.image == leader.image)


def test_a_snapshot_with_an_unknown_record_prevents_the_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    node_id = world.id_of(leader)
    write(world, leader, topic("a"))
    snapshot(world, leader)
    world.close()
    monkeypatch.delitem(image._CHANGES, TopicRecord)
    with pytest.raises(DirectoryRejected, match="TopicRecord"):
        world.start(node_id)


@pytest.mark.parametrize("end", ["committed", "deposed", "failed"])
def test_a_cancelled_waiter_does_not_block_the_others(world: World, end: str) -> None:
    """A client disconnects while it waits with others for the same fsync."""
    faulty(world)
    world.start(1, 2, 3)
    leader = world.leader()
    node_id = world.id_of(leader)
    world.until(lambda: all(log.image.features for log in world.nodes.values()))
    if end == "committed":
        for workers in world.workers.values():
            workers.held = True
    else:
        world.isolate(node_id)

    async def wait_and_give_up() -> list[asyncio.Task[Any]]:
        tasks = []
        for name in ("a", "b"):
            written = leader.append([topic(name)])
            tasks.append(asyncio.get_running_loop().create_task(leader.committed(written)))
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        await asyncio.sleep(0)
        return tasks

    gone, waits = world.run(wait_and_give_up())
    assert gone.cancelled()
    assert not waits.done()
    if end == "committed":
        for workers in world.workers.values():
            workers.release()
    elif end == "failed":
        disk_of(world, node_id).fail = broken
        world.heal()
        with pytest.raises((DiskFailure, KafkaError)):
            leader.append([topic("c")])
    world.until(waits.done, seconds=60)
    error = waits.exception()
    if end == "committed":
        assert error is None
        assert set(leader.image.topics) == {"a", "b"}
    elif end == "deposed":
        assert isinstance(error, KafkaError)
        assert error.code is ErrorCode.NOT_CONTROLLER
    else:
        assert isinstance(error, DiskFailure)


def test_old_metadata_stays_while_there_is_no_space_for_a_new_segment(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    faulty(world)
    world.start(1, 2, 3)
    leader = world.leader()
    write(world, leader, topic("a"))
    world.run(asyncio.sleep(1))
    config = SnapshotConfig(bytes_between=1, interval_ms=0, retention_bytes=0, retention_ms=-1)
    making = Snapshotting(leader, config, clock=VirtualClock(world.loop))
    assert world.run(making.make()) is not None
    disk = disk_of(world, world.id_of(leader))
    disk.fail = lambda operation, path: (
        DiskFullError(operation, path, OSError("full")) if operation == "create" else None
    )
    segments = {path: path.stat().st_size for path in files(world, world.id_of(leader)).glob("*.log")}

    async def clean() -> None:
        making._clean()

    world.run(clean())
    assert "cannot let go of old metadata" in caplog.text
    assert {path: path.stat().st_size for path in files(world, world.id_of(leader)).glob("*.log")} == segments
    assert not leader.node.failed.done()
    disk.fail = lambda operation, path: None
    write(world, leader, topic("b"))
    world.until(lambda: all_have(world, "a", "b"))
