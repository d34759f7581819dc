"""States of a share group's partitions: created once, and forgotten with their topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

from kwire.coordinator.answers import Answer
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.share.state import ShareSummary
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.coordinator.clients import client_named
from tests.coordinator.world import World, topic_image
from tests.virtual_loop import virtual_loop

GROUP = "g"
T_ID, NEW_T_ID = UUID(int=101), UUID(int=301)


class States:
    """Share coordinator that creates states when it is available."""

    def __init__(self) -> None:
        self.created: list[tuple[UUID, int]] = []
        self.available = asyncio.Event()
        self.available.set()

    async def initialize_state(
        self, _group_id: str, topic_id: UUID, partition: int, _state_epoch: int, _start_offset: int
    ) -> None:
        await self.available.wait()
        self.created.append((topic_id, partition))

    async def delete_state(self, group_id: str, topic_id: UUID, partition: int) -> None:
        raise AssertionError("nothing is deleted")

    async def read_summary(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareSummary:
        raise AssertionError("nothing is described")


class ShareGroupWorld(World):
    """Group coordinator with one member of a share group, which subscribes to topic t."""

    async def start(self) -> None:
        await super().start()
        self.states = States()
        self.groups.share.use_states(self.states, _no_offset)
        self.epoch = 0

    async def beat(self) -> int:
        """Send a heartbeat, wait for what it causes, and return the group's epoch."""
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="m",
            member_epoch=self.epoch,
            subscribed_topic_names=None if self.epoch else ["t"],
        )
        response = await _answered(self.groups.share.heartbeat(request, client_named("c")))
        assert response.error_code == 0, response
        self.epoch = response.member_epoch
        await asyncio.sleep(0.1)
        return self.group.epoch

    @property
    def group(self) -> ShareGroup:
        group = self.group_machine().groups[GROUP]
        assert isinstance(group, ShareGroup)
        return group

    def state_topics(self) -> set[UUID]:
        states = self.group.states
        return {*states.initialized, *states.initializing, *states.deleting}


async def _answered(answer: Answer[ShareGroupHeartbeatResponse]) -> ShareGroupHeartbeatResponse:
    return answer if isinstance(answer, ShareGroupHeartbeatResponse) else await answer


async def _no_offset(_topic: str, _partition: int) -> int:
    raise AssertionError("nothing is described")


def run(directory: Path, acts: Callable[[ShareGroupWorld], Coroutine[Any, Any, None]]) -> None:
    async def main(world: ShareGroupWorld) -> None:
        await world.start()
        try:
            await acts(world)
        finally:
            world.stop()

    with virtual_loop() as loop:
        loop.run_until_complete(main(ShareGroupWorld(directory, loop)))


def test_a_state_is_created_once_however_often_its_initialization_is_repeated(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        world.states.available.clear()
        for _ in range(4):
            await world.beat()
            await asyncio.sleep(31)  # then heartbeats repeat the initialization
        assert world.states.created == []
        world.states.available.set()
        await asyncio.sleep(0.1)
        assert world.states.created == [(T_ID, 0), (T_ID, 1)]
        assert world.group.states.initialized[T_ID].partitions == {0, 1}

    run(tmp_path, acts)


def test_a_topic_that_is_deleted_while_its_states_are_created_is_forgotten(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        world.states.available.clear()
        await world.beat()
        world.delete_topic("t")
        await asyncio.sleep(0.1)
        world.states.available.set()
        await asyncio.sleep(0.1)
        assert world.state_topics() == set()

    run(tmp_path, acts)


def test_a_topic_that_is_deleted_while_no_coordinator_is_active_is_forgotten(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        for _ in range(3):
            await world.beat()
        assert world.state_topics() == {T_ID}
        runtime, partition = world.groups._runtime, world.offsets_partition()
        runtime.resign(0)
        world.change_topic(topic_image("t", NEW_T_ID.int, 2))
        runtime.lead(partition)
        await world.groups.loaded()
        await asyncio.sleep(0.1)
        assert world.state_topics() == set()
        for _ in range(3):
            epoch = await world.beat()
        assert world.state_topics() == {NEW_T_ID}
        assert await world.beat() == epoch, "nothing changes any more"

    run(tmp_path, acts)


def test_a_deleted_topic_is_forgotten_when_that_can_be_stored(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        for _ in range(3):
            await world.beat()
        world.reject_appends(reject=True)
        world.delete_topic("t")
        await asyncio.sleep(1)
        assert world.state_topics() == {T_ID}
        world.reject_appends(reject=False)
        await asyncio.sleep(1)
        assert world.state_topics() == set()

    run(tmp_path, acts)
