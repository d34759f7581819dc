"""Transactions at rare moments: while ids are fetched, a shard loads, a topic is deleted, or memory is short."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.coordinator.shard import ShardState, Write
from kwire.coordinator.transaction.records import TransactionRecord
from kwire.coordinator.transaction.states import STATE_NAMES
from kwire.coordinator.transaction.verifier import TransactionClaim, UnverifiedBatch
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.server.apis.groups import list_groups
from kwire.server.apis.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from tests.coordinator.clients import client_named
from tests.coordinator.transaction_script import settle
from tests.coordinator.transaction_world import ProducerIdBlock, TransactionWorld
from tests.log.faults import FaultyDisk, broken
from tests.virtual_loop import VirtualLoop, virtual_loop

STATE = f"{TRANSACTION_STATE_TOPIC}-0"
LAST_EPOCH = 32766
E = ErrorCode


class HeldIds(ProducerIdBlock):
    """Producer ids that the test assigns."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = False
        self.asked: list[asyncio.Future[None]] = []

    async def next(self) -> int:
        if self.is_held:
            self.asked.append(asyncio.get_running_loop().create_future())
            await self.asked[-1]
        return await super().next()


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as loop:
        yield loop


@pytest.fixture
def world(tmp_path: Path, loop: VirtualLoop) -> TransactionWorld:
    world = TransactionWorld(tmp_path, loop)
    world.producer_ids = HeldIds()
    return world


