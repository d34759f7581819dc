"""The setting log.dirs.free.bytes.min: producers are rejected before a disk is full, and everything else continues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.server.assembly import housekeeping
from tests.log.faults import FaultyDisk
from tests.security.exploits import transactional_batch
from tests.server.replicated_topic import Scene, play
from tests.server.test_configs import BROKER, DELETE, SET, alter
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce, produce_request, unique, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

NAME = "log.dirs.free.bytes.min"
MINIMUM, ENOUGH, LITTLE = 1_000_000, 1_000_000, 999_999


class SmallDisk(FaultyDisk):
    """A disk whose free space the test sets, by directory."""

    def __init__(self) -> None:
        super().__init__()
        self.free: dict[str, int] = {}

    def space(self, path: str) -> tuple[int, int]:
        return 10 * MINIMUM, next((free for name, free in self.free.items() if path.startswith(name)), ENOUGH)


@pytest.fixture
def disk() -> SmallDisk:
    return SmallDisk()


@pytest.fixture
def broker(
    tmp_path: Path, disk: SmallDisk, directories: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningBroker]:
    monkeypatch.setattr(housekeeping, "STEP_MS", 20)
    settings = {"log.dirs": ",".join(directories), NAME: str(MINIMUM)}
    with RunningBroker(tmp_path, settings, disk=disk) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[RawClient]:
    with broker.client() as connected:
        yield connected


def short(broker: RunningBroker) -> list[bool]:
    logs = broker.server.services.logs
    return broker.call(lambda: [directory.rejects_clients for directory in logs.directories])


def set_free(broker: RunningBroker, disk: SmallDisk, directories: list[str], *free: int) -> None:
    """Set the free bytes of the directories, and wait until the broker has measured them."""
    disk.free = dict(zip(directories, free, strict=True))
    eventually(lambda: short(broker) == [size < MINIMUM for size in free], "the space to be measured")


def test_producers_are_rejected_until_there_is_space(
    broker: RunningBroker, client: RawClient, disk: SmallDisk, directories: list[str]
) -> None:
    topic, _ = create_topic(client)
    assert produce(client, topic, batch(b"a")).error_code == ErrorCode.NONE
    set_free(broker, disk, directories, LITTLE, LITTLE)
    rejected = produce(client, topic, batch(b"b"))
    assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert NAME in rejected.error_message
    made_now, _ = create_topic(client)
    assert produce(client, made_now, batch(b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert values_in(fetch(client, topic).records) == [b"a"]
    set_free(broker, disk, directories, ENOUGH, ENOUGH)
    assert produce(client, topic, batch(b"c")).error_code == ErrorCode.NONE
    assert produce(client, made_now, batch(b"c")).error_code == ErrorCode.NONE
    assert b"".join(each or b"" for each in values_in(fetch(client, topic).records)) == b"ac"
    assert fetch(client, topic).high_watermark == 2


def test_each_directory_has_its_own_space(
    broker: RunningBroker, client: RawClient, disk: SmallDisk, directories: list[str]
) -> None:
    topic, _ = create_topic(client, 4)
    set_free(broker, disk, directories, ENOUGH, LITTLE)
    codes = [produce(client, topic, batch(b"v"), partition=index).error_code for index in range(4)]
    assert sorted(codes) == [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_the_brokers_own_writes_continue(
    broker: RunningBroker, client: RawClient, disk: SmallDisk, directories: list[str]
) -> None:
    """Offsets are committed, and a transaction is completed with its marker."""
    topic, _ = create_topic(client)
    group = unique("group")
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
    client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
    begin = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    begun = eventually(lambda: none_or(client.ask(begin, 5)), "the coordinator")
    data = transactional_batch(b"in", producer_id=begun.producer_id, producer_epoch=begun.producer_epoch)
    request = produce_request(topic, data)
    request.transactional_id = "x"
    assert client.ask(request, 12).responses[0].partition_responses[0].error_code == ErrorCode.NONE
    set_free(broker, disk, directories, LITTLE, LITTLE)
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    commit = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[offset])])
    eventually(lambda: client.ask(commit, 8).topics[0].partitions[0].error_code == ErrorCode.NONE, "the commit")
    end = EndTxnRequest(
        transactional_id="x", producer_id=begun.producer_id, producer_epoch=begun.producer_epoch, committed=True
    )
    assert client.ask(end, 5).error_code == ErrorCode.NONE
    eventually(lambda: fetch(client, topic, isolation_level=1).high_watermark == 2, "the marker")
    assert produce(client, topic, batch(b"later")).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def none_or(answer: Any) -> Any:
    return answer if answer.error_code == ErrorCode.NONE else None


def test_a_later_batch_of_an_idempotent_producer_is_not_stored_before_the_rejected_one(
    broker: RunningBroker, client: RawClient, disk: SmallDisk, directories: list[str]
) -> None:
    topic, _ = create_topic(client)
    producer = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
    identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    first, second = (batch(value, sequence=index, **identity) for index, value in enumerate((b"1", b"2")))
    set_free(broker, disk, directories, LITTLE, LITTLE)
    assert produce(client, topic, first).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    set_free(broker, disk, directories, ENOUGH, ENOUGH)
    assert produce(client, topic, second).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [produce(client, topic, each).error_code for each in (first, second)] == [ErrorCode.NONE] * 2
    assert fetch(client, topic).high_watermark == 2


def test_the_limit_changes_while_the_broker_runs(
    broker: RunningBroker, client: RawClient, disk: SmallDisk, directories: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    topic, _ = create_topic(client)
    assert alter(client, BROKER, "", (NAME, SET, "-1")) == ErrorCode.INVALID_REQUEST
    assert alter(client, BROKER, "", (NAME, SET, str(MINIMUM + 1))) == ErrorCode.NONE
    eventually(lambda: short(broker) == [True, True], "the limit to be higher")
    assert produce(client, topic, batch(b"v")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert alter(client, BROKER, "", (NAME, SET, "0")) == ErrorCode.NONE
    eventually(lambda: short(broker) == [False, False], "the limit to be off")
    assert produce(client, topic, batch(b"v")).error_code == ErrorCode.NONE
    assert alter(client, BROKER, "", (NAME, DELETE, None)) == ErrorCode.NONE
    lines = [record.getMessage() for record in caplog.records if NAME in record.getMessage()]
    for directory in directories:
        rejects, accepts = (line for line in lines if f" {directory} " in line)
        assert f"rejects batches of producers: {ENOUGH} bytes are free" in rejects
        assert "accepts batches of producers again" in accepts


def test_followers_replicate_to_a_directory_without_enough_space() -> None:
    """A follower's own directory lacks space: it stays in sync, and rejects producers when it leads."""

    async def acts(scene: Scene) -> None:
        follower = scene.followers[0]
        server = scene.cluster.brokers[follower - 1].server
        capacity = server.services.disk.space(server.services.config.log_dirs[0])[1]
        for directory in server.services.logs.directories:
            directory.set_rejects_clients(True)
        for value in (b"a", b"b"):
            assert (await scene.produce(value)).error_code == ErrorCode.NONE
        assert scene.partition(follower).log.log_end_offset == 2
        assert capacity > 0
        await scene.alter_all(NAME, str(2**60))
        await until_rejected(scene, lambda partition: partition.log.health.rejects_clients)
        rejected = await scene.produce(b"c")
        assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await scene.alter_all(NAME, "0")
        await until_rejected(scene, lambda partition: not partition.log.health.rejects_clients)
        assert (await scene.produce(b"d")).error_code == ErrorCode.NONE
        await asyncio.sleep(1)
        assert [scene.partition(broker).high_watermark for broker in (1, 2, 3)] == [3, 3, 3]

    play(acts)


async def until_rejected(scene: Scene, holds: Callable[[Any], bool]) -> None:
    await scene.until(lambda: all(holds(scene.partition(broker)) for broker in (1, 2, 3)))
