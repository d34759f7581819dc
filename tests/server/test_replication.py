"""Replicated partitions: responses to clients while replicas fail and return."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import pytest

from kwire.cluster.partitions.partition import Partition
from kwire.log.cold_reads import ColdReads
from kwire.log.errors import NotReadyError
from kwire.log.verify_budget import BATCH_COST, VerifyBudget
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.delete_records import (
    DeleteRecordsTopic,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.records import decode_all
from kwire.server.fetching import reading
from kwire.simulation import WireClient
from tests.server.replicated_topic import LAG_MAX_MS, Scene, delete_records_request, play
from tests.simulation.session_rules import SessionRules
from tests.support.compiled import replaces_methods
from tests.support.requests import batch, create_request, fetch_request, produce_request


def test_records_acknowledged_with_acks_all_are_on_every_replica() -> None:
    async def acts(scene: Scene) -> None:
        answers = [await scene.produce(value) for value in (b"a", b"b")]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 1)]
        ends = [scene.partition(broker).log.log_end_offset for broker in (1, 2, 3)]
        assert ends == [2, 2, 2]
        await scene.until(lambda: all(scene.partition(broker).high_watermark == 2 for broker in (1, 2, 3)))

    play(acts)


@replaces_methods
def test_followers_of_a_leader_that_has_restarted_catch_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader verifies a few batches for each fetch."""
    budgets: list[VerifyBudget] = []

    def small(cold: ColdReads) -> VerifyBudget:
        budgets.append(VerifyBudget(10 * BATCH_COST, cold))
        return budgets[-1]

    async def acts(scene: Scene) -> None:
        scene.cut_off(*scene.followers)
        for _ in range(200):
            scene.leader.append(batch(b"v"), -1)
        segment = scene.leader.log.segments.active
        segment._verified_from = segment.size  # as after a restart
        monkeypatch.setattr(reading, "VerifyBudget", small)
        scene.heal()
        await scene.until(lambda: all(scene.partition(broker).high_watermark == 200 for broker in (1, 2, 3)))
        assert sum(budget.is_short for budget in budgets) >= 200 // 10 - 1
        data = [scene.partition(broker).log.read(0, 1 << 20) for broker in (1, 2, 3)]
        assert data == data[:1] * 3

    play(acts)


@replaces_methods
def test_followers_are_answered_when_the_leaders_index_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async def acts(scene: Scene) -> None:
        scene.cut_off(*scene.followers)
        scene.leader.append(batch(b"v"), -1)
        read, steps = scene.leader.log.read, itertools.count(1)

        def read_when_ready(*asked: Any, **limits: Any) -> bytes:
            if next(steps) < 20:
                raise NotReadyError
            return read(*asked, **limits)

        monkeypatch.setattr(scene.leader.log, "read", read_when_ready)
        scene.heal()
        await scene.until(lambda: all(scene.partition(broker).high_watermark == 1 for broker in (1, 2, 3)))
        assert next(steps) > 20

    play(acts)


def test_records_of_acks_1_are_readable_when_all_in_sync_replicas_have_them() -> None:
    async def acts(scene: Scene) -> None:
        scene.cut_off(*scene.followers)
        answer = await scene.produce(b"a", acks=1)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        assert not (await scene.fetch(scene.leader_id)).records
        scene.heal()
        await scene.until(lambda: scene.leader.high_watermark == 1)
        records = (await scene.fetch(scene.leader_id)).records
        assert [record.value for record in decode_all(bytes(records))] == [b"a"]

    play(acts, min_insync_replicas=2)


def test_an_uncommitted_produce_request_times_out_after_timeout_ms() -> None:
    async def acts(scene: Scene) -> None:
        scene.cut_off(*scene.followers)
        began = scene.simulation.now
        answer = await scene.produce(b"a", timeout_ms=500)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert 0.5 <= scene.simulation.now - began < 0.7
        assert scene.leader.log.log_end_offset == 1, "the record is neither committed nor truncated yet"

    play(acts)


