"""Several nodes keep one metadata log: through elections, cuts, kills and snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.directory import DirectoryRefused
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.snapshotting import SnapshotConfig, Snapshotting
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from tests.cluster.raft_world import World
from tests.log.faults import FaultyDisk, full
from tests.virtual_loop import VirtualClock, virtual_loop


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with virtual_loop() as loop:
        made = World(tmp_path, loop, voters=3)
        yield made
        made.close()


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=UUID(int=sum(name.encode())))


def write(world: World, log: MetadataLog, *records: Any) -> int:
    async def call() -> int:
        written = log.append(list(records))
        await log.committed(written)
        return written.offset

    return int(world.run(call()))


def all_have(world: World, *names: str) -> bool:
    return all(set(log.image.topics) == set(names) for log in world.nodes.values())


def test_three_nodes_elect_one_leader_that_bootstraps_the_cluster(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    world.until(lambda: all(log.image.features for log in world.nodes.values()))
    assert world.leaders() == [leader]
    assert len({tuple(sorted(log.image.features.items())) for log in world.nodes.values()}) == 1
    assert {log.image.offset for log in world.nodes.values()} == {leader.image.offset}


def test_a_snapshot_that_was_cut_short_is_refused_with_a_line(world: World, tmp_path: Path) -> None:
    world.start(1)
    world.kill(1)
    (snapshot,) = (tmp_path / "node-1" / "__cluster_metadata-0").glob("*.checkpoint")
    snapshot.write_bytes(snapshot.read_bytes()[:100])
    with pytest.raises(DirectoryRefused, match="cannot be read"):
        world.start(1)


def test_what_the_leader_writes_reaches_every_image(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    told: list[tuple[int, int]] = []
    other = next(log for log in world.nodes.values() if log is not leader)
    other.watch(lambda old, new: told.append((old.offset, new.offset)))
    offset = write(world, leader, topic("a"), topic("b"))
    assert leader.image.offset == offset
    world.until(lambda: all_have(world, "a", "b"))
    assert told[-1][1] == offset
    assert all(old < new for old, new in told)


def test_without_a_majority_nothing_is_committed_and_the_leader_gives_way(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    world.isolate(world.id_of(leader))
    with pytest.raises(KafkaError) as raised:
        write(world, leader, topic("lost"))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    assert not leader.is_active
    assert set(leader.newest_image.topics) == set(leader.image.topics) == set()
    with pytest.raises(KafkaError) as refused:
        leader.append([topic("more")])
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    others = [log for log in world.nodes.values() if log is not leader]
    world.until(lambda: any(log.is_active for log in others))
    successor = next(log for log in others if log.is_active)
    write(world, successor, topic("kept"))
    world.heal()
    world.until(lambda: all_have(world, "kept"))
    assert leader.epoch == successor.epoch


def test_a_leader_that_slept_too_long_learns_at_its_next_write_that_it_leads_no_more(world: World) -> None:
    """What it wrote must not count as committed when another leader's record is, at the same offset."""
    world.start(1, 2, 3)
    leader = world.leader()
    world.isolate(world.id_of(leader))
    assert leader.node._timer is not None
    leader.node._timer.cancel()
    world.run(asyncio.sleep(30))
    assert leader.is_active
    with pytest.raises(KafkaError) as raised:
        write(world, leader, topic("lost"))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    world.heal()
    write(world, world.leader(), topic("kept"))
    world.until(lambda: all_have(world, "kept"))


def no_space(operation: str, path: str) -> DiskFailure | None:
    return full(operation, path) if operation in {"append", "replace", "create"} else None


def no_space_for_logs(operation: str, path: str) -> DiskFailure | None:
    return no_space(operation, path) if path.endswith(".log") else None


def test_a_leader_without_space_gives_way_where_others_can_lead(world: World) -> None:
    disks = {node_id: FaultyDisk() for node_id in (1, 2, 3)}
    world.disks.update(disks)
    world.start(1, 2, 3)
    leader = world.leader()
    world.until(lambda: all(log.image.features for log in world.nodes.values()))
    disk = disks[world.id_of(leader)]
    disk.fail = no_space_for_logs
    with pytest.raises(KafkaError) as raised:
        write(world, leader, topic("refused"))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    others = [log for log in world.nodes.values() if log is not leader]
    world.until(lambda: any(log.is_active for log in others))
    write(world, next(log for log in others if log.is_active), topic("kept"))
    world.until(lambda: all(set(log.image.topics) == {"kept"} for log in others))
    assert not leader.image.topics
    disk.fail = lambda operation, path: None
    world.until(lambda: all_have(world, "kept"))


