"""Consumer group (KIP-848) against a model: members that join, revoke late, miss responses, leave and expire.

Topics are created, grow and go; the log may reject records, or be loaded again at any time. A client of the model holds
a partition from the response that assigns it until it has revoked it, or until its session is over.

Rules, by the names that a failure begins with:

- double owner: no partition is held by two clients
- epochs: neither the group's epoch nor a member's decreases
- assignment: a client that has revoked holds what the coordinator says that its member has
- fenced: a member that left, expired or was replaced is no longer served
- commit: a member commits for its partitions with its epoch, and never for those of another member
- restart: the loaded group is the one that was written
- stable: when all is quiet, each partition of each subscribed topic belongs to exactly one subscriber
- invariant: no operation breaks an invariant of the group
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final
from uuid import UUID

import pytest

from kwire.coordinator.group.assignors import pace
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.member import ConsumerMember, PartitionEpochs
from kwire.coordinator.group.modern import background_assignments
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.clients import client_named
from tests.fuzz.fuzzing import Fuzzer, Operation
from tests.fuzz.group_world import GroupWorld

GROUP: Final = "g"
NAMES: Final = ("t", "u", "v")
SUBSCRIPTIONS: Final = (("t",), ("u",), ("t", "u"), ("t", "v"), ("t", "u", "v"), ())
ASSIGNORS: Final = (None, "uniform", "range")
SESSION_S: Final = 46
REBALANCE_MS: Final = 20_000
ROUNDS_UNTIL_STABLE: Final = 12
GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)

Partition = tuple[UUID, int]


class Client:
    """Client of one member, as a consumer behaves."""

    def __init__(self, name: str, instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.lives = 0
        self.begin_again()

    def begin_again(self) -> None:
        """Become another process, with another member id."""
        self.lives += 1
        self.member_id = f"{self.name}{self.lives}"
        self.epoch = 0
        self.is_member = False
        self.sends_all_fields = True
        self.held: set[Partition] = set()
        """Partitions that it reads; revoked ones until it has reported that."""
        self.assigned: set[Partition] = set()
        """Partitions in the last response with an assignment."""
        self.names: tuple[str, ...] = ("t",)

    def drop(self) -> None:
        """Stop reading, as after an expired session, and join again with the next heartbeat."""
        self.held = set()
        self.assigned = set()
        self.epoch = 0
        self.is_member = False
        self.sends_all_fields = True


class ConsumerGroupModel(GroupWorld):
    """Model of a consumer group."""

    def __init__(self) -> None:
        super().__init__()
        self._world.settings = {**self._world.settings, "group.consumer.assignment.interval.ms": 0}
        self._clients = [Client("a", None), Client("b", None), Client("c", None), Client("x", "ix")]
        self._group_epoch = 0
        self._run(self._world.start())

    # --- operations

    def do(self, operation: Operation) -> None:
        getattr(self, operation.name)(operation.a, operation.b, operation.c)
        self._check()

    def beat(self, a: int, b: int, _c: int) -> None:
        """Heartbeat of a client that revokes at once what it lost; it joins if it is no member."""
        client = self._clients[a % len(self._clients)]
        if not client.is_member:
            client.names = SUBSCRIPTIONS[b % len(SUBSCRIPTIONS)]
        client.held &= client.assigned
        self._beat(client)

    def beat_without_revoking(self, a: int, _b: int, _c: int) -> None:
        self._beat(self._clients[a % len(self._clients)])

    def lose_response(self, a: int, _b: int, _c: int) -> None:
        """Heartbeat whose response does not arrive: the next one is at the old epoch and has all fields."""
        client = self._clients[a % len(self._clients)]
        if client.is_member:
            self._send(client, self._request(client))
            client.sends_all_fields = True

    def subscribe(self, a: int, b: int, c: int) -> None:
        """Change a member's subscription and preferred assignor by a full heartbeat."""
        client = self._clients[a % len(self._clients)]
        if not client.is_member:
            return
        client.names = SUBSCRIPTIONS[b % len(SUBSCRIPTIONS)]
        client.held &= client.assigned
        request = self._request(client)
        request.subscribed_topic_names = list(client.names)
        request.rebalance_timeout_ms = REBALANCE_MS
        request.server_assignor = ASSIGNORS[c % len(ASSIGNORS)]
        self._received(client, self._send(client, request))

    def leave(self, a: int, b: int, _c: int) -> None:
        """Leave for good, or, as a static member, for now; the next process has another member id."""
        client = self._clients[a % len(self._clients)]
        if not client.is_member:
            return
        epoch = -2 if client.instance_id is not None and b % 2 else -1
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=client.member_id, member_epoch=epoch, instance_id=client.instance_id
        )
        answer = self._send(client, request)
        if answer.error_code == 0:
            old = client.member_id
            client.begin_again()
            if client.instance_id is None:
                zombie = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=old, member_epoch=1)
                assert self._send(client, zombie).error_code in GONE, "fenced: a member that left is served"
        elif answer.error_code in GONE:
            client.drop()

    def commit(self, a: int, b: int, _c: int) -> None:
        """Commit as a member, for its own partition or for any other."""
        client = self._clients[a % len(self._clients)]
        if not client.is_member or self._is_rejecting:
            return
        others = {each for one in self._clients if one is not client for each in one.held}
        partitions = sorted(client.assigned | others, key=str)
        if not partitions:
            return
        topic_id, index = partitions[b % len(partitions)]
        name = self._world.image.topic_names.get(topic_id)
        if name is None:
            return
        member = self._member(client)
        code = self._commit(client, name, topic_id, index)
        if member is None:
            assert code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND), f"fenced: commit returns {code}"
        elif client.epoch == member.member_epoch:
            assert code == 0, f"commit: a member at its epoch receives {code.name}"
        elif (topic_id, index) in others:
            assert code == ErrorCode.STALE_MEMBER_EPOCH, "commit: an old epoch commits for another member's partition"

    def expire(self, _a: int, _b: int, _c: int) -> None:
        """Let all sessions expire."""
        self._sleep(SESSION_S)
        for client in self._clients:
            client.drop()

    def wait(self, a: int, _b: int, _c: int) -> None:
        """Let some seconds pass, within which the rebalance timeout may end a membership."""
        self._sleep(1 + a % 15)
        self._drop_removed()

    def change_topics(self, a: int, b: int, _c: int) -> None:
        """Create, grow or delete a topic."""
        self._change_topic(NAMES, a, b)

    def restart(self, _a: int, _b: int, _c: int) -> None:
        """Load the group again from its log."""
        before = self._written()
        self._world.stop()
        self._run(self._world.start())
        self._world.reject_appends(reject=self._is_rejecting)
        assert self._written() == before, "restart: the loaded group differs"

    # --- requests

    def _request(self, client: Client) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=client.member_id, member_epoch=client.epoch, instance_id=client.instance_id
        )
        request.topic_partitions = _by_topic(client.held)
        if client.sends_all_fields:
            request.subscribed_topic_names = list(client.names)
            request.rebalance_timeout_ms = REBALANCE_MS
        return request

    def _send(self, client: Client, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        async def send() -> ConsumerGroupHeartbeatResponse:
            answer = self._world.groups.heartbeat_of_consumer_group(request, client_named(client.name), version=1)
            return await answer if isinstance(answer, Awaitable) else answer

        response: ConsumerGroupHeartbeatResponse = self._run(send())
        return response

    def _beat(self, client: Client) -> None:
        self._received(client, self._send(client, self._request(client)))

    def _received(self, client: Client, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code in GONE:
            client.drop()
        if response.error_code:
            client.sends_all_fields = True
            return
        assert not client.is_member or response.member_epoch >= client.epoch, "epochs: a member's epoch decreases"
        client.is_member = True
        client.sends_all_fields = False
        client.epoch = response.member_epoch
        if response.assignment is not None:
            client.assigned = {
                (topic.topic_id, index) for topic in response.assignment.topic_partitions for index in topic.partitions
            }
            client.held |= client.assigned

    def _commit(self, client: Client, name: str, topic_id: UUID, index: int) -> ErrorCode:
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=7)
        topic = OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[partition])
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=client.member_id,
            generation_id_or_member_epoch=client.epoch,
            group_instance_id=client.instance_id,
            topics=[topic],
        )

        async def send() -> Any:
            answer = self._world.groups.commit_offsets(request, [topic], version=10)
            return await answer if isinstance(answer, Awaitable) else answer

        (answered,) = self._run(send())
        return ErrorCode(answered.partitions[0].error_code)

    # --- rules

    def _group(self) -> ConsumerGroup | None:
        group = self._world.group_machine().groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    def _member(self, client: Client) -> ConsumerMember | None:
        group = self._group()
        return None if group is None else group.members.get(client.member_id)

    def _drop_removed(self) -> None:
        """Let clients whose membership ended by a timeout stop reading: their own timers end it as well."""
        for client in self._clients:
            if client.is_member and self._member(client) is None:
                client.drop()

    def _check(self) -> None:
        group = self._group()
        if group is None:
            return
        try:
            group.check_invariants()
        except AssertionError as error:
            raise AssertionError(f"invariant: {error}") from error
        assert group.epoch >= self._group_epoch, "epochs: the group's epoch decreases"
        self._group_epoch = group.epoch
        owners: dict[Partition, str] = {}
        for client in self._clients:
            for partition in client.held:
                assert partition not in owners, f"double owner: {client.name} and {owners[partition]} of {partition}"
                owners[partition] = client.name
        for client in self._clients:
            member = self._member(client)
            if client.is_member and member is not None and member.member_epoch == client.epoch:
                allowed = _partitions(member.assigned_partitions) | _partitions(member.partitions_pending_revocation)
                assert client.held & client.assigned <= allowed, "assignment: a client has too much"

    def _written(self) -> Any:
        group = self._group()
        if group is None:
            return None
        members = {member_id: group.members[member_id] for member_id in sorted(group.members)}
        return group.epoch, group.metadata_hash, group.target.epoch, dict(group.target.by_member), members

    def _beat_until_stable(self) -> None:
        for _ in range(ROUNDS_UNTIL_STABLE):
            for client in self._clients:
                client.held &= client.assigned
                self._beat(client)
                self._check()

    def finish(self) -> None:
        """Let everything come to rest: all members have reconciled, and each partition has one owner."""
        self._world.reject_appends(reject=False)
        self._is_rejecting = False
        self._sleep(1)  # timeouts whose write was rejected are repeated
        self._drop_removed()
        self._beat_until_stable()
        if not all(client.is_member for client in self._clients):
            # After a restart, the session of a member that is gone begins again; a static one keeps its place so long.
            self.expire(0, 0, 0)
            self._beat_until_stable()
        group = self._group()
        assert group is not None, "stable: the group is gone"
        members = [client for client in self._clients if client.is_member]
        assert group.state.value == "Stable", f"stable: the group is {group.state.value}"
        for name, topic in self._world.image.topics.items():
            subscribers = [client for client in members if name in client.names]
            if not subscribers or name not in NAMES:
                continue
            for index in range(len(topic.partitions)):
                owners = [client.name for client in members if (topic.topic_id, index) in client.held]
                assert len(owners) == 1, f"stable: {name}-{index} has the owners {owners}"
                assert owners[0] in {client.name for client in subscribers}, (
                    f"stable: {name}-{index} has an unsubscribed owner"
                )


