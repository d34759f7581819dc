"""Plans in steps, while other requests change the state that the plans use."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import PartitionChangeRecord, PartitionRecord, TopicRecord
from tests.cluster.controller.support import SETTINGS
from tests.cluster.test_long_broker_changes import GOES, OTHER, SESSION_MS, Scene, directory_id, scene
from tests.support.loop_steps import in_short_steps, needs_lines
from tests.support.metadata import register_broker

MORE = range(31, 36)
"""Additional brokers; each has the only replica of LED partitions."""
LED = 600


async def _add_brokers(world: Scene) -> None:
    for broker in MORE:
        await register_broker(
            world.log, broker_id=broker, endpoint=("PLAINTEXT", "h", 9000), directories=[directory_id(broker)]
        )
        topic_id = UUID(int=9000 + broker)
        partitions = [
            PartitionRecord(
                topic_id=topic_id,
                partition_id=index,
                replicas=[broker],
                isr=[broker],
                leader=broker,
                directories=[directory_id(broker)],
            )
            for index in range(LED)
        ]
        world.log.append([TopicRecord(name=f"of-{broker}", topic_id=topic_id), *partitions])
        await world.heartbeat(broker)


def _leave_in_sync_alone(world: Scene) -> None:
    """Remove OTHER from the in-sync sets of all partitions."""
    for topic in list(world.log.newest_image.topics.values()):
        world.log.append(
            [
                PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, isr=[GOES])
                for index in range(len(topic.partitions))
            ]
        )


def test_settings_that_are_taken_away_do_not_elect_unclean_leaders(tmp_path: Path) -> None:
    """The dynamic settings of the node follow the committed image and lag behind the newest one."""

    async def main() -> None:
        async with scene(tmp_path) as world:
            world.settings.replace({**SETTINGS, "unclean.leader.election.enable": True})
            _leave_in_sync_alone(world)
            await world.heartbeat(GOES, fence=True)
            assert world.led_by(OTHER) == 0

    asyncio.run(main())


@needs_lines
def test_brokers_that_start_together_register_in_short_steps(tmp_path: Path) -> None:
    """Each written registration invalidates the plans begun before it."""

    async def main() -> None:
        async with scene(tmp_path) as world:
            await _add_brokers(world)
            world.clock.now_ms += SESSION_MS
            await in_short_steps(asyncio.gather(*(world.register(broker, process=2000 + broker) for broker in MORE)))
            assert all(world.log.image.brokers[broker].incarnation_id.int == 2000 + broker for broker in MORE)
            assert not any(world.led_by(broker) for broker in MORE)

    asyncio.run(main())


def test_a_plan_that_is_cancelled_lets_the_next_one_be_made(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            plans = [asyncio.ensure_future(world.heartbeat(GOES, fence=True)) for _ in range(3)]
            await asyncio.sleep(0)
            for cancelled in plans[:2]:  # one plan in progress, and one that waits
                cancelled.cancel()
            await plans[2]
            assert world.log.image.brokers[GOES].fenced

    asyncio.run(main())


def test_plans_end_with_the_leadership(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            plans = [asyncio.ensure_future(world.heartbeat(broker, fence=True)) for broker in (GOES, OTHER)]
            await asyncio.sleep(0)
            epoch, world.log._active_epoch = world.log._active_epoch, None
            outcomes = await asyncio.gather(*plans, return_exceptions=True)
            assert [isinstance(each, KafkaError) and each.code for each in outcomes] == [ErrorCode.NOT_CONTROLLER] * 2
            world.log._active_epoch = epoch
            await world.heartbeat(GOES, fence=True)
            assert world.log.image.brokers[GOES].fenced

    asyncio.run(main())


def test_a_heartbeat_without_a_change_does_not_wait_for_a_plan(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as world:
            fencing = asyncio.ensure_future(world.heartbeat(GOES, fence=True))
            await asyncio.sleep(0)
            await world.heartbeat(OTHER)
            assert not fencing.done()
            await fencing

    asyncio.run(main())
