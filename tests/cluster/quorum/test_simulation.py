"""Scenarios of Kafka's raft simulation, and random ones, with Q1 to Q10 checked after every event."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kwire.cluster.quorum.voters import Listener, ReplicaKey
from kwire.protocol.messages.add_raft_voter import AddRaftVoterListener, AddRaftVoterRequest
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.cluster.quorum.world import CLUSTER, World, endpoints


def three(seed: int = 1, **settings: bool) -> World:
    world = World(seed, **settings)
    world.add_voters(1, 2, 3)
    return world


def test_a_lone_voter_leads_at_once() -> None:
    world = World()
    world.add_voters(1)
    assert world.leader() is world.nodes[1]
    leader = world.elect()
    assert leader.running.high_watermark == leader.log.end_offset == 3


def test_three_voters_elect_one_leader() -> None:
    world = three()
    leader = world.elect()
    world.append("a")
    world.run_until(lambda: all(node.running.high_watermark == 4 for node in world.nodes.values()))
    assert {node.running.leader_id for node in world.nodes.values()} == {leader.node_id}
    assert {node.running.epoch for node in world.nodes.values()} == {leader.running.epoch}


def test_another_voter_leads_after_the_leader_fails() -> None:
    world = three(2)
    first = world.elect()
    world.append("a")
    world.run(200)
    world.crash(first.node_id)
    world.run_until(lambda: world.leader() is not None)
    second = world.elect()
    assert second.node_id != first.node_id
    assert second.running.epoch > first.stored.leader_epoch
    world.start(first.node_id)
    world.append("b")
    world.run_until(lambda: first.quorum is not None and first.running.high_watermark == second.log.end_offset)
    assert [it.data for it in first.log.now.batches] == [it.data for it in second.log.now.batches]


def test_leaders_fail_one_after_the_other() -> None:
    world = World(3)
    world.add_voters(1, 2, 3, 4, 5)
    for value in ("a", "b"):
        leader = world.elect()
        world.append(value)
        world.run(300)
        world.crash(leader.node_id)
    last = world.elect()
    alive = [node for node in world.nodes.values() if node.quorum is not None]
    assert len(alive) == 3
    world.run_until(lambda: all(node.running.high_watermark == last.log.end_offset for node in alive))
    assert world.invariants.end == last.log.end_offset


def test_a_minority_that_is_cut_off_changes_nothing() -> None:
    world = World(4)
    world.add_voters(1, 2, 3, 4, 5)
    leader = world.elect()
    epoch = leader.running.epoch
    away = [it for it in world.nodes if it != leader.node_id][:2]
    world.isolate(*away)
    world.append("a")
    world.run(10_000)
    assert world.leader() is leader
    assert leader.running.high_watermark == leader.log.end_offset
    world.heal()
    world.run(5_000)
    # Pre-votes do not increase the epoch: nodes that were isolated follow the current leader (KIP-996).
    assert {node.running.epoch for node in world.nodes.values()} == {epoch}
    assert {node.running.leader_id for node in world.nodes.values()} == {leader.node_id}


def test_a_leader_that_is_cut_off_with_a_minority_goes() -> None:
    world = World(5)
    world.add_voters(1, 2, 3, 4, 5)
    old = world.elect()
    companion = next(it for it in world.nodes if it != old.node_id)
    world.isolate(old.node_id, companion)
    lost = world.append("lost")
    world.run(4_000)
    assert not old.running.is_leader
    new = world.elect()
    assert new.node_id not in (old.node_id, companion)
    world.append("kept")
    world.heal()
    world.run_until(lambda: all(it.running.high_watermark == new.log.end_offset for it in world.nodes.values()))
    assert lost is not None
    assert b"lost" not in b"".join(batch.data for batch in old.log.now.batches)


def test_a_leader_without_a_majority_of_fetches_resigns() -> None:
    """The network drops all messages to the leader, but none that it sends."""
    world = three(6)
    old = world.elect()
    for other in world.nodes:
        if other != old.node_id:
            world.cut.add((other, old.node_id))
    world.run(5_000)
    assert not old.running.is_leader
    new = world.elect()
    assert new is not old
    world.heal()
    world.run(3_000)
    assert old.running.leader_id == new.node_id


def test_a_follower_cut_off_from_the_leader_does_not_disturb_it() -> None:
    world = three(7)
    leader = world.elect()
    world.run(1_000)
    epoch = leader.running.epoch
    deaf = next(it for it in world.nodes if it != leader.node_id)
    world.cut.add((leader.node_id, deaf))
    world.run(20_000)
    assert world.leader() is leader
    assert leader.running.epoch == epoch


def test_nothing_is_committed_without_a_majority() -> None:
    world = three(8)
    leader = world.elect()
    world.run(500)
    before = leader.running.high_watermark
    for other in world.nodes:
        if other != leader.node_id:
            world.crash(other)
    world.append("a")
    world.run(1_000)
    assert leader.running.high_watermark == before
    world.run(5_000)
    assert world.leader() is None


def test_committed_records_survive_a_power_loss_of_all_voters() -> None:
    world = three(9)
    world.elect()
    for number in range(10):
        world.append(f"value {number}")
        world.run(20)
    committed = world.invariants.end
    for node_id in world.nodes:
        world.crash(node_id)
    for node_id in world.nodes:
        world.start(node_id)
    leader = world.elect()
    assert leader.running.high_watermark >= committed
    assert world.invariants.end >= committed


def test_a_restarted_leader_does_not_lead_its_old_epoch() -> None:
    world = three(10)
    old = world.elect()
    epoch = old.running.epoch
    world.crash(old.node_id)
    world.start(old.node_id)
    assert not old.running.is_leader
    new = world.elect()
    assert new.running.epoch > epoch


def test_an_observer_follows_and_finds_each_new_leader() -> None:
    world = three(11)
    world.add_observer(9, 1, 2, 3)
    leader = world.elect()
    world.append("a")
    observer = world.nodes[9]
    world.run_until(lambda: observer.running.high_watermark == leader.log.end_offset)
    world.crash(leader.node_id)
    new = world.elect()
    world.append("b")
    world.run_until(lambda: observer.running.high_watermark == new.log.end_offset)
    assert observer.running.leader_id == new.node_id
    assert 9 not in new.running.history.voters.ids


def test_static_voters_elect_without_directories() -> None:
    world = World(12)
    world.add_static_voters(1, 2, 3)
    leader = world.elect()
    world.append("a")
    world.run_until(lambda: all(it.running.high_watermark == 2 for it in world.nodes.values()))
    assert leader.running.history.kraft_version == 0


def test_a_new_observer_begins_with_a_snapshot() -> None:
    world = three(13)
    leader = world.elect()
    for number in range(30):
        world.append(f"value {number}")
        world.run(20)
    world.run(500)
    assert world.snapshot(leader.node_id)
    world.add_observer(9, 1, 2, 3)
    world.append("after")
    observer = world.nodes[9]
    world.run_until(lambda: observer.running.high_watermark == leader.log.end_offset)
    assert observer.log.start_offset == leader.log.start_offset > 30
    assert observer.running.history.voters == leader.running.history.voters
    assert [it.data for it in observer.log.all_batches()] == [it.data for it in leader.log.all_batches()]


def test_messages_pass_through_the_codec() -> None:
    world = three(14, through_codec=True)
    leader = world.elect()
    world.append("a")
    world.run(300)
    world.snapshot(leader.node_id)
    world.add_observer(9, 1, 2, 3)
    world.run(1_000)
    world.crash(leader.node_id)
    new = world.elect()
    world.append("b")
    world.run_until(lambda: world.nodes[9].running.high_watermark == new.log.end_offset)
    assert world.nodes[9].log.start_offset > 0


def test_a_graceful_end_hands_over_at_once() -> None:
    world = three(15)
    leader = world.elect()
    world.append("a")
    world.run(500)
    leader.running.shut_down(world.now_ms, 5_000)
    world.pump(leader)
    began = world.now_ms
    world.run_until(lambda: leader.running.is_shut_down)
    assert world.now_ms - began < 500, "no timeout was waited for"
    new = world.elect()
    assert new is not leader
    assert leader.running.leader_id == new.node_id


def add(world: World, node_id: int, token: str = "add") -> None:
    leader = world.elect()
    key = world.nodes[node_id].config.key
    listeners = [AddRaftVoterListener(name=it.name, host=it.host, port=it.port) for it in endpoints(node_id)]
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER,
        timeout_ms=1000,
        voter_id=node_id,
        voter_directory_id=key.directory_id,
        listeners=listeners,
    )
    world.ask(leader.node_id, token, request)


def remove(world: World, key: ReplicaKey, token: str = "remove") -> None:
    request = RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=key.node_id, voter_directory_id=key.directory_id)
    world.ask(world.elect().node_id, token, request)


def test_a_lone_voter_becomes_three() -> None:
    world = World(20)
    world.add_voters(1)
    for node_id in (2, 3):
        world.add_observer(node_id, 1)
        world.run(2_000)
        token = f"add {node_id}"
        add(world, node_id, token)
        world.run_until(partial(world.has_answered, token))
        assert world.answer_to(token).error_code == 0
    world.crash(1)
    leader = world.elect()
    assert leader.node_id in (2, 3)
    assert leader.running.history.voters.ids == {1, 2, 3}


def test_a_removed_leader_goes_when_that_is_committed() -> None:
    world = three(21)
    old = world.elect()
    world.append("a")
    world.run(500)
    remove(world, old.config.key)
    world.run_until(lambda: world.answer_to("remove") is not None)
    assert world.answer_to("remove").error_code == 0
    world.run_until(lambda: not old.running.is_leader)
    new = world.elect()
    assert new is not old
    world.append("b")
    world.run_until(lambda: old.running.high_watermark == new.log.end_offset)
    assert old.node_id not in new.running.history.voters.ids


def test_a_removal_known_only_to_the_removed_leader_does_not_stop_the_quorum() -> None:
    """The removed leader has the longer log, so the other node cannot win: the removed one leads again to commit it."""
    world = World(22)
    world.add_voters(1, 2)
    old = world.elect()
    other = world.nodes[3 - old.node_id]
    world.run(500)
    world.isolate(old.node_id)
    remove(world, old.config.key)
    world.run(100)
    world.crash(old.node_id)
    world.start(old.node_id)
    world.heal()
    world.run_until(lambda: other.running.is_leader and other.running.history.voters.ids == {other.node_id})
    assert world.elect() is other


def test_a_wiped_voter_joins_as_a_new_voter() -> None:
    """The voter with the old directory id is removed, and the new one is added automatically (KIP-1186)."""
    world = three(23)
    leader = world.elect()
    world.append("a")
    world.run(500)
    wiped = next(it for it in world.nodes if it != leader.node_id)
    old_key = world.nodes[wiped].config.key
    world.nodes[wiped].config = replace(world.nodes[wiped].config, auto_join=True)
    world.wipe(wiped)
    world.start(wiped)
    node = world.nodes[wiped]
    world.run(1_000)
    assert not leader.running.history.voters.is_voter(node.config.key)
    world.run_until(lambda: world.elect().running.history.voters.is_voter(node.config.key), 60_000)
    assert not world.elect().running.history.voters.is_voter(old_key)
    world.run_until(lambda: node.running.high_watermark == world.elect().log.end_offset)


def test_a_voter_with_a_new_address_updates_the_leader() -> None:
    world = three(24)
    leader = world.elect()
    moved = next(it for it in world.nodes if it != leader.node_id)
    world.run(500)
    world.crash(moved)
    also = (*endpoints(moved), Listener("CONTROLLER_2", f"node{moved}", 9100))
    world.nodes[moved].config = replace(world.nodes[moved].config, endpoints=also)
    world.start(moved)
    world.run_until(lambda: leader.running.history.voters.endpoints(moved) == also)
    assert world.leader() is leader
