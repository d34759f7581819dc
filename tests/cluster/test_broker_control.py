"""Broker control of the controller: with a full disk, and its removal of state on request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.controller.broker_control import BrokerControl
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import PartitionRecord, TopicRecord
from tests.cluster.raft_world import CLUSTER_ID, World, write
from tests.log.faults import FaultyDisk, full
from tests.support.metadata import register_broker
from tests.virtual_loop import VirtualClock, virtual_loop

SESSION_SECONDS = 9


class Scene:
    """A quorum of one, and brokers 1 and 2, which have registered and send nothing more."""

    def __init__(self, directory: Path, loop: Any) -> None:
        self.settings = CurrentSettings({**default_settings(), "broker.session.timeout.ms": 1000 * SESSION_SECONDS})
        self.world = World(directory, loop, voters=1)
        self.disk = self.world.disks[1] = FaultyDisk()
        self.world.start(1)
        self.log: MetadataLog = self.world.leader()
        self.world.until(lambda: self.log.image.features)
        self.control = BrokerControl(
            local_broker_incarnation=None,
            metadata_log=self.log,
            clock=VirtualClock(loop),
            settings=self.settings,
            controller_id=7,
            cluster_id=CLUSTER_ID,
        )
        self.tasks: list[asyncio.Task[None]] = []
        for broker_id in (1, 2):
            self.world.run(self._register(broker_id))

    async def _register(self, broker_id: int) -> None:
        await register_broker(
            self.log, broker_id=broker_id, endpoint=("PLAINTEXT", "h", 9000), directories=[UUID(int=500 + broker_id)]
        )

    def begin(self, work: Callable[[], Awaitable[None]]) -> None:
        self.tasks.append(self.world.loop.create_task(work()))  # type: ignore[arg-type]

    def fill(self) -> None:
        def fails(operation: str, path: str) -> DiskFailure | None:
            return full(operation, path) if operation == "append" and path.endswith(".log") else None

        self.disk.fail = fails

    def make_space(self) -> None:
        self.disk.fail = lambda operation, path: None

    def fenced(self) -> list[int]:
        return [broker_id for broker_id, broker in self.log.image.brokers.items() if broker.fenced]

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.world.run(asyncio.sleep(0))
        self.world.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with virtual_loop() as loop:
        made = Scene(tmp_path, loop)
        yield made
        made.close()


def led_by_the_second(name: str) -> list[Any]:
    """Create a topic of one partition, whose preferred replica is not the leader."""
    topic_id = UUID(int=sum(name.encode()))
    directories = [UUID(int=501), UUID(int=502)]
    partition = PartitionRecord(
        topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2], leader=2, directories=directories
    )
    return [TopicRecord(name=name, topic_id=topic_id), partition]


def leader_of(scene: Scene, name: str) -> int:
    return scene.log.image.topics[name].partitions[0].leader


def test_a_broker_is_forgotten(scene: Scene) -> None:
    write(scene.world, scene.log, *led_by_the_second("t"))
    scene.world.run(scene.control.unregister_broker(2))
    assert list(scene.log.image.brokers) == [1]
    assert leader_of(scene, "t") == 1
    with pytest.raises(KafkaError) as rejected:
        scene.world.run(scene.control.unregister_broker(2))
    assert rejected.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_silent_brokers_are_fenced_when_there_is_space_to_write_it(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.begin(scene.control.run)
    scene.world.run(asyncio.sleep(1))
    scene.fill()
    scene.world.run(asyncio.sleep(3 * SESSION_SECONDS))
    assert scene.fenced() == []
    assert "cannot fence brokers whose session is over" in caplog.text
    assert not scene.tasks[0].done()
    scene.make_space()
    scene.world.until(lambda: scene.fenced() == [1, 2])


def test_leaders_are_balanced_as_soon_as_there_is_space_to_write_it(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    write(scene.world, scene.log, *led_by_the_second("t"))
    scene.begin(scene.control.balance_leaders)
    interval = scene.settings.values["leader.imbalance.check.interval.seconds"]
    scene.fill()
    scene.world.run(asyncio.sleep(interval + 1))
    assert leader_of(scene, "t") == 2
    assert "cannot elect leaders now" in caplog.text
    scene.make_space()
    scene.world.run(asyncio.sleep(interval + 1))
    assert leader_of(scene, "t") == 1


def test_leaders_are_not_balanced_where_that_is_switched_off(scene: Scene) -> None:
    write(scene.world, scene.log, *led_by_the_second("t"))
    scene.settings.replace({**scene.settings.values, "auto.leader.rebalance.enable": False})
    scene.begin(scene.control.balance_leaders)
    interval = scene.settings.values["leader.imbalance.check.interval.seconds"]
    scene.world.run(asyncio.sleep(3 * interval))
    assert leader_of(scene, "t") == 2
    scene.settings.replace({**scene.settings.values, "auto.leader.rebalance.enable": True})
    scene.world.run(asyncio.sleep(interval + 1))
    assert leader_of(scene, "t") == 1
