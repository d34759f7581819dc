"""States of a share group's partitions: created once, forgotten with their topics; groups that have none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kwire.coordinator.answers import Answer
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.share.state import ShareSummary
from kwire.protocol.error_codes import ErrorCode, KafkaError
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
        self.timeout_code: ErrorCode | None = None
        """Error of each initialization, which it returns after 30 seconds."""
        self.timeouts = 0
        """Number of initializations that began before this error."""

        self.is_stored_late = False
        """True if the state of an initialization with an error is created nevertheless."""
        self.epochs: dict[tuple[str, UUID, int], int] = {}
        """State epoch of each state that exists."""
        self.unanswered: set[tuple[UUID, int]] = set()
        """Partitions whose state is created, but not deleted, although their requests fail."""
        self.answers_after_s = 0
        """Time after which these requests fail."""

    async def initialize_state(
        self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, _start_offset: int
    ) -> None:
        if state_epoch < self.epochs.get((group_id, topic_id, partition), 0):
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        if self.timeout_code is not None:
            self.timeouts += 1
            await asyncio.sleep(30)
            if self.is_stored_late:
                self.epochs[group_id, topic_id, partition] = state_epoch
            raise KafkaError(self.timeout_code)
        await self.available.wait()
        self.created.append((topic_id, partition))
        self.epochs[group_id, topic_id, partition] = state_epoch
        await self._answer(topic_id, partition)

    async def delete_state(self, group_id: str, topic_id: UUID, partition: int) -> None:
        if self.timeout_code is not None:
            raise KafkaError(self.timeout_code)
        await self.available.wait()
        await self._answer(topic_id, partition)
        self.epochs.pop((group_id, topic_id, partition), None)

    async def _answer(self, topic_id: UUID, partition: int) -> None:
        if (topic_id, partition) in self.unanswered:
            await asyncio.sleep(self.answers_after_s)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

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
        """Send a heartbeat of the member, wait for what it causes, and return the group's epoch."""
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

    async def send(self, group_id: str, epoch: int, *topics: str) -> int:
        """Send a heartbeat of another group's member, wait for what it causes, and return the error code."""
        request = ShareGroupHeartbeatRequest(
            group_id=group_id, member_id="m", member_epoch=epoch, subscribed_topic_names=list(topics) or None
        )
        response = await _answered(self.groups.share.heartbeat(request, client_named("c")))
        await asyncio.sleep(0.1)
        return response.error_code

    async def join_and_leave(self, group_id: str, times: int, topic: str = "t") -> None:
        """Let a member join and leave; each time bumps the epoch."""
        for _ in range(times):
            assert await self.send(group_id, 0, topic) == 0
            assert await self.send(group_id, -1) == 0
            await asyncio.sleep(31)  # then an initialization without a result is repeated

    async def wait_for_checks(self) -> None:
        """Wait until the next expiration of groups."""
        for _ in range(self.config.retention_check_interval_ms // 30_000 + 1):
            await asyncio.sleep(30)

    async def delete(self) -> int:
        """Delete the group, and return the error code."""
        answer = self.groups.delete_group(GROUP)
        return (await answer if isinstance(answer, Awaitable) else answer).error_code

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


@pytest.mark.parametrize(
    ("code", "timeouts"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 64),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 200),
        (ErrorCode.FENCED_STATE_EPOCH, 200),
    ],
)
def test_an_initialization_ends_when_the_share_coordinator_is_not_available(
    tmp_path: Path, code: ErrorCode, timeouts: int
) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        world.change_topic(topic_image("t", NEW_T_ID.int, 200))
        world.states.timeout_code = code
        await world.beat()
        await asyncio.sleep(29)
        async with world.groups.share.offsets.changing(GROUP):
            assert world.states.timeouts == timeouts
        world.states.timeout_code = None
        await asyncio.sleep(31)
        world.epoch = 0  # its session may have ended
        await world.beat()
        assert len(world.states.created) == 200

    run(tmp_path, acts)


