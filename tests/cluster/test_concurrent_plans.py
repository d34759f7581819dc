"""Plans that are made in steps while other requests change what they rest on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kwire.protocol.messages.metadata_records import PartitionChangeRecord
from tests.cluster.controller.support import SETTINGS
from tests.cluster.test_long_broker_changes import GOES, OTHER, Scene, scene


def _leave_in_sync_alone(world: Scene) -> None:
    """Write that OTHER is in sync with no partition."""
    for topic in list(world.log.newest_image.topics.values()):
        world.log.append(
            [
                PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, isr=[GOES])
                for index in range(len(topic.partitions))
            ]
        )


def test_settings_that_are_taken_away_do_not_elect_unclean_leaders(tmp_path: Path) -> None:
    """The dynamic settings of the node follow the committed image: a removal in the newest one is not in them yet."""

    async def main() -> None:
        async with scene(tmp_path) as world:
            world.settings = {**SETTINGS, "unclean.leader.election.enable": True}
            _leave_in_sync_alone(world)
            await world.heartbeat(GOES, fence=True)
            assert world.led_by(OTHER) == 0

    asyncio.run(main())