def test_a_leader_without_space_leads_on_where_nobody_else_can(world: World) -> None:
    disks = {node_id: FaultyDisk() for node_id in (1, 2, 3)}
    world.disks.update(disks)
    world.start(1, 2, 3)
    leader = world.leader()
    node_id = world.id_of(leader)
    world.kill(next(other for other in (1, 2, 3) if other != node_id))
    world.until(lambda: not leader.node.quorum.could_be_succeeded(leader.node._now))
    disks[node_id].fail = no_space_for_logs
    with pytest.raises(KafkaError) as raised:
        write(world, leader, topic("refused"))
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert leader.is_active
    disks[node_id].fail = lambda operation, path: None
    write(world, leader, topic("kept"))
    world.until(lambda: all_have(world, "kept"))


def no_space_for_epochs(operation: str, path: str) -> DiskFailure | None:
    return no_space(operation, path) if path.endswith("leader-epoch-checkpoint") else None


@pytest.mark.parametrize("fail", [no_space, no_space_for_logs])
def test_nobody_ends_when_all_disks_are_full_and_all_go_on_when_there_is_space(
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
        write(world, world.leader(), topic("refused"))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    world.run(asyncio.sleep(60))
    assert not world.leaders()
    assert not [log for log in world.nodes.values() if log.failed.done()]
    assert [record.message for record in caplog.records if "is away" in record.message][3:] == []
    for disk in disks.values():
        disk.fail = lambda operation, path: None
    write(world, world.leader(), topic("later"))
    world.until(lambda: all_have(world, "kept", "later"))


def test_nobody_ends_for_want_of_space_for_what_a_flush_vouches_for(world: World) -> None:
    disks = {node_id: FaultyDisk() for node_id in (1, 2, 3)}
    world.disks.update(disks)
    world.start(1, 2, 3)
    leader = world.leader()
    write(world, leader, topic("kept"))
    world.until(lambda: all_have(world, "kept"))
    for disk in disks.values():
        disk.fail = no_space_for_epochs

    async def resign() -> None:
        leader.node.resign(leader.epoch)
        await asyncio.sleep(60)

    world.run(resign())
    assert not world.leaders(), "nobody confirms the first record of a new epoch"
    assert not [log for log in world.nodes.values() if log.failed.done()]
    for node_id in list(world.nodes):  # a stop, too, has no space, and ends well
        world.kill(node_id)
    for disk in disks.values():
        disk.fail = lambda operation, path: None
    world.start(1, 2, 3)
    write(world, world.leader(), topic("later"))
    world.until(lambda: all_have(world, "kept", "later"))


def test_a_node_without_space_to_cut_its_log_waits_for_some(world: World) -> None:
    """What it wrote as the leader, and nobody else has: before it is cut, a lower recovery point is written."""
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


def test_a_node_without_space_for_its_vote_is_no_hindrance_and_takes_part_again(world: World) -> None:
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
        write(world, leader, topic("refused"))
    world.until(lambda: leader.node.is_away)
    began = world.loop.time()
    world.run(leader.node.shut_down(10_000))
    assert world.loop.time() == began


def test_a_record_of_an_earlier_epoch_does_not_count_as_committed_in_a_later_one(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    written = leader.written
    write(world, leader, topic("a"))
    world.run(leader.committed(written))
    node_id = world.id_of(leader)
    for other in (1, 2, 3):
        if other != node_id:
            world.kill(other)
    world.until(lambda: not leader.is_active)
    with pytest.raises(KafkaError) as raised:
        world.run(leader.committed(written))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER


def test_the_others_go_on_when_the_leader_is_killed_and_it_comes_back(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    killed = world.id_of(leader)
    write(world, leader, topic("a"))
    world.kill(killed)
    successor = world.leader()
    assert successor.epoch > 1
    write(world, successor, topic("b"))
    world.start(killed)
    world.until(lambda: all_have(world, "a", "b"))


def test_all_restart_at_once_and_know_what_was_committed(world: World) -> None:
    world.start(1, 2, 3)
    write(world, world.leader(), topic("a"), ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000))
    world.close()
    world.start(1, 2, 3)
    leader = world.leader()
    world.until(lambda: all_have(world, "a"))
    assert leader.image.next_producer_id == 1000
    assert leader.epoch >= 2


def test_an_observer_follows(world: World) -> None:
    world.start(1, 2, 3)
    write(world, world.leader(), topic("a"))
    world.start(7)
    world.until(lambda: all_have(world, "a"))
    assert not world.nodes[7].is_active
    write(world, world.leader(), topic("b"))
    world.until(lambda: all_have(world, "a", "b"))


def test_a_graceful_end_hands_the_log_over(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    epoch = leader.epoch
    world.run(leader.node.shut_down(5000))
    world.kill(world.id_of(leader))
    assert world.leader().epoch > epoch


CONFIG = SnapshotConfig(bytes_between=2000, interval_ms=0, retention_bytes=4000, retention_ms=-1)


def snapshot(world: World, log: MetadataLog) -> OffsetAndEpoch:
    """Put what is committed into a snapshot and let the log before it go."""
    made = world.run(Snapshotting(log, CONFIG, clock=VirtualClock(world.loop)).make())
    assert made is not None
    log.node.log.clean_before(made)
    return OffsetAndEpoch(*made)


def test_who_is_too_far_behind_gets_a_snapshot(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    behind = next(node_id for node_id in world.nodes if world.nodes[node_id] is not leader)
    world.kill(behind)
    for number in range(30):
        write(world, leader, topic(f"t{number}" + "x" * number))
    snapshot_id = snapshot(world, leader)
    write(world, leader, topic("after"))
    names = set(leader.image.topics)
    world.start(behind)
    late = world.nodes[behind]
    world.until(lambda: set(late.image.topics) == names)
    assert late.node.log.latest_snapshot_id == snapshot_id
    assert late.node.log.start_offset == snapshot_id.offset
    assert late.image == leader.image
    world.close()
    world.start(1, 2, 3)
    world.until(lambda: all_have(world, *names))


def test_nodes_make_snapshots_of_their_own_and_let_the_log_go(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    tasks = [
        world.loop.create_task(Snapshotting(log, CONFIG, clock=VirtualClock(world.loop)).run())
        for log in world.nodes.values()
    ]
    for number in range(150):
        write(world, leader, topic(f"t{number}" + "x" * 40))
        world.run(asyncio.sleep(0.1))
    for task in tasks:
        task.cancel()
    names = set(leader.image.topics)
    for log in world.nodes.values():
        assert log.node.log.start_offset > 0
        assert log.node.log.latest_snapshot_id is not None
    world.close()
    world.start(1, 2, 3)
    world.until(lambda: all_have(world, *names))
    assert len(names) == 150
    assert world.leader().node.quorum.history.voters == world.voters


def test_a_snapshot_that_finds_no_space_is_made_when_there_is_some(world: World) -> None:
    disk = world.disks[1] = FaultyDisk()
    world.start(1, 2, 3)
    write(world, world.leader(), topic("kept"))
    world.until(lambda: all_have(world, "kept"))
    log = world.nodes[1]
    half = iter([False])

    def no_space_for_the_rest(operation: str, path: str) -> DiskFailure | None:
        wanted = operation == "append" and path.endswith(".part") and next(half, True)
        return full(operation, path) if wanted else None

    disk.fail = no_space_for_the_rest

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


def test_there_is_no_snapshot_within_a_transaction_nor_twice_of_the_same(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    other = next(log for log in world.nodes.values() if log is not leader)
    write(world, leader, topic("a"))
    world.until(lambda: all_have(world, "a"))
    making = Snapshotting(other, CONFIG, clock=VirtualClock(world.loop))
    assert world.run(making.make()) is not None
    assert world.run(making.make()) is None
    write(world, leader, BeginTransactionRecord(name="x"), topic("b"))
    world.until(lambda: other.is_in_transaction)
    assert world.run(making.make()) is None
    write(world, leader, EndTransactionRecord())
    world.until(lambda: "b" in other.image.topics)
    assert world.run(making.make()) is not None


def test_a_leader_makes_no_snapshot_of_what_only_its_followers_have_flushed(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    write(world, leader, topic("a"))
    workers = world.workers[world.id_of(leader)]
    workers.held = True
    try:
        offset = write(world, leader, topic("b"))
        assert leader.node.log.flushed_end_offset <= offset
        making = world.loop.create_task(Snapshotting(leader, CONFIG, clock=VirtualClock(world.loop)).make())
        world.run(asyncio.sleep(0.5))
        assert not making.done()
    finally:
        workers.release()
    assert world.run(making) == (offset + 1, leader.epoch)


def test_a_metadata_transaction_counts_whole_on_every_node(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    offset = write(world, leader, BeginTransactionRecord(name="x"), topic("a"), topic("b"), EndTransactionRecord())
    world.until(lambda: all_have(world, "a", "b"))
    assert {log.image.offset for log in world.nodes.values()} == {offset}


def test_a_transaction_that_its_leader_did_not_end_is_aborted_by_the_next(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    write(world, leader, BeginTransactionRecord(name="x"), topic("a"))
    others = [log for log in world.nodes.values() if log is not leader]
    world.until(lambda: all(log.high_watermark == leader.high_watermark for log in others))
    assert all(not log.image.topics for log in others), "not before its end"
    world.kill(world.id_of(leader))
    successor = world.leader()
    write(world, successor, topic("b"))
    world.until(lambda: all_have(world, "b"))
