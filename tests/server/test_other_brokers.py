"""Markers and verifications for another broker: a burst needs few requests, and each item gets its own result."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.cluster.channel import Destination, Unreachable
from kwire.cluster.metadata.image import NO_LEADER
from kwire.cluster.topic_names import TRANSACTION_STATE_TOPIC
from kwire.coordinator.markers import TransactionMarker
from kwire.coordinator.transaction.initialising import Producer
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.server.other_nodes.other_brokers import ClusterMarkerWriter, ClusterTransactions, OtherBrokers
from kwire.server.other_nodes.request_batches import PARTITIONS_MAX
from tests.virtual_loop import virtual_loop

HERE, THERE = 1, 2
COUNT = 500


class ThereChannel:
    """Broker that responds to each request after a tenth of a second, and rejects odd ids."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.is_reachable = True
        self.error = ErrorCode.NONE

    async def send(self, destination: Destination, request: Any) -> Any:
        assert destination == Destination(THERE, "there", 9092)
        self.requests.append(request)
        await asyncio.sleep(0.1)
        if not self.is_reachable:
            raise Unreachable("connection refused")
        if isinstance(request, WriteTxnMarkersRequest):
            return WriteTxnMarkersResponse(markers=[_written(each) for each in reversed(request.markers)])
        return AddPartitionsToTxnResponse(
            error_code=self.error,
            results_by_transaction=[_verified(each) for each in reversed(request.transactions)],
        )


def _code(number: int) -> ErrorCode:
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if number % 2 else ErrorCode.NONE


def _written(marker: Any) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=_code(marker.producer_id))
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


def _verified(transaction: Any) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=_code(transaction.producer_id)
                    )
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )


def others(channel: ThereChannel) -> OtherBrokers:
    broker = SimpleNamespace(endpoints=[SimpleNamespace(name="PLAINTEXT", host="there", port=9092)])
    shards = SimpleNamespace(partitions=[SimpleNamespace(leader=THERE)])
    image = SimpleNamespace(brokers={THERE: broker}, topics={TRANSACTION_STATE_TOPIC: shards})
    return OtherBrokers(broker_id=HERE, listener_name="PLAINTEXT", image=lambda: cast("Any", image), channel=channel)


def marker(producer_id: int) -> TransactionMarker:
    return TransactionMarker(
        producer_id=producer_id, producer_epoch=0, is_commit=True, coordinator_epoch=3, transaction_version=2
    )


def test_five_hundred_markers_for_a_broker_take_two_requests() -> None:
    async def end_many() -> None:
        channel = ThereChannel()
        everywhere = ClusterMarkerWriter(cast("Any", None), others(channel))
        partitions = [("orders", 0), ("payments", 4)]
        answers = [everywhere.write(THERE, marker(number), partitions) for number in range(COUNT)]
        outcomes = await asyncio.gather(*cast("Any", answers))
        assert outcomes == [dict.fromkeys(partitions, _code(number)) for number in range(COUNT)]
        assert len(channel.requests) <= 2
        channel.is_reachable = False
        outcome = await cast("Any", everywhere.write(THERE, marker(1), partitions))
        assert outcome == dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)

    with virtual_loop() as loop:
        loop.run_until_complete(end_many())


def test_five_hundred_verifications_at_a_broker_take_two_requests() -> None:
    async def verify_many() -> None:
        channel = ThereChannel()
        here = cast("Any", SimpleNamespace(partition_for=lambda _: 0))
        everywhere = ClusterTransactions(here, others(channel))
        partitions = [("orders", 0), ("payments", 4)]
        answers = [everywhere.verify(f"id-{number}", Producer(number, 0), partitions) for number in range(COUNT)]
        codes = await asyncio.gather(*cast("Any", answers))
        assert codes == [dict.fromkeys(partitions, _code(number)) for number in range(COUNT)]
        assert len(channel.requests) <= 2
        channel.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(KafkaError) as caught:
            await cast("Any", everywhere.verify("id-1", Producer(1, 0), partitions))
        assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        channel.is_reachable = False
        with pytest.raises(KafkaError) as caught:
            await cast("Any", everywhere.verify("id-1", Producer(1, 0), partitions))
        assert caught.value.code is ErrorCode.NETWORK_EXCEPTION

    with virtual_loop() as loop:
        loop.run_until_complete(verify_many())


def test_transactions_of_many_partitions_leave_in_requests_that_the_other_broker_takes() -> None:
    """A single request with the markers of 200 transactions on 1,000 partitions each would have too many elements."""

    async def end_large() -> None:
        channel = ThereChannel()
        everywhere = ClusterMarkerWriter(cast("Any", None), others(channel))
        partitions = [("wide", index) for index in range(1000)]
        answers = [everywhere.write(THERE, marker(number), partitions) for number in range(200)]
        outcomes = await asyncio.gather(*cast("Any", answers))
        assert outcomes == [dict.fromkeys(partitions, _code(number)) for number in range(200)]
        sizes = [
            sum(len(topic.partition_indexes) for each in request.markers for topic in each.topics)
            for request in channel.requests
        ]
        assert sum(sizes) == 200 * len(partitions)
        assert max(sizes) <= PARTITIONS_MAX

    with virtual_loop() as loop:
        loop.run_until_complete(end_large())


def test_a_verification_of_many_partitions_is_split() -> None:
    async def verify_large() -> None:
        channel = ThereChannel()
        here = cast("Any", SimpleNamespace(partition_for=lambda _: 0))
        everywhere = ClusterTransactions(here, others(channel))
        partitions = [("wide", index) for index in range(2 * PARTITIONS_MAX + 1)]
        codes = await cast("Any", everywhere.verify("id-3", Producer(3, 0), partitions))
        assert codes == dict.fromkeys(partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert [len(each.transactions[0].topics[0].partitions) for each in channel.requests] == [500, 500, 1]
        assert await cast("Any", everywhere.verify("id-2", Producer(2, 0), [])) == {}

    with virtual_loop() as loop:
        loop.run_until_complete(verify_large())


def test_a_broker_without_the_listener_of_brokers_is_unreachable() -> None:
    async def main() -> None:
        channel = ThereChannel()
        known = others(channel)
        known._listener_name = "BROKERS"
        for broker_id in (THERE, 77):
            with pytest.raises(Unreachable, match=f"broker {broker_id} is not known to have a listener BROKERS"):
                await known.send(broker_id, None)
        assert channel.requests == []

    with virtual_loop() as loop:
        loop.run_until_complete(main())


def test_verification_without_a_coordinator_returns_coordinator_not_available() -> None:
    known = others(ThereChannel())
    known.image.topics[TRANSACTION_STATE_TOPIC].partitions[0].leader = NO_LEADER  # type: ignore[misc]
    everywhere = ClusterTransactions(cast("Any", SimpleNamespace(partition_for=lambda _: 0)), known)
    with pytest.raises(KafkaError) as rejected:
        everywhere.verify("x", Producer(1, 0), [("t", 0)])
    assert rejected.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