@pytest.mark.parametrize("group_id", ["altered", "new"])
def test_offsets_of_a_topic_that_is_deleted_meanwhile_are_not_altered(tmp_path: Path, group_id: str) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        offsets = world.groups.share.offsets
        u_id = UUID(int=102)
        assert await offsets.alter("altered", {u_id: {0: 1}}) == {}
        async with offsets.changing(group_id):
            altered = asyncio.ensure_future(offsets.alter(group_id, {T_ID: {0: 7, 1: 7}, u_id: {0: 2}}))
            await asyncio.sleep(0)
            world.delete_topic("t")
        failed = await altered
        assert {partition: error.code for partition, error in failed.items()} == {
            (T_ID, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            (T_ID, 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        group = world.group_machine().groups[group_id]
        assert isinstance(group, ShareGroup)
        assert group.states.initialized.keys() == {u_id}
        assert world.groups._runtime.reloads == 0

    run(tmp_path, acts)


# --- memory of empty groups


def test_empty_groups_with_states_leave_room_for_members(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        world.groups._memory._limit_bytes = 50_000
        for number in range(20):
            assert await world.send(f"g{number}", 0, "t") == 0
            assert await world.send(f"g{number}", -1) == 0
            await asyncio.sleep(1)
        assert len(world.group_machine().groups) == 20

    run(tmp_path, acts)


def test_empty_groups_without_states_are_removed(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        for name, topic in (("without", "missing"), ("with", "t"), ("member", "missing")):
            assert await world.send(name, 0, topic) == 0
        for name in ("without", "with"):
            assert await world.send(name, -1) == 0
        for _ in range(world.config.retention_check_interval_ms // 30_000 + 1):
            await asyncio.sleep(30)
            assert await world.send("member", 0, "missing") == 0
        assert set(world.group_machine().groups) == {"with", "member"}

    run(tmp_path, acts)


def test_a_group_that_is_removed_leaves_no_states_that_fence_it_later(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        world.states.timeout_code, world.states.is_stored_late = ErrorCode.COORDINATOR_NOT_AVAILABLE, True
        await world.join_and_leave(GROUP, 3)
        await world.wait_for_checks()
        assert world.state_topics() == {T_ID}, "its states cannot be deleted"
        world.states.timeout_code = None
        await world.wait_for_checks()
        assert GROUP not in world.group_machine().groups
        assert world.states.epochs == {}
        for _ in range(3):
            await world.beat()
        assert world.group.states.initialized[T_ID].partitions == {0, 1}

    run(tmp_path, acts)


def test_deleted_offsets_leave_no_states_that_fence_the_group_later(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        world.states.unanswered = {(T_ID, 1)}
        await world.join_and_leave(GROUP, 3)
        assert world.group.states.initialized[T_ID].partitions == {0}
        world.states.unanswered = set()
        assert await world.groups.share.offsets.delete(GROUP, [T_ID]) == {}
        assert world.state_topics() == set()
        assert world.states.epochs == {}

    run(tmp_path, acts)


def test_altered_offsets_leave_no_states_of_a_deletion_that_failed(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        await world.join_and_leave(GROUP, 3)
        offsets = world.groups.share.offsets
        world.states.unanswered = {(T_ID, 1)}
        assert (await offsets.delete(GROUP, [T_ID])).keys() == {T_ID}
        world.states.unanswered = set()
        assert await offsets.alter(GROUP, {T_ID: {0: 7}}) == {}
        assert world.group.states.initialized[T_ID].partitions == {0}
        assert await world.delete() == 0
        assert world.states.epochs == {}

    run(tmp_path, acts)


def test_an_initialization_for_a_deleted_group_does_not_fence_a_new_one(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        await world.join_and_leave(GROUP, 3)
        world.states.available.clear()
        deleting = asyncio.ensure_future(world.delete())
        await asyncio.sleep(0.1)
        await world.join_and_leave(GROUP, 1)  # its initialization waits for the deletion
        world.hold_commits()
        world.states.available.set()
        await asyncio.sleep(0.1)
        joining = asyncio.ensure_future(world.send(GROUP, 0, "t"))
        await asyncio.sleep(0.1)
        world.release_commits()
        assert (await deleting, await joining) == (0, 0)
        assert world.group.epoch == 2, "this is a new group"
        assert world.group.states.initialized[T_ID].partitions == {0, 1}
        assert await world.send(GROUP, -1) == 0
        assert await world.groups.share.offsets.alter(GROUP, {T_ID: {0: 7, 1: 7}}) == {}

    run(tmp_path, acts)


def test_a_group_whose_states_cannot_be_deleted_keeps_no_other_group(tmp_path: Path) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        u_id = UUID(int=102)
        world.states.unanswered = {(T_ID, 0), (T_ID, 1), (u_id, 0), (u_id, 1)}
        await world.join_and_leave("a", 1)
        await world.join_and_leave("b", 1, "u")
        world.states.unanswered = {(T_ID, 1)}
        await world.wait_for_checks()
        assert set(world.group_machine().groups) == {"a"}

    run(tmp_path, acts)


def test_a_member_of_a_new_group_is_fenced_although_it_left_a_deleted_one(tmp_path: Path) -> None:
    """The member id is the same, and its leaving is committed after it has joined the new group."""

    async def acts(world: ShareGroupWorld) -> None:
        assert await world.send(GROUP, 0, "missing") == 0
        world.hold_commits()
        steps = [world.send(GROUP, -1), world.delete(), world.send(GROUP, 0, "missing")]
        tasks = [asyncio.ensure_future(each) for each in steps]
        await asyncio.sleep(0.1)
        world.release_commits()
        assert await asyncio.gather(*tasks) == [0, 0, 0]
        assert world.group.members
        await asyncio.sleep(46)
        assert not world.group.members

    run(tmp_path, acts)


@pytest.mark.parametrize(("count", "seconds"), [(500, 30), (5000, 60)])
def test_partitions_are_initialized_while_the_states_of_some_others_are_not_available(
    tmp_path: Path, count: int, seconds: int
) -> None:
    async def acts(world: ShareGroupWorld) -> None:
        world.change_topic(topic_image("t", NEW_T_ID.int, count))
        unanswered = set(range(0, count, 50))
        world.states.unanswered, world.states.answers_after_s = {(NEW_T_ID, index) for index in unanswered}, 30
        await world.beat()
        await asyncio.sleep(seconds)
        assert world.group.states.initialized[NEW_T_ID].partitions == set(range(count)) - unanswered

    run(tmp_path, acts)
