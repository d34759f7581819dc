"""A broker with thousands of partitions is fenced, unfenced, shut down and unregistered in short steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.controller.broker_control import BrokerControl
from kwire.cluster.controller.plans.leader_elections import plan_preferred_leaders
from kwire.cluster.metadata.features import SUPPORTED
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage
from kwire.cluster.raft.metadata_log import MetadataLog
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
"""Duration longer than broker.session.timeout.ms."""
ALONE = 7
"""Distance between the partitions whose only replica is on the broker that goes."""


class Scene:
    """Two brokers and their replicas: topics of one partition, and a topic with many."""

    def __init__(self, log: MetadataLog) -> None:
        self.log = log
        self.clock = ManualClock()
        self.settings = CurrentSettings(SETTINGS)
        self.control = self.control_of(1)

    def control_of(self, controller_id: int) -> BrokerControl:
        return BrokerControl(
            local_broker_incarnation=None,
            metadata_log=self.log,
            clock=self.clock,
            settings=self.settings,
            controller_id=controller_id,
            cluster_id=CLUSTER_ID,
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

    async def heartbeat(self, broker_id: int, *, shut_down: bool = False, fence: bool = False) -> bool:
        """Send a heartbeat; return True if the broker may stop."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.log.newest_image.brokers[broker_id].broker_epoch,
            current_metadata_offset=self.log.next_offset,
            want_shut_down=shut_down,
            want_fence=fence,
        )
        return (await self.control.heartbeat(request)).should_shut_down

    async def register(self, broker_id: int, *, process: int) -> int:
        """Register a broker and return its broker epoch."""
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

    async def fall_silent(self, broker_id: int) -> None:
        """Let the session of one broker expire, and no other."""
        self.clock.now_ms += SESSION_MS
        for other in (OTHER, GOES):
            if other != broker_id:
                await self.heartbeat(other)

    def fall_behind(self, broker_id: int, number: int) -> None:
        """Remove a broker from the in-sync set of one partition, as its leader may."""
        each = self.log.newest_image.topics[f"t{number}"]
        assert broker_id in each.partitions[0].isr
        self.log.append([PartitionChangeRecord(topic_id=each.topic_id, partition_id=0, isr=[GOES])])

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
def test_a_silent_broker_is_fenced_as_its_partitions_are_then(tmp_path: Path) -> None:
    """A plan that was begun on an earlier image would elect leaders that are no longer in sync."""

    async def main() -> None:
        async with scene(tmp_path) as world:
            running = asyncio.ensure_future(world.control.run())
            await world.fall_silent(GOES)
            fenced = world.log.reached(lambda image: image.brokers[GOES].fenced)
            fencing = asyncio.ensure_future(in_short_steps(fenced))
            fallen_behind = range(1, ALONE)
            for number in fallen_behind:
                await asyncio.sleep(0)
                world.fall_behind(OTHER, number)
            assert not fencing.done()
            await fencing
            assert world.led_by(GOES) == 0
            leaders = {world.log.image.topics[f"t{number}"].partitions[0].leader for number in fallen_behind}
            assert leaders == {NO_LEADER}
            running.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("other", ["unfenced", "balanced", "forgotten"])
def test_concurrent_broker_changes_complete(tmp_path: Path, other: str) -> None:
    """Two plans must not undo each other's changes forever."""

    async def main() -> None:
        async with scene(tmp_path) as world:
            written = world.log.next_offset
            await world.heartbeat(OTHER, fence=True)
            fencing = asyncio.ensure_future(world.heartbeat(GOES, fence=True))
            if other == "unfenced":
                await world.heartbeat(OTHER)
            elif other == "balanced":
                await world.control._sweep(plan_preferred_leaders)
            else:
                await world.control.unregister_broker(OTHER)
            await fencing
            assert world.log.image.brokers[GOES].fenced
            assert world.led_by(GOES) == 0
            assert world.log.next_offset - written < 4 * PARTITIONS

    asyncio.run(main())


def test_a_resent_shutdown_heartbeat_does_not_allow_the_shutdown_too_soon(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            answers = await asyncio.gather(*(world.heartbeat(GOES, shut_down=True) for _ in range(2)))
            assert answers == [False, False], "no broker has applied the new leaders yet"

    asyncio.run(main())


def test_a_heartbeat_prevents_a_planned_fencing(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            await world.fall_silent(GOES)
            fencing = asyncio.ensure_future(world.control._fence_expired())
            await asyncio.sleep(0)
            assert not fencing.done()
            await world.heartbeat(GOES)
            await fencing
            assert not world.log.newest_image.brokers[GOES].fenced
            assert world.led_by(GOES) == PARTITIONS

    asyncio.run(main())


def test_one_of_two_concurrent_registrations_of_a_broker_id_is_rejected(tmp_path: Path) -> None:
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


def test_a_heartbeat_of_a_process_that_is_replaced_meanwhile_is_rejected(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            stopping = asyncio.ensure_future(world.heartbeat(GOES, shut_down=True))
            await asyncio.sleep(0)
            assert not stopping.done()
            await register_broker(
                world.log, broker_id=GOES, endpoint=("PLAINTEXT", "h", 9000), directories=[directory_id(GOES)]
            )
            with pytest.raises(KafkaError) as rejected:
                await stopping
            assert rejected.value.code is ErrorCode.STALE_BROKER_EPOCH
            assert not world.log.image.brokers[GOES].in_controlled_shutdown

    asyncio.run(main())


def test_the_last_broker_is_not_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            world.control = world.control_of(GOES)
            outcomes = await asyncio.gather(
                *(world.control.unregister_broker(broker) for broker in (OTHER, GOES)), return_exceptions=True
            )
            assert isinstance(outcomes[1], KafkaError)
            assert list(world.log.image.brokers) == [GOES]

    asyncio.run(main())
