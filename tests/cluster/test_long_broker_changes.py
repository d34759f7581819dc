"""A broker of thousands of partitions is fenced, comes back, stops and is forgotten in short steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from kwire.cluster.controller.broker_control import BrokerControl
from kwire.cluster.features import SUPPORTED
from kwire.cluster.image import NO_LEADER, PartitionImage
from kwire.cluster.metadata_log import MetadataLog
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kwire.protocol.messages.broker_registration import BrokerRegistrationFeature, BrokerRegistrationRequest
from kwire.protocol.messages.metadata_records import PartitionChangeRecord, PartitionRecord, TopicRecord
from tests.cluster.controller.support import SETTINGS
from tests.cluster.world import CLUSTER_ID, metadata_log
from tests.log.support import ManualClock
from tests.support.loop_steps import in_short_steps, needs_lines
from tests.support.metadata import register_broker

PARTITIONS = 1200
OTHER, GOES = 21, 22
SESSION_MS = 10_000
"""Longer than broker.session.timeout.ms."""
ALONE = 7
"""Every seventh partition has no replica but that of the broker that goes."""


class Scene:
    """Two brokers and what they hold: topics of one partition, and a long one."""

    def __init__(self, log: MetadataLog) -> None:
        self.log = log
        self.clock = ManualClock()
        self.control = BrokerControl(
            metadata_log=log, clock=self.clock, settings=lambda: SETTINGS, controller_id=1, cluster_id=CLUSTER_ID
        )

    async def fill(self) -> None:
        for broker_id in (OTHER, GOES):
            await register_broker(
                self.log, broker_id=broker_id, endpoint=("PLAINTEXT", "h", 9000), directories=[directory_id(broker_id)]
            )
        short = PARTITIONS // 2
        for number in range(short):
            self.log.append(topic(number, 1))
        await self.log.committed(self.log.append(topic(short, PARTITIONS - short)))
        for broker_id in (OTHER, GOES):
            await self.heartbeat(broker_id)

    async def heartbeat(self, broker_id: int, *, shut_down: bool = False) -> bool:
        """Whether the broker may stop."""
        answer = await self.control.heartbeat(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=self.log.newest_image.brokers[broker_id].broker_epoch,
                current_metadata_offset=self.log.next_offset,
                want_shut_down=shut_down,
            )
        )
        return answer.should_shut_down

    async def register(self, broker_id: int, *, process: int) -> int:
        """The broker's epoch."""
        before = self.log.newest_image.brokers[broker_id]
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=process),
            features=[
                BrokerRegistrationFeature(name=feature, min_supported_version=low, max_supported_version=high)
                for feature, (low, high) in SUPPORTED.items()
            ],
            log_dirs=[directory_id(broker_id)],
            previous_broker_epoch=before.broker_epoch if before.fenced else -1,
        )
        return await self.control.register_broker(request, version=4)

    def take_back(self, broker_id: int) -> bool:
        """Write that a broker is in sync with a partition again, as a leader may until the broker is fenced."""
        if self.log.newest_image.brokers[broker_id].fenced:
            return False
        for each in self.log.newest_image.topics.values():
            partition = each.partitions[0]
            if broker_id in partition.replicas and broker_id not in partition.isr:
                change = PartitionChangeRecord(topic_id=each.topic_id, partition_id=0, isr=list(partition.replicas))
                self.log.append([change])
                return True
        return False

    @property
    def partitions(self) -> list[PartitionImage]:
        return [each for topic in self.log.image.topics.values() for each in topic.partitions]

    def led_by(self, broker_id: int) -> int:
        return sum(each.leader == broker_id for each in self.partitions)


def directory_id(broker_id: int) -> UUID:
    return UUID(int=1000 + broker_id)


