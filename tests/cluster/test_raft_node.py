"""Several nodes with one metadata log: elections, network cuts, kills and snapshots."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.raft.snapshotting import Snapshotting
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    ProducerIdsRecord,
)
from tests.cluster.raft_world import SNAPSHOTS, World, all_have, snapshot, topic, write
from tests.support.listeners import PublishedTo
from tests.virtual_loop import VirtualClock


def test_three_nodes_elect_one_leader_that_bootstraps_the_cluster(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    world.until(lambda: all(log.image.features for log in world.nodes.values()))
    assert world.leaders() == [leader]
    assert len({tuple(sorted(log.image.features.items())) for log in world.nodes.values()}) == 1
    assert {log.image.offset for log in world.nodes.values()} == {leader.image.offset}


def test_a_snapshot_that_was_cut_short_is_rejected_with_a_line(world: World, tmp_path: Path) -> None:
    world.start(1)
    world.kill(1)
    (snapshot,) = (tmp_path / "node-1" / "__cluster_metadata-0").glob("*.checkpoint")
    snapshot.write_bytes(snapshot.read_bytes()[:100])
    with pytest.raises(DirectoryRejected, match="cannot be read"):
        world.start(1)


def test_records_of_the_leader_reach_the_image_of_every_node(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    reported: list[tuple[int, int]] = []
    other = next(log for log in world.nodes.values() if log is not leader)
    other.publish_to(PublishedTo(lambda delta: reported.append((delta.before.offset, delta.after.offset))))
    offset = write(world, leader, topic("a"), topic("b"))
    assert leader.image.offset == offset
    world.until(lambda: all_have(world, "a", "b"))
    assert reported[-1][1] == offset
    assert all(old < new for old, new in reported)


def test_without_a_majority_nothing_is_committed_and_the_leader_resigns(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    world.isolate(world.id_of(leader))
    with pytest.raises(KafkaError) as raised:
        write(world, leader, topic("lost"))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    assert not leader.is_active
    assert set(leader.newest_image.topics) == set(leader.image.topics) == set()
    with pytest.raises(KafkaError) as rejected:
        leader.append([topic("more")])
    assert rejected.value.code is ErrorCode.NOT_CONTROLLER
    others = [log for log in world.nodes.values() if log is not leader]
    world.until(lambda: any(log.is_active for log in others))
    successor = next(log for log in others if log.is_active)
    write(world, successor, topic("kept"))
    world.heal()
    world.until(lambda: all_have(world, "kept"))
    assert leader.epoch == successor.epoch


def test_a_leader_that_slept_too_long_learns_at_its_next_write_that_it_leads_no_more(world: World) -> None:
    """Records of the old leader must not count as committed because another leader's record at the same offset is."""
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


def test_the_other_nodes_continue_when_the_leader_is_killed_and_restarts(world: World) -> None:
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


def test_a_node_far_behind_fetches_a_snapshot(world: World) -> None:
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
        world.loop.create_task(Snapshotting(log, SNAPSHOTS, clock=VirtualClock(world.loop)).run())
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


def test_there_is_no_snapshot_within_a_transaction_nor_twice_of_the_same(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    other = next(log for log in world.nodes.values() if log is not leader)
    write(world, leader, topic("a"))
    world.until(lambda: all_have(world, "a"))
    making = Snapshotting(other, SNAPSHOTS, clock=VirtualClock(world.loop))
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
        making = world.loop.create_task(Snapshotting(leader, SNAPSHOTS, clock=VirtualClock(world.loop)).make())
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


def test_a_snapshot_overtaken_by_a_newer_one_is_removed(world: World) -> None:
    world.start(1, 2, 3)
    leader = world.leader()
    write(world, leader, topic("a"))
    log = leader.node.log
    world.until(lambda: log.flushed_end_offset > leader.image.offset)
    workers = world.workers[world.id_of(leader)]
    workers.held = True
    making = Snapshotting(leader, SNAPSHOTS, clock=VirtualClock(world.loop))
    first, second = (world.loop.create_task(making.make()) for _ in range(2))
    world.run(asyncio.sleep(0.5))
    assert not first.done()
    assert log.latest_snapshot_id == (0, 0), "the one that the cluster was formatted with"
    workers.release()
    made = [world.run(first), world.run(second)]
    assert made == [(leader.image.offset + 1, leader.epoch), None]
    assert log.latest_snapshot_id == made[0]
