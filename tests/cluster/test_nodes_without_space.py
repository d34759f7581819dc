"""Several nodes with one metadata log while disks are full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from kwire.cluster.raft.raft_log import PART_SUFFIX
from kwire.cluster.raft.snapshotting import SnapshotConfig, Snapshotting
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.cluster.raft_world import CLUSTER_ID, CONTROLLER, World, all_have, snapshot, topic, write
from tests.log.faults import FaultyDisk, full
from tests.virtual_loop import VirtualClock


def no_space(operation: str, path: str) -> DiskFailure | None:
    return full(operation, path) if operation in {"append", "replace", "create"} else None


def no_space_for_logs(operation: str, path: str) -> DiskFailure | None:
    return no_space(operation, path) if path.endswith(".log") else None


def test_a_leader_without_space_resigns_if_others_can_lead(world: World) -> None:
    disks = {node_id: FaultyDisk() for node_id in (1, 2, 3)}
    world.disks.update(disks)
    world.start(1, 2, 3)
    leader = world.leader()
    world.until(lambda: all(log.image.features for log in world.nodes.values()))
    disk = disks[world.id_of(leader)]
    disk.fail = no_space_for_logs
    with pytest.raises(KafkaError) as raised:
        write(world, leader, topic("rejected"))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    others = [log for log in world.nodes.values() if log is not leader]
    world.until(lambda: any(log.is_active for log in others))
    write(world, next(log for log in others if log.is_active), topic("kept"))
    world.until(lambda: all(set(log.image.topics) == {"kept"} for log in others))
    assert not leader.image.topics
    disk.fail = lambda operation, path: None
    world.until(lambda: all_have(world, "kept"))


def test_a_leader_without_space_stays_leader_if_no_other_can_lead(world: World) -> None:
    disks = {node_id: FaultyDisk() for node_id in (1, 2, 3)}
    world.disks.update(disks)
    world.start(1, 2, 3)
    leader = world.leader()
    node_id = world.id_of(leader)
    world.kill(next(other for other in (1, 2, 3) if other != node_id))
    world.until(lambda: not leader.node.quorum.has_possible_successor(leader.node._now))
    disks[node_id].fail = no_space_for_logs
    with pytest.raises(KafkaError) as raised:
        write(world, leader, topic("rejected"))
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert leader.is_active
    disks[node_id].fail = lambda operation, path: None
    write(world, leader, topic("kept"))
    world.until(lambda: all_have(world, "kept"))


def no_space_for_epochs(operation: str, path: str) -> DiskFailure | None:
    return no_space(operation, path) if path.endswith("leader-epoch-checkpoint") else None


@pytest.mark.parametrize("fail", [no_space, no_space_for_logs])
def test_no_node_stops_while_all_disks_are_full_and_all_continue_with_space(
    world: World, fail: Callable[[str, str], DiskFailure | None], caplog: pytest.LogCaptureFixture
) -> None:
    disks = {node_id: FaultyDisk() for node_id in (1, 2, 3)}
    world.disks.update(disks)
    world.start(1, 2, 3)
    write(world, world.leader(), topic("kept"))
    world.until(lambda: all_have(world, "kept"))
    for disk in disks.values():
        disk.fail = fail
    with pytest.raises(KafkaError) as raised:
        write(world, world.leader(), topic("rejected"))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    world.run(asyncio.sleep(60))
    assert not world.leaders()
    assert not [log for log in world.nodes.values() if log.failed.done()]
    assert [record.message for record in caplog.records if "is away" in record.message][3:] == []
    for disk in disks.values():
        disk.fail = lambda operation, path: None
    write(world, world.leader(), topic("later"))
    world.until(lambda: all_have(world, "kept", "later"))


def no_descriptor_for_epochs(operation: str, path: str) -> DiskFailure | None:
    return full(operation, path) if operation == "fsync" and path.endswith("leader-epoch-checkpoint") else None


@pytest.mark.parametrize("fail", [no_space_for_epochs, no_descriptor_for_epochs])
def test_no_node_stops_without_space_for_a_recovery_point(
    world: World, fail: Callable[[str, str], DiskFailure | None]
) -> None:
    disks = {node_id: FaultyDisk() for node_id in (1, 2, 3)}
    world.disks.update(disks)
    world.start(1, 2, 3)
    leader = world.leader()
    write(world, leader, topic("kept"))
    world.until(lambda: all_have(world, "kept"))
    for disk in disks.values():
        disk.fail = fail

    async def resign() -> None:
        leader.node.resign(leader.epoch)
        await asyncio.sleep(60)

    world.run(resign())
    assert not world.leaders(), "no voter confirms the first record of a new epoch"
    assert not [log for log in world.nodes.values() if log.failed.done()]
    for node_id in list(world.nodes):  # a stop has no space either, and must succeed
        world.kill(node_id)
    for disk in disks.values():
        disk.fail = lambda operation, path: None
    world.start(1, 2, 3)
    write(world, world.leader(), topic("later"))
    world.until(lambda: all_have(world, "kept", "later"))


def test_a_node_without_space_to_cut_its_log_waits_for_some(world: World) -> None:
    """The node must truncate its uncommitted records as leader, and first write a lower recovery point."""
    world.disks.update({node_id: FaultyDisk() for node_id in (1, 2, 3)})
    world.start(1, 2, 3)
    leader = world.leader()
    world.until(lambda: all(log.image.features for log in world.nodes.values()))
    world.isolate(world.id_of(leader))

    async def write_in_vain() -> None:
        leader.append([topic("lost")])
        await asyncio.sleep(1)

    world.run(write_in_vain())
    others = [log for log in world.nodes.values() if log is not leader]
    world.until(lambda: any(log.is_active for log in others))
    write(world, next(log for log in others if log.is_active), topic("kept"))
    disk = world.disks[world.id_of(leader)]
    assert isinstance(disk, FaultyDisk)
    disk.fail = lambda operation, path: None if path.endswith("quorum-state") else no_space(operation, path)
    world.heal()
    world.run(asyncio.sleep(120))
    assert not leader.failed.done()
    assert leader.node.lacks_space
    disk.fail = lambda operation, path: None
    world.until(lambda: all_have(world, "kept"))


def test_a_waiting_voter_change_fails_when_the_leader_resigns(world: World) -> None:
    world.disks.update({node_id: FaultyDisk() for node_id in (1, 2, 3)})
    world.start(1, 2, 3)
    leader = world.leader()
    write(world, leader, topic("kept"))
    disk = world.disks[world.id_of(leader)]
    assert isinstance(disk, FaultyDisk)
    disk.fail = no_space
    goes = next(node_id for node_id in (1, 2, 3) if node_id != world.id_of(leader))

    async def remove() -> None:
        request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=goes, voter_directory_id=UUID(int=goes))
        async with asyncio.timeout(5):
            await leader.node.request(request, version=0, listener=CONTROLLER)

    with pytest.raises(KafkaError) as rejected:
        world.run(remove())
    assert rejected.value.code is ErrorCode.NOT_CONTROLLER
    disk.fail = lambda operation, path: None
    assert world.leader().node.quorum.history.voters.ids == {1, 2, 3}


def test_a_node_without_space_for_its_vote_does_not_block_and_rejoins(world: World) -> None:
    disks = {node_id: FaultyDisk() for node_id in (1, 2, 3)}
    world.disks.update(disks)
    world.start(1, 2, 3)
    leader = world.leader()
    full_id = next(node_id for node_id in (1, 2, 3) if node_id != world.id_of(leader))
    disks[full_id].fail = no_space
    world.kill(world.id_of(leader))
    world.run(asyncio.sleep(10))
    assert not world.leaders(), "two of three are needed"
    assert not world.nodes[full_id].failed.done()
    disks[full_id].fail = lambda operation, path: None
    write(world, world.leader(), topic("kept"))
    world.until(lambda: all_have(world, "kept"))


def test_a_node_that_is_away_can_be_stopped(world: World) -> None:
    world.disks.update({node_id: FaultyDisk() for node_id in (1, 2, 3)})
    world.start(1, 2, 3)
    leader = world.leader()
    disk = world.disks[world.id_of(leader)]
    assert isinstance(disk, FaultyDisk)
    disk.fail = no_space
    with pytest.raises(KafkaError):
        write(world, leader, topic("rejected"))
    world.until(lambda: leader.node.is_away)
    began = world.loop.time()
    world.run(leader.node.shut_down(10_000))
    assert world.loop.time() == began


def start_far_behind(world: World, disk: FaultyDisk) -> tuple[int, list[str]]:
    """Start one of three nodes with this disk so that it needs a snapshot; return its id and all topics."""
    world.start(1, 2, 3)
    leader = world.leader()
    lost = next(node_id for node_id in (1, 2, 3) if node_id != world.id_of(leader))
    write(world, leader, topic("before"))
    world.until(lambda: all_have(world, "before"))
    world.kill(lost)
    names = ["before", *(f"t{number}" + "x" * 40 for number in range(150))]
    for name in names[1:]:
        write(world, leader, topic(name))
    world.until(lambda: all_have(world, *names))
    for log in world.nodes.values():
        snapshot(world, log)
    world.disks[lost] = disk
    world.start(lost)
    world.run(asyncio.sleep(20))
    return lost, names


@pytest.mark.parametrize(
    ("operation", "name"), [("append", ".part"), ("fsync", ".part"), ("replace", "recovery-point-offset")]
)
def test_a_node_without_space_for_a_snapshot_waits(world: World, operation: str, name: str) -> None:
    disk = FaultyDisk()
    tried: list[str] = []

    def fails(attempted: str, path: str) -> DiskFailure | None:
        if attempted != operation or name not in path:
            return None
        tried.append(path)
        return full(attempted, path)

    disk.fail = fails
    lost, names = start_far_behind(world, disk)
    node = world.nodes[lost].node
    assert not node.failed.done()
    assert node.lacks_space
    assert 2 <= len(tried) <= 25, "it tries again, and not busily"
    directory = world.directory / f"node-{lost}" / "__cluster_metadata-0"
    assert not [*directory.glob("*.part")], "what there was of it takes no space"
    assert [found.name for found in directory.glob("*.checkpoint")] == [f"{0:020}-{0:010}.checkpoint"]
    disk.fail = lambda operation, path: None
    world.until(lambda: all_have(world, *names))
    assert not node.lacks_space


def test_a_snapshot_is_taken_where_only_the_epochs_have_no_space_yet(world: World) -> None:
    disk = FaultyDisk()
    rejected: list[str] = []

    def fails(operation: str, path: str) -> DiskFailure | None:
        done = [path for what, path in disk.operations if what == "rename"]
        if not any(path.endswith(".part") for path in done):
            return None
        failure = no_space_for_epochs(operation, path)
        rejected.extend([path] if failure else [])
        return failure

    disk.fail = fails
    lost, names = start_far_behind(world, disk)
    assert rejected
    assert not world.nodes[lost].node.failed.done()
    disk.fail = lambda operation, path: None
    world.until(lambda: all_have(world, *names))
    world.kill(lost)
    world.start(lost)
    world.until(lambda: all_have(world, *names))


def test_a_snapshot_that_finds_no_space_is_made_when_there_is_some(world: World) -> None:
    disk = world.disks[1] = FaultyDisk()
    world.start(1, 2, 3)
    write(world, world.leader(), topic("kept"))
    world.until(lambda: all_have(world, "kept"))
    log = world.nodes[1]
    disk.fail = lambda operation, path: full(operation, path) if path.endswith(PART_SUFFIX) else None
    each_time = SnapshotConfig(bytes_between=1, interval_ms=0, retention_bytes=-1, retention_ms=-1)

    async def make() -> asyncio.Task[None]:
        making = Snapshotting(log, each_time, clock=VirtualClock(world.loop))
        running = asyncio.get_running_loop().create_task(making.run())
        await asyncio.sleep(200)
        return running

    making = world.run(make())
    assert not making.done()
    disk.fail = lambda operation, path: None
    latest = log.node.log.latest_snapshot_id
    world.until(lambda: log.node.log.latest_snapshot_id != latest, seconds=100)
    made = log.node.log.latest_snapshot_id
    assert made is not None
    assert log.node.log.load_snapshot(made).records, "it can be read"
    making.cancel()