def topic(number: int, partitions: int) -> list[TopicRecord | PartitionRecord]:
    made: list[TopicRecord | PartitionRecord] = [TopicRecord(name=f"t{number}", topic_id=UUID(int=5000 + number))]
    for index in range(partitions):
        replicas = [GOES] if (number + index) % ALONE == 0 else [GOES, OTHER]
        made.append(
            PartitionRecord(
                topic_id=made[0].topic_id,
                partition_id=index,
                replicas=replicas,
                isr=replicas,
                leader=GOES,
                directories=[directory_id(broker) for broker in replicas],
            )
        )
    return made


@asynccontextmanager
async def scene(directory: Path) -> AsyncIterator[Scene]:
    async with metadata_log(directory) as log:
        made = Scene(log)
        await made.fill()
        yield made


@needs_lines
def test_a_broker_that_stops_and_comes_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            alone = sum(len(each.replicas) == 1 for each in world.partitions)
            assert await in_short_steps(world.heartbeat(GOES, shut_down=True)) is False
            assert world.log.image.brokers[GOES].in_controlled_shutdown
            assert [world.led_by(broker) for broker in (OTHER, GOES, NO_LEADER)] == [PARTITIONS - alone, 0, alone]
            await world.heartbeat(OTHER)
            assert await in_short_steps(world.heartbeat(GOES, shut_down=True)) is True
            assert world.log.image.brokers[GOES].fenced
            await in_short_steps(world.register(GOES, process=2))
            assert world.led_by(NO_LEADER) == alone
            await in_short_steps(world.heartbeat(GOES))
            assert not world.log.image.brokers[GOES].fenced
            assert [world.led_by(broker) for broker in (OTHER, GOES, NO_LEADER)] == [PARTITIONS - alone, alone, 0]

    asyncio.run(main())


@needs_lines
def test_a_broker_that_starts_again_after_an_unclean_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            world.clock.now_ms += SESSION_MS
            await in_short_steps(world.register(GOES, process=2))
            assert world.led_by(GOES) == 0
            assert not any(GOES in each.isr for each in world.partitions if len(each.replicas) == 2)
            await in_short_steps(world.control.unregister_broker(GOES))
            assert GOES not in world.log.image.brokers

    asyncio.run(main())


@needs_lines
def test_a_broker_that_is_silent_is_fenced_whoever_takes_it_back_meanwhile(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            running = asyncio.ensure_future(world.control.run())
            await world.heartbeat(OTHER)
            world.clock.now_ms += SESSION_MS
            await world.heartbeat(OTHER)
            fenced = world.log.reached(lambda image: image.brokers[GOES].fenced)
            fencing = asyncio.ensure_future(in_short_steps(fenced))
            taken_back = 0
            while not fencing.done():
                await asyncio.sleep(0)
                taken_back += world.take_back(GOES)
            await fencing
            assert taken_back > 10, "nothing happened between two portions"
            assert world.led_by(GOES) == 0
            assert not any(GOES in each.isr for each in world.partitions if len(each.replicas) == 2)
            running.cancel()

    asyncio.run(main())


def test_of_two_processes_that_register_at_once_one_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            world.clock.now_ms += SESSION_MS
            outcomes = await asyncio.gather(
                *(world.register(GOES, process=process) for process in (2, 3)), return_exceptions=True
            )
            epochs = [each for each in outcomes if isinstance(each, int)]
            assert world.log.image.brokers[GOES].broker_epoch == max(epochs)
            assert len(set(epochs)) == len(epochs)
            assert world.led_by(GOES) == 0

    asyncio.run(main())


def test_a_heartbeat_of_a_process_that_is_replaced_meanwhile_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            stopping = asyncio.ensure_future(world.heartbeat(GOES, shut_down=True))
            await asyncio.sleep(0)
            assert not stopping.done()
            await register_broker(
                world.log, broker_id=GOES, endpoint=("PLAINTEXT", "h", 9000), directories=[directory_id(GOES)]
            )
            with pytest.raises(KafkaError) as refused:
                await stopping
            assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
            assert not world.log.image.brokers[GOES].in_controlled_shutdown

    asyncio.run(main())