def test_a_lost_follower_is_left_out_and_comes_back() -> None:
    async def acts(scene: Scene) -> None:
        lost = scene.followers[0]
        scene.cut_off(lost)
        began = scene.simulation.now
        assert (await scene.produce(b"a")).error_code == ErrorCode.NONE
        waited_ms = (scene.simulation.now - began) * 1000
        assert LAG_MAX_MS / 2 <= waited_ms <= 2 * LAG_MAX_MS
        assert set(scene.leader.image.isr) == {1, 2, 3} - {lost}
        scene.heal()
        await scene.until(lambda: len(scene.leader.image.isr) == 3)
        assert scene.partition(lost).log.log_end_offset == 1

    play(acts, min_insync_replicas=2)


def test_acks_all_is_rejected_below_min_insync_replicas() -> None:
    async def acts(scene: Scene) -> None:
        scene.cut_off(*scene.followers)
        began = await scene.produce(b"a", timeout_ms=10 * LAG_MAX_MS)
        assert began.error_code == ErrorCode.REQUEST_TIMED_OUT
        await scene.until(lambda: len(scene.leader.image.isr) == 1)
        answer = await scene.produce(b"b")
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (scene.leader.log.log_end_offset, scene.leader.high_watermark) == (1, 0)

    play(acts, min_insync_replicas=2)


def test_a_follower_sends_producers_to_the_leader() -> None:
    async def acts(scene: Scene) -> None:
        answer = await scene.produce(b"a", broker=scene.followers[0])
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader.leader_id == scene.leader_id
        asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        listed = await scene.ask(scene.followers[0], ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
        assert listed.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(acts)


def test_another_replica_takes_over_with_all_that_was_acknowledged() -> None:
    async def acts(scene: Scene) -> None:
        for value in (b"a", b"b"):
            await scene.produce(value)
        gone = scene.leader_id
        node = scene.cluster.brokers[gone - 1]
        assert node.host.process is not None
        stopping = node.host.process.run(node.server.stop())
        others = scene.followers
        await scene.until(lambda: any(scene.partition(broker).is_led for broker in others))
        (heir,) = [broker for broker in others if scene.partition(broker).is_led]
        data = (await scene.fetch(heir)).records
        assert [record.value for record in decode_all(bytes(data))] == [b"a", b"b"]
        answer = await scene.produce(b"c", broker=heir)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 2)
        await scene.until(stopping.done)

    play(acts)


def test_leadership_goes_back_to_the_preferred_replica_by_itself() -> None:
    async def acts(scene: Scene) -> None:
        preferred = scene.leader.image.replicas[0]
        assert scene.leader_id == preferred
        node, (other, _) = scene.cluster.brokers[preferred - 1], scene.followers
        node.kill()
        await node.start()
        await scene.until(lambda: scene.partition(other).leader_id != preferred, seconds=120)
        await scene.until(lambda: scene.partition(other).leader_id == preferred, seconds=400)

    play(acts)


@pytest.mark.parametrize("acks", [1, -1])
def test_waiting_produce_requests_get_not_leader_when_leadership_ends(acks: int) -> None:
    async def acts(scene: Scene) -> None:
        deposed = scene.leader
        scene.cut_off(*scene.followers)
        waiting = asyncio.ensure_future(scene.produce(b"a", acks=acks, timeout_ms=50_000))
        await scene.until(lambda: deposed.log.log_end_offset == 1)
        image = deposed.image
        deposed.update(replace(image, leader=scene.followers[0], leader_epoch=image.leader_epoch + 1), is_led=False)
        expected = ErrorCode.NOT_LEADER_OR_FOLLOWER if acks == -1 else ErrorCode.NONE
        assert (await waiting).error_code == expected

    play(acts)


def test_delete_records_waits_until_all_replicas_have_deleted() -> None:
    async def acts(scene: Scene) -> None:
        for value in (b"a", b"b", b"c"):
            await scene.produce(value)
        answer = await scene.delete_records(2)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)
        assert [scene.partition(broker).log.log_start_offset for broker in (1, 2, 3)] == [2, 2, 2]
        scene.cut_off(scene.followers[0])
        late = await scene.delete_records(3, timeout_ms=500)
        assert (late.error_code, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)

    play(acts)


