"""Base of the models of groups: a world with a coordinator on a virtual event loop, and what may happen to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any
from uuid import UUID

from tests.coordinator.group_script import settle
from tests.coordinator.world import World, topic_image
from tests.crash.disk import RecordingDisk
from tests.virtual_loop import VirtualLoop


class GroupWorld:
    """World of a model, whose operations are methods of three numbers."""

    def __init__(self) -> None:
        self._loop = VirtualLoop()
        self._world = World("/kafka", self._loop, disk=RecordingDisk({"kafka": {}}))
        self._is_rejecting = False
        self._topics = 300

    def close(self) -> None:
        self._world.stop()
        self._loop.run_until_complete(settle())
        self._loop.close()

    def _run(self, awaited: Awaitable[Any]) -> Any:
        async def run() -> Any:
            answer = await awaited
            await settle()
            return answer

        return self._loop.run_until_complete(run())

    def _sleep(self, seconds: float) -> None:
        self._run(asyncio.sleep(seconds))

    def reject_appends(self, a: int, _b: int, _c: int) -> None:
        self._is_rejecting = a % 2 == 0
        self._world.reject_appends(reject=self._is_rejecting)

    def _change_topic(self, names: Sequence[str], a: int, b: int) -> UUID | None:
        """Create, grow or delete one of the topics; return the id of a deleted one."""
        name = names[a % len(names)]
        topic = self._world.image.topics.get(name)
        if topic is None:
            self._topics += 1
            self._world.change_topic(topic_image(name, self._topics, 1 + b % 4))
        elif b % 3 == 0:
            self._world.delete_topic(name)
            return topic.topic_id
        else:
            self._world.change_topic(topic_image(name, topic.topic_id.int, len(topic.partitions) + 1))
        return None
