"""Share group (KIP-932) against a model: members that join, miss responses, leave and expire, and administrators.

Topics are created, grow and go; the log may reject records, or be loaded again at any time; the share coordinator, a
dictionary here, may be slow or unavailable.

Rules, by the names that a failure begins with:

- created twice: a state that members have used is not created again, unless an administrator changes the offsets
- invariant: no operation breaks an invariant of the group
- stable: when all is quiet, the group's epoch stays, and all members have reached it
- partitions: then each partition of each subscribed topic has a state and a subscribed member
- deleted: then no deleted topic has states
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Final
from uuid import UUID

from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.coordinator.group.share.states import UNINITIALIZED_OFFSET
from kwire.coordinator.share.state import ShareSummary
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.coordinator.clients import client_named
from tests.coordinator.world import World
from tests.fuzz.fuzzing import Fuzzer, Operation
from tests.fuzz.group_world import GroupWorld

GROUP: Final = "g"
NAMES: Final = ("t", "u", "v")
SUBSCRIPTIONS: Final = (("t",), ("u",), ("t", "u"), ("t", "v"), ("t", "u", "v"))
SESSION_S: Final = 46
PATIENCE_S: Final = 30
"""Time for which a request to the share coordinator is retried."""
HEARTBEAT_S: Final = 4
ROUNDS_UNTIL_STABLE: Final = 20
GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)

Partition = tuple[UUID, int]


class States:
    """Share coordinator."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.stored: dict[Partition, int] = {}
        """State epoch by partition."""
        self.used: set[Partition] = set()
        """Partitions whose state members have used since an administrator changed offsets."""
        self.created_twice: set[Partition] = set()
        self.is_available = True
        self.delay_s = 0.0

    async def initialize_state(
        self, _group_id: str, topic_id: UUID, partition: int, state_epoch: int, start_offset: int
    ) -> None:
        await self._reach(topic_id)
        key = topic_id, partition
        if state_epoch < self.stored.get(key, 0):
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        if start_offset == UNINITIALIZED_OFFSET and key in self.stored and key in self.used:
            self.created_twice.add(key)
        self.stored[key] = state_epoch

    async def delete_state(self, _group_id: str, topic_id: UUID, partition: int) -> None:
        await self._reach(topic_id)
        self.stored.pop((topic_id, partition), None)

    async def read_summary(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareSummary:
        raise AssertionError("no offsets are described")

    async def _reach(self, topic_id: UUID) -> None:
        await asyncio.sleep(self.delay_s)
        for _ in range(PATIENCE_S):
            if self.is_available:
                break
            await asyncio.sleep(1)
        if not self.is_available:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if topic_id not in self._world.image.topic_names:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def topic_deleted(self, topic_id: UUID) -> None:
        self.stored = {key: epoch for key, epoch in self.stored.items() if key[0] != topic_id}


class Client:
    """Client of one member."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lives = 0
        self.names: tuple[str, ...] = ("t",)
        self.begin_again()

    def begin_again(self) -> None:
        """Become another process, with another member id."""
        self.lives += 1
        self.member_id = f"{self.name}{self.lives}"
        self.drop()

    def drop(self) -> None:
        """Join again with the next heartbeat."""
        self.epoch = 0
        self.is_member = False
        self.sends_names = True
        self.assigned: set[Partition] = set()


class ShareGroupModel(GroupWorld):
    """Model of a share group."""

    def __init__(self) -> None:
        super().__init__()
        self._world.settings = {**self._world.settings, "group.share.assignment.interval.ms": 0}
        self._states = States(self._world)
        self._clients = [Client("a"), Client("b"), Client("c")]
        self._changes: list[asyncio.Task[None]] = []
        self._run(self._start())

    async def _start(self) -> None:
        await self._world.start()
        self._world.groups.share.use_states(self._states, _no_offset)

    def close(self) -> None:
        for change in self._changes:
            change.cancel()
        super().close()

    # --- operations

    def do(self, operation: Operation) -> None:
        getattr(self, operation.name)(operation.a, operation.b, operation.c)
        self._check()

    def beat(self, a: int, b: int, _c: int) -> None:
        """Heartbeat of a client; it joins if it is no member."""
        client = self._clients[a % len(self._clients)]
        if not client.is_member:
            client.names = SUBSCRIPTIONS[b % len(SUBSCRIPTIONS)]
        self._beat(client)

    def lose_response(self, a: int, _b: int, _c: int) -> None:
        """Heartbeat whose response does not arrive."""
        client = self._clients[a % len(self._clients)]
        if client.is_member:
            self._send(client, client.epoch)
            client.sends_names = True

    def subscribe(self, a: int, b: int, _c: int) -> None:
        client = self._clients[a % len(self._clients)]
        if client.is_member:
            client.names = SUBSCRIPTIONS[b % len(SUBSCRIPTIONS)]
            client.sends_names = True
            self._beat(client)

    def leave(self, a: int, _b: int, _c: int) -> None:
        client = self._clients[a % len(self._clients)]
        if client.is_member and self._send(client, -1).error_code == 0:
            client.begin_again()

    def use(self, _a: int, _b: int, _c: int) -> None:
        """Let all members acknowledge records."""
        for client in self._clients:
            self._states.used |= client.assigned & self._states.stored.keys()

    def expire(self, _a: int, _b: int, _c: int) -> None:
        """Let all sessions expire."""
        self._sleep(SESSION_S)
        for client in self._clients:
            client.begin_again()

    def wait(self, a: int, _b: int, _c: int) -> None:
        self._sleep(1 + a % 15)
        self._drop_removed()

    def change_topics(self, a: int, b: int, _c: int) -> None:
        """Create, grow or delete a topic."""

        async def change() -> None:
            deleted = self._change_topic(NAMES, a, b)
            if deleted is not None:
                self._states.topic_deleted(deleted)

        self._run(change())

    def change_coordinator(self, a: int, b: int, _c: int) -> None:
        """Let the share coordinator become slow, unavailable or available."""
        self._states.is_available = a % 2 == 0
        self._states.delay_s = (0.0, 0.01, 2.0)[b % 3]

    def restart(self, _a: int, _b: int, _c: int) -> None:
        """Load the group again from its log."""
        self._world.stop()
        self._run(self._start())
        self._world.reject_appends(reject=self._is_rejecting)

    def administer(self, a: int, b: int, c: int) -> None:
        """Begin to alter or delete the offsets in a topic, or to delete the group."""

        async def change() -> None:
            offsets = self._world.groups.share.offsets
            topic = self._world.image.topics.get(NAMES[b % len(NAMES)])
            try:
                if a % 3 == 0:
                    await self._world.groups.share.delete_group(GROUP)
                elif topic is not None and a % 3 == 1:
                    await offsets.alter(GROUP, {topic.topic_id: dict.fromkeys(range(len(topic.partitions)), c % 9)})
                elif topic is not None:
                    await offsets.delete(GROUP, [topic.topic_id])
            except KafkaError:
                pass

        self._states.used.clear()
        self._changes.append(self._loop.create_task(change()))
        self._sleep(0)

    # --- requests

    def _send(self, client: Client, epoch: int) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=epoch,
            subscribed_topic_names=list(client.names) if client.sends_names else None,
        )

        async def send() -> ShareGroupHeartbeatResponse:
            answer = self._world.groups.share.heartbeat(request, client_named(client.name))
            return await answer if isinstance(answer, Awaitable) else answer

        response: ShareGroupHeartbeatResponse = self._run(send())
        return response

    def _beat(self, client: Client) -> None:
        response = self._send(client, client.epoch)
        if response.error_code in GONE:
            client.drop()
        if response.error_code:
            client.sends_names = True
            return
        client.is_member = True
        client.sends_names = False
        client.epoch = response.member_epoch
        if response.assignment is not None:
            client.assigned = {
                (topic.topic_id, index) for topic in response.assignment.topic_partitions for index in topic.partitions
            }

    # --- rules

    def _group(self) -> ShareGroup | None:
        group = self._world.group_machine().groups.get(GROUP)
        return group if isinstance(group, ShareGroup) else None

    def _drop_removed(self) -> None:
        """Let clients whose membership has ended begin again."""
        group = self._group()
        for client in self._clients:
            if client.is_member and (group is None or client.member_id not in group.members):
                client.begin_again()

    def _check(self) -> None:
        assert not self._states.created_twice, f"created twice: {self._states.created_twice}"
        group = self._group()
        if group is not None:
            try:
                group.check_invariants()
            except AssertionError as error:
                raise AssertionError(f"invariant: {error}") from error

    def _beat_all(self, rounds: int) -> None:
        for _ in range(rounds):
            for client in self._clients:
                self._beat(client)
                self._check()
            self._sleep(HEARTBEAT_S)

    def finish(self) -> None:
        """Let everything come to rest."""
        self._world.reject_appends(reject=False)
        self._states.is_available, self._states.delay_s = True, 0.0
        self._sleep(PATIENCE_S + 1)
        self._drop_removed()
        self._beat_all(ROUNDS_UNTIL_STABLE)
        group = self._group()
        assert group is not None, "stable: the group is gone"
        epoch = group.epoch
        self._beat_all(3)
        assert group.epoch == epoch, "stable: the epoch grows"
        assert [client.epoch for client in self._clients] == [epoch] * 3, "stable: a member has not reached the epoch"
        self._check_partitions(group)

    def _check_partitions(self, group: ShareGroup) -> None:
        states, image = group.states, self._world.image
        left = {*states.initialized, *states.initializing, *states.deleting} - image.topic_names.keys()
        assert not left, f"deleted: the group has states of {left}"
        for name in image.topics.keys() & set(NAMES):
            subscribers = {client.name for client in self._clients if name in client.names}
            topic = image.topics[name]
            for index in range(len(topic.partitions)) if subscribers else ():
                key = topic.topic_id, index
                readers = {client.name for client in self._clients if key in client.assigned}
                assert readers, f"partitions: {name}-{index} has no member"
                assert readers <= subscribers, f"partitions: {name}-{index} has members {readers} without subscription"
                assert key in self._states.stored, f"partitions: {name}-{index} has no state"


def _no_offset(_topic: str, _partition: int) -> Coroutine[Any, Any, int]:
    raise AssertionError("no offsets are described")


SHARE_GROUP_FUZZER = Fuzzer(
    "share-group",
    ShareGroupModel,
    {
        "beat": 40,
        "lose_response": 5,
        "subscribe": 6,
        "leave": 6,
        "use": 8,
        "expire": 1,
        "wait": 6,
        "change_topics": 6,
        "reject_appends": 3,
        "change_coordinator": 3,
        "restart": 2,
        "administer": 5,
    },
)