def play(loop: VirtualLoop, world: TransactionWorld, act: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await world.start()
        await act()
        world.stop()
        await settle()

    loop.run_until_complete(main())


async def init(world: TransactionWorld, transactional_id: str = "x", timeout_ms: int = 60_000) -> Any:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    return await world.ask(init_producer_id.API, request, 5)


async def add(world: TransactionWorld, producer_id: int, epoch: int) -> ErrorCode:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    answer = await world.ask(add_partitions_to_txn.API, request, 3)
    return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


async def begin(world: TransactionWorld, *, epoch: int = 0, timeout_ms: int = 60_000) -> int:
    """Return the producer id of an open transaction that has a partition."""
    producer_id: int = (await init(world, timeout_ms=timeout_ms)).producer_id
    if epoch:
        shard = world.transactions._runtime.active(0)
        moved = dataclasses.replace(shard.machine.transactions["x"], producer_epoch=epoch, last_producer_epoch=-1)
        shard.write(Write(answer=None, records=[TransactionRecord("x", moved)]))
    assert await add(world, producer_id, epoch) is E.NONE
    return producer_id


async def commit(world: TransactionWorld, producer_id: int, epoch: int) -> Any:
    request = EndTxnRequest(transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=True)
    return await world.ask(end_txn.API, request, 5)


def states(world: TransactionWorld) -> list[str]:
    """Return the states that were stored since the last call."""
    return [STATE_NAMES[record.transaction.state] for record in world.new_records() if record.transaction is not None]


def commit_of_offsets(producer_id: int, group_id: str = "g") -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


def code_of(answer: Any) -> ErrorCode:
    """Return the code of the only partition in a TxnOffsetCommit response."""
    return ErrorCode(answer.topics[0].partitions[0].error_code)


# --- producer ids


def test_an_end_that_is_sent_twice_while_a_producer_id_is_fetched_is_one_end(
    loop: VirtualLoop, world: TransactionWorld
) -> None:
    async def act() -> None:
        producer_id = await begin(world, epoch=LAST_EPOCH)
        list(world.new_records())
        ids = world.producer_ids
        assert isinstance(ids, HeldIds)
        ids.is_held = True
        both = [loop.create_task(commit(world, producer_id, LAST_EPOCH)) for _ in range(2)]
        await settle()
        assert len(ids.asked) == 2
        for each in ids.asked:
            each.set_result(None)
            await settle()
        first, second = [await each for each in both]
        assert (first.error_code, first.producer_epoch) == (E.NONE, 0)
        assert first.producer_id != producer_id
        assert second == first
        assert states(world) == ["PrepareCommit", "CompleteCommit"]

    play(loop, world, act)


def test_a_timed_out_transaction_waits_for_the_producer_id_that_its_end_needs(
    loop: VirtualLoop, world: TransactionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async def act() -> None:
        await begin(world, epoch=LAST_EPOCH, timeout_ms=5_000)
        ids = world.producer_ids
        assert isinstance(ids, HeldIds)
        ids.is_held = True
        await asyncio.sleep(15)
        assert world.machine().transactions["x"].state.name == "ONGOING"
        assert len(ids.asked) == 1, "one id is enough"
        ids.asked[0].set_exception(KafkaError(E.COORDINATOR_NOT_AVAILABLE))
        await asyncio.sleep(5)
        assert "no producer id for a transaction that has to be aborted" in caplog.text
        ids.is_held = False
        ids.asked[1].set_result(None)
        await asyncio.sleep(5)
        assert world.machine().transactions["x"].state.name == "COMPLETE_ABORT"

    play(loop, world, act)


def test_a_broker_stops_while_it_fetches_a_producer_id(loop: VirtualLoop, world: TransactionWorld) -> None:
    async def act() -> None:
        await begin(world, epoch=LAST_EPOCH, timeout_ms=5_000)
        ids = world.producer_ids
        assert isinstance(ids, HeldIds)
        ids.is_held = True
        await asyncio.sleep(15)
        world.transactions.stop()
        await settle()
        assert ids.asked[0].cancelled()

    play(loop, world, act)


# --- the end of a transaction


def test_a_marker_request_of_an_earlier_load_completes_no_transaction_again(
    loop: VirtualLoop, world: TransactionWorld
) -> None:
    async def act() -> None:
        producer_id = await begin(world)
        world.reject_appends("t-0", reject=True)
        assert (await commit(world, producer_id, 0)).error_code == E.NONE
        world.reject_appends(STATE, reject=True)
        world.reject_appends("t-0", reject=False)
        await asyncio.sleep(0.11)  # the marker is written, its completion is not
        assert world.partition("t-0").log.log_end_offset == 1
        assert states(world) == ["Empty", "Ongoing", "PrepareCommit"]
        world.reject_appends(STATE, reject=False)
        world.transactions._resign(0)
        world.transactions.role_changed(world.partition(STATE))
        await world.transactions.loaded()
        await settle()
        assert states(world) == ["CompleteCommit"]
        await asyncio.sleep(1)
        assert states(world) == []

    play(loop, world, act)


def test_a_decision_about_a_topic_that_is_gone_sends_no_markers(loop: VirtualLoop, world: TransactionWorld) -> None:
    """The topic is gone from the metadata; the broker removes its partitions a moment later."""

    async def act() -> None:
        producer_id = await begin(world)
        topics = {key: each for key, each in world.image.topics.items() if key != TRANSACTION_STATE_TOPIC}
        known, world.image = world.image, dataclasses.replace(world.image, topics=topics)
        shard = world.transactions._runtime.active(0)
        world.transactions._send_markers(shard.machine.transactions["x"])
        assert world.partition("t-0").log.log_end_offset == 0
        world.image = known
        assert (await commit(world, producer_id, 0)).error_code == E.NONE

    play(loop, world, act)


def test_a_marker_for_a_broken_disk_is_answered_as_that(tmp_path: Path, loop: VirtualLoop) -> None:
    disk = FaultyDisk()
    world = TransactionWorld(tmp_path, loop, disk)

    async def act() -> None:
        def fail(operation: str, path: str) -> Any:
            return broken(operation, path) if operation == "append" and "/t-0/" in path else None

        disk.fail = fail
        topics = [WritableTxnMarkerTopic(name=name, partition_indexes=[0]) for name in ("t", "u")]
        marker = WritableTxnMarker(producer_id=1, producer_epoch=0, topics=topics)
        answer = await world.ask(write_txn_markers.API, WriteTxnMarkersRequest(markers=[marker]), 1)
        codes = {topic.name: topic.partitions[0].error_code for topic in answer.markers[0].topics}
        assert codes == dict.fromkeys(("t", "u"), E.KAFKA_STORAGE_ERROR), "the whole directory is offline"

    async def main() -> None:
        await world.start()
        await act()
        world.kill()
        await settle()

    loop.run_until_complete(main())


# --- memory


def test_without_memory_new_transactional_ids_get_coordinator_not_available(
    loop: VirtualLoop, world: TransactionWorld
) -> None:
    world.config = dataclasses.replace(world.config, memory_bytes_max=1)

    async def act() -> None:
        first = await init(world)
        assert first.error_code == E.NONE
        assert (await init(world, "y")).error_code == E.COORDINATOR_NOT_AVAILABLE
        assert await add(world, first.producer_id, 0) is E.COORDINATOR_NOT_AVAILABLE
        assert (await init(world)).producer_epoch == 1, "what is known goes on"

    play(loop, world, act)


# --- shards that load, are closed, or are on other brokers


def break_state(shard: Any) -> None:
    """Break a shard's state as a broken invariant does: the shard is loaded again."""
    with pytest.raises(KafkaError), shard:
        raise AssertionError


def test_listings_and_commits_wait_for_a_shard_reload(loop: VirtualLoop, world: TransactionWorld) -> None:
    async def act() -> None:
        producer_id = await begin(world)
        for runtime in (world.transactions._runtime, world.groups._runtime):
            break_state(runtime.active(0))
        loading = E.COORDINATOR_LOAD_IN_PROGRESS
        assert (await world.ask(list_transactions.API, ListTransactionsRequest(), 1)).error_code == loading
        assert (await world.ask(list_groups.API, ListGroupsRequest(), 1)).error_code == loading
        request = commit_of_offsets(producer_id)
        assert code_of(await world.ask(txn_offset_commit.API, request, 2)) is loading
        assert code_of(await world.ask(txn_offset_commit.API, request, 1)) is E.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(5)
        assert (await world.ask(list_transactions.API, ListTransactionsRequest(), 1)).error_code == E.NONE

    play(loop, world, act)


def test_listings_leave_out_closed_shards(loop: VirtualLoop, world: TransactionWorld) -> None:
    async def act() -> None:
        await begin(world)
        for runtime in (world.transactions._runtime, world.groups._runtime):
            runtime.active(0).close()
        answer = await world.ask(list_transactions.API, ListTransactionsRequest(), 1)
        assert (answer.error_code, answer.transaction_states) == (E.NONE, [])
        listed = await world.ask(list_groups.API, ListGroupsRequest(), 1)
        assert (listed.error_code, listed.groups) == (E.NONE, [])

    play(loop, world, act)


def test_a_broker_without_the_partition_is_no_coordinator(loop: VirtualLoop, world: TransactionWorld) -> None:
    async def act() -> None:
        for name in (TRANSACTION_STATE_TOPIC, GROUP_OFFSETS_TOPIC):
            topic = world.image.topics[name]
            elsewhere = dataclasses.replace(topic.partitions[0], replicas=(2,), isr=(2,), leader=2)
            moved = dataclasses.replace(topic, partitions=(elsewhere,))
            old, world.image = world.image, dataclasses.replace(world.image, topics={**world.image.topics, name: moved})
            world.partitions.apply(MetadataDelta(old, world.image))
        assert world.transactions._runtime.find(0) is None
        assert (await init(world)).error_code == E.NOT_COORDINATOR
        assert code_of(await world.ask(txn_offset_commit.API, commit_of_offsets(1), 4)) is E.NOT_COORDINATOR
        assert world.groups._runtime.find(0) is None

    play(loop, world, act)


# --- offsets


def test_offsets_for_a_group_without_a_name_are_rejected(loop: VirtualLoop, world: TransactionWorld) -> None:
    async def act() -> None:
        producer_id = await begin(world)
        answer = await world.ask(txn_offset_commit.API, commit_of_offsets(producer_id, group_id=""), 4)
        assert code_of(answer) is E.INVALID_GROUP_ID

    play(loop, world, act)


def test_waiting_offsets_of_a_disconnected_client_are_not_committed(
    loop: VirtualLoop, world: TransactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act() -> None:
        producer_id: int = (await init(world)).producer_id
        request = AddOffsetsToTxnRequest(transactional_id="x", producer_id=producer_id, producer_epoch=0, group_id="g")
        assert (await world.ask(add_offsets_to_txn.API, request, 3)).error_code == E.NONE
        batches: list[UnverifiedBatch] = []

        def verify(claim: TransactionClaim, asked: list[UnverifiedBatch]) -> None:
            batches.extend(asked)

        monkeypatch.setattr(world.transaction_verifier, "verify", verify)
        waiting = loop.create_task(world.ask(txn_offset_commit.API, commit_of_offsets(producer_id), 5))
        await settle()
        waiting.cancel()
        await settle()
        batches[0].on_verified(None)
        assert world.partition(f"{GROUP_OFFSETS_TOPIC}-0").log.log_end_offset == 0
        assert world.groups._runtime.active(0).state is ShardState.ACTIVE

    play(loop, world, act)


def test_transactional_offsets_need_no_member_id_while_a_group_has_members(
    loop: VirtualLoop, world: TransactionWorld
) -> None:
    """Producers before KIP-447 send no member id; a given member id is still checked."""

    async def act() -> None:
        producer_id: int = (await init(world)).producer_id
        request = AddOffsetsToTxnRequest(transactional_id="x", producer_id=producer_id, producer_epoch=0, group_id="g")
        assert (await world.ask(add_offsets_to_txn.API, request, 3)).error_code == E.NONE
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joining = world.groups.join(join, client_named("c"), version=3)
        assert isinstance(joining, asyncio.Future)
        await settle()
        commit = commit_of_offsets(producer_id)
        assert code_of(await world.ask(txn_offset_commit.API, commit, 4)) is E.NONE
        unknown = dataclasses.replace(commit, member_id="unknown-member")
        assert code_of(await world.ask(txn_offset_commit.API, unknown, 4)) is E.UNKNOWN_MEMBER_ID
        joining.cancel()

    play(loop, world, act)