class LargeConsumerGroupModel(ConsumerGroupModel):
    """Model of a consumer group whose assignments are all computed in the background, in many steps."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(background_assignments, "SMALL", -1)
        self._patch.setattr(pace, "UNITS_OF_STEP", 1)
        super().__init__()

    def close(self) -> None:
        super().close()
        self._patch.undo()


def _partitions(epochs_by_topic: PartitionEpochs) -> set[Partition]:
    return {(topic_id, index) for topic_id, epochs in epochs_by_topic.items() for index in epochs}


def _by_topic(partitions: set[Partition]) -> list[ConsumerGroupHeartbeatTopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions, key=str):
        topics.setdefault(topic_id, []).append(index)
    return [
        ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in topics.items()
    ]


_WEIGHTS = {
    "beat": 40,
    "beat_without_revoking": 8,
    "lose_response": 6,
    "subscribe": 8,
    "leave": 5,
    "commit": 10,
    "expire": 1,
    "wait": 4,
    "change_topics": 6,
    "reject_appends": 3,
    "restart": 2,
}
CONSUMER_GROUP_FUZZER = Fuzzer("consumer-group", ConsumerGroupModel, _WEIGHTS)
LARGE_CONSUMER_GROUP_FUZZER = Fuzzer("large-consumer-group", LargeConsumerGroupModel, _WEIGHTS, seeds=50)
