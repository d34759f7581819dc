"""Transactions when a disk fails or a partition is removed during a wait: no request waits forever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.partitions.commits import committed
from kwire.coordinator.markers import TransactionMarker
from kwire.coordinator.shard import ShardState
from kwire.coordinator.transaction.records import TransactionRecord
from kwire.coordinator.transaction.verifier import TransactionClaim, UnverifiedBatch
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.server.apis.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    init_producer_id,
    txn_offset_commit,
)
from tests.coordinator.transaction_script import settle
from tests.coordinator.transaction_world import TransactionWorld
from tests.virtual_loop import VirtualClock, VirtualLoop, virtual_loop

HOUR_MS = 3_600_000
STATE, OFFSETS = "__transaction_state-0", "__consumer_offsets-0"


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as loop:
        yield loop


async def initialised(world: TransactionWorld, *, timeout_ms: int = 60_000) -> int:
    """Send InitProducerId and return the producer id."""
    init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=timeout_ms)
    producer_id = (await world.ask(init_producer_id.API, init, 5)).producer_id
    assert isinstance(producer_id, int)
    return producer_id


async def begin(world: TransactionWorld, *, timeout_ms: int = 60_000) -> int:
    """Return the producer id of an open transaction that has a partition."""
    producer_id = await initialised(world, timeout_ms=timeout_ms)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    added = await world.ask(add_partitions_to_txn.API, add, 3)
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    return producer_id


def test_a_failed_abort_of_a_timed_out_transaction_is_retried_after_the_interval(
    tmp_path: Path, loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world = TransactionWorld(tmp_path, loop)
        await world.start()
        await begin(world, timeout_ms=5_000)
        world.reject_appends(STATE, reject=True)
        tries = []
        encode = world.machine().encode

        def encoding(record: TransactionRecord) -> Any:
            tries.append(loop.time())
            assert len(tries) < 100, "it never stops trying"
            return encode(record)

        monkeypatch.setattr(world.machine(), "encode", encoding)
        await asyncio.sleep(35)
        assert len(tries) == 3
        world.reject_appends(STATE, reject=False)
        await asyncio.sleep(10)
        assert world.machine().transactions["x"].state.name == "COMPLETE_ABORT"
        world.stop()
        await settle()

    loop.run_until_complete(main())


class SettableClock(VirtualClock):
    """Virtual clock with a settable wall clock; monotonic time is unaffected."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("ahead_ms", [-HOUR_MS, 0, HOUR_MS])
def test_a_transaction_times_out_although_the_wall_clock_is_set(
    tmp_path: Path, loop: VirtualLoop, ahead_ms: int, *, restarts: bool
) -> None:
    """The transaction begins before the clock is set; the broker continues, or a restarted one takes over."""

    async def main() -> None:
        world = TransactionWorld(tmp_path, loop)
        world.clock = clock = SettableClock(loop)
        await world.start()
        await begin(world, timeout_ms=60_000)
        clock.ahead_ms = ahead_ms
        if restarts:
            world.stop()
            await settle()
            await world.start()
        await asyncio.sleep(55)
        is_early = restarts and ahead_ms > 0  # by the wall clock, the transaction has been open for an hour
        assert world.machine().transactions["x"].state.name == ("COMPLETE_ABORT" if is_early else "ONGOING")
        await asyncio.sleep(20)
        assert world.machine().transactions["x"].state.name == "COMPLETE_ABORT"
        world.stop()
        await settle()

    loop.run_until_complete(main())


def test_a_restart_does_not_extend_a_transaction_timeout(tmp_path: Path, loop: VirtualLoop) -> None:
    async def main() -> None:
        world = TransactionWorld(tmp_path, loop)
        await world.start()
        await begin(world, timeout_ms=60_000)
        await asyncio.sleep(50)
        world.stop()
        await settle()
        await world.start()
        assert world.machine().transactions["x"].state.name == "ONGOING"
        await asyncio.sleep(21)
        assert world.machine().transactions["x"].state.name == "COMPLETE_ABORT"
        world.stop()
        await settle()

    loop.run_until_complete(main())


def test_a_failing_log_ends_the_wait_for_durability(tmp_path: Path, loop: VirtualLoop) -> None:
    async def main() -> None:
        world = TransactionWorld(tmp_path, loop)
        await world.start()
        await begin(world)
        partition = world.partition(STATE)
        shard = world.transactions._runtime.active(0)
        world.workers.hold()
        init = InitProducerIdRequest(transactional_id="y", transaction_timeout_ms=60_000)
        waiting = loop.create_task(world.ask(init_producer_id.API, init, 5))
        await settle()
        assert not waiting.done()
        partition.log.health.fail(DiskFailure("fsync", "the log", OSError(5, "I/O error")))
        partition.wake()  # as the failed flush does
        answer = await asyncio.wait_for(waiting, 60)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        assert shard.state is ShardState.CLOSED
        assert (await world.ask(init_producer_id.API, init, 5)).error_code == ErrorCode.NOT_COORDINATOR
        world.workers.release()
        world.kill()
        await settle()

    loop.run_until_complete(main())


@pytest.mark.parametrize(
    ("how", "code"),
    [("failed", ErrorCode.KAFKA_STORAGE_ERROR), ("deleted", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
def test_a_wait_for_an_impossible_commit_fails(tmp_path: Path, loop: VirtualLoop, how: str, code: ErrorCode) -> None:
    """The partition failed or was deleted before the wait began, so no notification will end the wait."""

    async def main() -> None:
        world = TransactionWorld(tmp_path, loop)
        await world.start()
        partition = world.partition("t-0")
        if how == "failed":
            partition.log.health.fail(DiskFailure("fsync", "the log", OSError(5, "I/O error")))
        else:
            world.delete_topic("t")
        with pytest.raises(KafkaError) as rejected:
            await asyncio.wait_for(committed(partition, 0), 60)
        assert rejected.value.code is code
        world.kill()

    loop.run_until_complete(main())


def test_transactional_offsets_are_committed_in_the_call_that_admits_them(
    tmp_path: Path, loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker that follows immediately must find them, or their transaction would stay open."""

    async def main() -> None:
        world = TransactionWorld(tmp_path, loop)
        await world.start()
        producer_id = await initialised(world)
        add = AddOffsetsToTxnRequest(transactional_id="x", producer_id=producer_id, producer_epoch=0, group_id="g")
        assert (await world.ask(add_offsets_to_txn.API, add, 3)).error_code == 0
        batches: list[UnverifiedBatch] = []

        def verify(claim: TransactionClaim, asked: list[UnverifiedBatch]) -> None:
            batches.extend(asked)

        monkeypatch.setattr(world.transaction_verifier, "verify", verify)
        commit = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=producer_id,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
                )
            ],
        )
        waiting = loop.create_task(world.ask(txn_offset_commit.API, commit, 5))
        await settle()
        batches[0].on_verified(None)
        marker = TransactionMarker(
            producer_id=producer_id, producer_epoch=1, is_commit=True, coordinator_epoch=0, transaction_version=2
        )
        outcome = world.markers.write(marker, [("__consumer_offsets", 0)])
        assert outcome == {("__consumer_offsets", 0): ErrorCode.NONE}
        assert (await waiting).topics[0].partitions[0].error_code == 0
        log = world.partition(OFFSETS).log
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
        assert world.group_offset("g", "t", 0) == 7
        world.stop()
        await settle()

    loop.run_until_complete(main())