class _Pruner:
    """Waiter that deletes all records when they are committed, as the share coordinator deletes old records."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def data_available(self, size: int) -> None:
        self._partition.delete_records_before(-1)

    def state_changed(self) -> None:
        """Ignore the call."""


def test_followers_delete_records_that_were_deleted_while_their_fetch_committed_them() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        scene.leader.wait(_Pruner(scene.leader))
        scene.simulation.check_every(1, SessionRules(scene.cluster).look)
        await scene.ask(1, create_request("other", replicas=3), 7)
        wires = [await WireClient.connect(broker.bootstrap_server) for broker in scene.cluster.brokers]
        for _ in range(30):  # records of other partitions end the wait of the followers' fetches
            other = produce_request("other", batch(b"x"), acks=1)
            await asyncio.gather(scene.produce(b"b"), *(wire.ask(other, 9) for wire in wires))
        assert scene.leader.log.log_start_offset == scene.leader.log.log_end_offset == 31
        for wire in wires:
            wire.close()

    play(acts)


def test_a_waiting_delete_records_ends_when_its_topic_is_deleted() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        leader = scene.leader_id
        scene.cut_off(scene.followers[0])
        waiting = asyncio.ensure_future(scene.delete_records(1, timeout_ms=2**31 - 1))
        await scene.until(lambda: scene.partition(leader).log.log_start_offset == 1)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000)
        other = next(broker for broker in (1, 2, 3) if broker != leader)
        assert (await scene.ask(other, request, 6)).responses[0].error_code == ErrorCode.NONE
        assert (await waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(acts)


def test_deleted_records_are_not_waited_for_where_a_broker_was_fenced() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        late = scene.followers[0]
        scene.cluster.brokers[late - 1].kill()
        await scene.produce(b"b", acks=1)
        waiting = asyncio.ensure_future(scene.delete_records(1, timeout_ms=2**31 - 1))
        await scene.until(lambda: late not in scene.leader.image.isr and scene.waits_for_followers)
        answer = await waiting
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 1)

    play(acts)


def test_deleted_records_are_not_waited_for_where_there_is_no_replica_any_more() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        leader, late, other = scene.leader_id, *scene.followers
        scene.cut_off(late)
        await scene.produce(b"b", acks=1)
        waiting = asyncio.ensure_future(scene.delete_records(1, timeout_ms=2**31 - 1))
        await scene.until(lambda: late not in scene.leader.image.isr and scene.waits_for_followers)
        wanted = ReassignablePartition(partition_index=0, replicas=[leader, other])
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[wanted])])
        assert (await scene.ask(other, request, 0)).responses[0].partitions[0].error_code == ErrorCode.NONE
        answer = await waiting
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 1)

    play(acts)


def test_a_waiting_delete_records_is_cancelled_when_its_client_disconnects() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        scene.cut_off(scene.followers[0])
        server = scene.cluster.brokers[scene.leader_id - 1]
        memory = server.server._listeners.first.memory
        request = delete_records_request(1, 2**31 - 1)
        request.topics += [DeleteRecordsTopic(name=f"unknown-{index}", partitions=[]) for index in range(10_000)]
        wires = [await WireClient.connect(server.bootstrap_server) for _ in range(3)]
        asked = [asyncio.ensure_future(wire.ask(request, 2)) for wire in wires]
        await scene.until(lambda: memory.used_bytes > 300_000 and scene.waits_for_followers)
        for wire, answer in zip(wires, asked, strict=True):
            wire.close()
            answer.cancel()
        await scene.until(lambda: not scene.waits_for_followers and memory.used_bytes == 0)
        assert scene.leader.log.log_start_offset == 1, "what was deleted stays so"

    play(acts)


def test_a_consumer_gets_the_replica_in_its_rack_as_preferred_read_replica() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        other = scene.followers[0]
        await scene.until(lambda: scene.partition(other).high_watermark == 1)
        there, here = f"rack-{other}", f"rack-{scene.leader_id}"
        sent = await scene.fetch(scene.leader_id, rack_id=there)
        assert (sent.error_code, sent.preferred_read_replica, sent.records) == (ErrorCode.NONE, other, b"")
        found = await scene.fetch(other, rack_id=there)
        assert (found.preferred_read_replica, found.high_watermark) == (-1, 1)
        assert [record.value for record in decode_all(bytes(found.records))] == [b"a"]
        for rack in (here, "rack-9", ""):
            kept = await scene.fetch(scene.leader_id, rack_id=rack)
            assert (kept.preferred_read_replica, len(kept.records) > 0) == (-1, True)

    play(acts)


def test_a_consumer_at_a_follower_is_answered_when_there_are_as_many_bytes_as_it_asked_for() -> None:
    async def acts(scene: Scene) -> None:
        other = scene.followers[0]
        fetching = asyncio.ensure_future(scene.fetch(other, min_bytes=8_000, max_wait_ms=20_000))
        await scene.until(lambda: bool(scene.partition(other)._waiters))
        began = asyncio.get_running_loop().time()
        await scene.produce(b"v" * 5_000)
        await scene.until(lambda: scene.partition(other).high_watermark == 1)
        assert not fetching.done()
        await scene.produce(b"v" * 5_000)
        assert len(list(decode_all(bytes((await fetching).records)))) == 2
        assert asyncio.get_running_loop().time() - began < 15, "the time of the simulation: it waited for the bytes"

    play(acts)


def test_a_replica_behind_the_fetch_offset_is_not_the_preferred_read_replica() -> None:
    async def acts(scene: Scene) -> None:
        late = scene.followers[0]
        scene.cut_off(late)
        await scene.produce(b"a", acks=1)
        kept = await scene.fetch(scene.leader_id, 1, rack_id=f"rack-{late}")
        assert (kept.error_code, kept.preferred_read_replica) == (ErrorCode.NONE, -1)

    play(acts)


def test_a_replica_out_of_sync_is_not_the_preferred_read_replica() -> None:
    """The replica has the requested records, but may never get more."""

    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        late = scene.followers[0]
        await scene.until(lambda: scene.partition(late).high_watermark == 1)
        scene.cut_off(late)
        await scene.produce(b"b")  # acknowledged once the other replica left the in-sync set
        await scene.until(lambda: late not in scene.leader.image.isr)
        kept = await scene.fetch(scene.leader_id, 0, rack_id=f"rack-{late}")
        assert (kept.error_code, kept.preferred_read_replica) == (ErrorCode.NONE, -1)
        scene.heal()
        await scene.until(lambda: late in scene.leader.image.isr)
        assert (await scene.fetch(scene.leader_id, 0, rack_id=f"rack-{late}")).preferred_read_replica == late

    play(acts)


def test_an_old_consumer_reads_from_the_leader_only() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        for version, code in ((10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, ErrorCode.NONE)):
            response = await scene.ask(scene.followers[0], fetch_request("t"), version)
            assert response.responses[0].partitions[0].error_code == code

    play(acts)


def test_num_replica_fetchers_can_be_raised_at_runtime() -> None:
    async def acts(scene: Scene) -> None:
        await scene.alter_all("num.replica.fetchers", "2")
        answer = await scene.ask(1, create_request("wide", 6, replicas=3), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE
        await scene.produce(b"a")
        await scene.until(lambda: all(scene.partition(broker).high_watermark == 1 for broker in (1, 2, 3)))
        server = scene.cluster.brokers[scene.followers[0] - 1].server
        places = server._replicas.replication._fetchers._fetchers
        assert {place for _, place in places} == {0, 1}

    play(acts)


def test_a_throttled_replica_comes_slowly_and_the_in_sync_ones_do_not_wait() -> None:
    async def acts(scene: Scene) -> None:
        late = scene.followers[0]
        scene.cut_off(late)
        for _ in range(20):
            assert (await scene.produce(b"x" * 10_000)).error_code == ErrorCode.NONE
        await scene.throttle(bytes_per_second=10_000)
        scene.heal()
        began = scene.simulation.now
        await scene.until(lambda: late in scene.leader.image.isr, seconds=120)
        assert 10 <= scene.simulation.now - began <= 60

    play(acts, leader_replication_throttled_replicas="*", min_insync_replicas=2)
