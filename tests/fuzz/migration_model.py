"""Group that migrates between the classic and the consumer protocol (KIP-848), against a model.

Members use the classic protocol, eager or cooperative, or the new one with topics or a regular expression; two are
static, and any process may be replaced by one of another protocol. The migration policy changes. The log may reject
records, hold commits back, lose its uncommitted end, or be loaded again, also from any prefix of its records.

Rules, by the names that a failure begins with:

- double owner: no two members of the consumer protocol hold a partition, and when all is quiet, no two members at all
- epochs: neither the generation or epoch of a group with members decreases, nor that of a consumer member
- type: a group changes its type only if the policy allows it, and a group without consumer members is downgraded
- code: a member that the policy does not allow gets Kafka's error code
- sessions: each member of a consumer group has a session, and a silent one is removed when it ends
- assignment: a classic member of a consumer group at its epoch has the partitions that its client reads
- commit: a commit at an older generation or epoch is rejected with Kafka's code
- offset: acknowledged offsets can be fetched, also after a migration and from the next coordinator
- restart: the loaded group is the one that was written
- stable: when all is quiet, each partition of each subscribed topic has one owner
- invariant: no operation breaks an invariant of the group

As in Kafka, and therefore allowed:

- after a downgrade and an upgrade before a classic member's next request, two clients read a partition until it
- an upgrade during the rebalance of a cooperative classic group does the same until the next heartbeat
- a dynamic classic member whose session has ended may join a consumer group again with its old id
- a new regular expression that matches no topic bumps no epoch: its member's former partitions wait for the next change
- a static classic leader that returns and skips the assignment misses changes since the last one, until it rejoins
- a consumer group that a policy keeps without consumer members notices changed topics when a member joins
- a static classic member that returns with other topics receives their partitions with the next rebalance
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable
from typing import Any, Final, Self

from kwire.coordinator.group.any_group import AnyGroup
from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.leave_group import MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupResponse
from tests.coordinator.clients import client_named
from tests.fuzz.fuzzing import Fuzzer
from tests.fuzz.logged_world import GROUP, LoggedWorld
from tests.fuzz.migration_clients import (
    COOPERATIVE,
    EAGER,
    NAMES,
    SUBSCRIPTIONS,
    Client,
    assign,
    code_of_commit,
    heartbeat_request,
    join_request,
    partitions_in,
    read_by,
    sync_request,
    topics_in,
)

SILENCE_S: Final = 340
"""Time within which all sessions and rebalances end."""
ROUNDS_UNTIL_STABLE: Final = 80
ROUNDS_STABLE: Final = 3
DRAWN: Final = 100_000
POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")
GONE: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
)


class MigrationModel(LoggedWorld):
    """Model of a group whose classic members are eager."""

    protocol = EAGER

    def __init__(self) -> None:
        super().__init__()
        self._world.settings = {**self._world.settings, "group.consumer.assignment.interval.ms": 0}
        self._world.config = dataclasses.replace(self._world.config, initial_rebalance_delay_ms=10)
        self._use_policy("bidirectional")
        names = (("a", None), ("b", None), ("c", None), ("x", "ix"), ("y", "iy"))
        self._clients = [Client(name, instance_id) for name, instance_id in names]
        for index, client in enumerate(self._clients):
            self._begin_again(client, index, index)
        self._before: tuple[type[AnyGroup], int, frozenset[str], bool] | None = None
        """Type, epoch and members of the group, and whether one of them uses the consumer protocol."""
        self._run(self._world.start())

    # --- operations

    def step(self, a: int, _b: int, _c: int) -> None:
        """Let a client receive a response, or send its next request."""
        self._step(self._clients[a % len(self._clients)])

    def step_all(self, a: int, _b: int, _c: int) -> None:
        for index in range(a, a + len(self._clients)):
            self.step(index, 0, 0)
            self._check()
        self._sleep(0.1)

    def work(self, a: int, _b: int, _c: int) -> None:
        for _ in range(4):
            self.step_all(a, 0, 0)

    def replace_all(self, a: int, b: int, c: int) -> None:
        """Upgrade or downgrade all processes, one after another."""
        for client in self._clients:
            self.leave(self._clients.index(client), 2 * a + b % 2, c)
            self.step_all(a, 0, 0)

    def lose_response(self, a: int, _b: int, _c: int) -> None:
        """Heartbeat of a consumer member whose response does not arrive."""
        client = self._clients[a % len(self._clients)]
        if client.protocol is None and client.is_member and client.pending is None:
            client.close_revoked()
            self._send(self._world.groups.heartbeat_of_consumer_group, heartbeat_request(client), client)
            client.sends_all_fields = True

    def leave(self, a: int, b: int, c: int) -> None:
        """Leave for good, or, as a static member, for now; the next process may use another protocol."""
        client = self._clients[a % len(self._clients)]
        if client.is_member and client.protocol is None:
            epoch = -2 if client.instance_id is not None and b % 2 else -1
            request = heartbeat_request(client)
            request.member_epoch, request.topic_partitions = epoch, None
            self._send(self._world.groups.heartbeat_of_consumer_group, request, client)
        elif client.member_id and (client.instance_id is None or b % 2):
            identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
            self._run(self._started(lambda: self._world.groups.leave(GROUP, [identity])))
        self._begin_again(client, b // 2, c)

    def crash(self, a: int, b: int, c: int) -> None:
        """End a process without a word, and begin another one."""
        self._begin_again(self._clients[a % len(self._clients)], b, c)

    def subscribe(self, a: int, b: int, _c: int) -> None:
        client = self._clients[a % len(self._clients)]
        if client.pending is not None:
            return
        client.names, client.regex = SUBSCRIPTIONS[b % len(SUBSCRIPTIONS)], None
        client.sends_all_fields = True
        if client.protocol is not None and client.phase == "heartbeat":
            client.rejoin()

    def commit(self, a: int, b: int, _c: int) -> None:
        """Commit as a member for a partition that some client holds, at its epoch or an older one."""
        client = self._clients[a % len(self._clients)]
        names = self._world.image.topic_names
        held = sorted({each for one in self._clients for each in one.held if each[0] in names}, key=str)
        if not client.is_member or not held or self._is_rejecting or self._is_held:
            return
        partition, epoch = held[b % len(held)], client.epoch - (b // 16) % 2
        if epoch < 0:
            return
        expected = code_of_commit(self._any_group(), client, epoch, partition)
        place = names[partition[0]], partition[1]
        code = self._commit(place, client.member_id, epoch, client.instance_id)
        assert code == expected, f"commit: {code.name}, not {expected.name}, of {client.member_id} at {epoch}"

    def expire(self, _a: int, _b: int, _c: int) -> None:
        """Let all sessions expire."""
        self._sleep(SILENCE_S)
        for client in self._clients:
            client.pending = None
            client.drop()
        group = self._any_group()
        if group is not None and not self._is_rejecting and not self._is_held:
            assert not group.members, f"sessions: the silent members {list(group.members)} stay"

    def wait(self, a: int, _b: int, _c: int) -> None:
        self._sleep((0.1, 1, 4, 15)[a % 4])
        self._drop_removed()

    def change_topics(self, a: int, b: int, _c: int) -> None:
        self._run(self._soon(lambda: self._change_topic(NAMES, a, b)))
        topics = self._world.image.topics
        self._committed = {place: offset for place, offset in self._committed.items() if place[0] in topics}

    def change_policy(self, a: int, _b: int, _c: int) -> None:
        self._use_policy(POLICIES[a % len(POLICIES)])

    def _prepare(self, other: Self, _b: int) -> None:
        """Give another broker the topics, and other members."""
        other._world.image, other._topics = self._world.image, self._topics
        other._world.random_source._count = DRAWN  # no member gets the id of another one in the log
        for index, client in enumerate(other._clients):
            client.lives = 1000
            other._begin_again(client, index, 1)

    # --- requests

    def _step(self, client: Client) -> None:
        if client.pending is not None:
            if not client.pending.done():
                return
            arrived, client.pending = client.pending.result(), None
            self._receive(client, arrived)
        elif client.protocol is None:
            client.close_revoked()
            group, request = self._any_group(), heartbeat_request(client)
            answer = self._send(self._world.groups.heartbeat_of_consumer_group, request, client)
            self._check_code_of_upgrade(client, group, answer)
            self._take(client, answer)
        elif client.phase == "join":
            self._join(client)
        elif client.phase == "sync":
            self._sync(client)
        else:
            self._heartbeat(client)

    def _take(self, client: Client, answer: Any) -> None:
        if isinstance(answer, asyncio.Future):
            client.pending = answer
            return
        self._receive(client, answer)

    def _receive(self, client: Client, response: Any) -> None:
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            self._receive_heartbeat(client, response)
        elif isinstance(response, JoinGroupResponse):
            self._receive_join(client, response)
        else:
            assert isinstance(response, SyncGroupResponse)
            self._receive_sync(client, response)

    def _send(self, api: Any, request: Any, client: Client) -> Any:
        return self._run(self._started(lambda: api(request, client_named(client.name), version=1)))[0]

    async def _started(self, send: Any) -> list[Any]:
        """Send a request; return its response, or a future of it, in a list."""
        answer = send()
        if not isinstance(answer, Awaitable):
            return [answer]
        future = asyncio.ensure_future(answer)
        for _ in range(20):
            await asyncio.sleep(0)
        return [future.result() if future.done() and not future.cancelled() else future]

    def _receive_heartbeat(self, client: Client, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code in GONE:
            client.drop()
        if response.error_code:
            client.sends_all_fields = True
            return
        assert not client.is_member or response.member_epoch >= client.epoch, "epochs: a member's epoch decreases"
        client.is_member, client.sends_all_fields = True, False
        client.epoch = response.member_epoch
        if response.assignment is not None:
            client.assigned = {
                (each.topic_id, index) for each in response.assignment.topic_partitions for index in each.partitions
            }
            client.held |= client.assigned

    def _join(self, client: Client) -> None:
        assert client.protocol is not None
        client.close_revoked()
        if client.protocol == EAGER:
            client.held = set()
        request = join_request(client, self._world.image)
        client.sends_all_fields = False
        group, sender = self._any_group(), client_named(client.name)
        (answer,) = self._run(self._started(lambda: self._world.groups.join(request, sender, version=9)))
        if isinstance(group, ConsumerGroup) and group.members and self._policy == "disabled":
            assert not isinstance(answer, asyncio.Future), "code: a classic member joins a consumer group"
            code = ErrorCode(answer.error_code).name
            assert code == "INCONSISTENT_GROUP_PROTOCOL", f"code: a classic member receives {code}"
        self._take(client, answer)

    def _receive_join(self, client: Client, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code in GONE:
            client.drop()
        if response.error_code:
            return
        client.member_id, client.epoch, client.phase = response.member_id, response.generation_id, "sync"
        client.assignments, client.metadata = [], None
        if response.leader == response.member_id and response.members:
            client.metadata = read_by(response, topics_in(self._world.image))
            if not response.skip_assignment:
                client.assignments = assign(response, client.metadata)

    def _sync(self, client: Client) -> None:
        request = sync_request(client)
        (answer,) = self._run(self._started(lambda: self._world.groups.sync(request)))
        self._take(client, answer)

    def _receive_sync(self, client: Client, response: SyncGroupResponse) -> None:
        code = response.error_code
        if code:
            client.drop() if code in GONE else client.rejoin()
            return
        client.is_member, client.phase = True, "heartbeat"
        had = client.held
        client.assigned = partitions_in(bytes(response.assignment), topics_in(self._world.image))
        client.held = set(client.assigned)
        if client.sends_all_fields or (client.protocol == COOPERATIVE and had - client.assigned):
            client.rejoin()

    def _heartbeat(self, client: Client) -> None:
        topics = topics_in(self._world.image)
        if client.metadata is not None and any(topics.get(each) != was for each, was in client.metadata.items()):
            client.rejoin()
            return
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=client.epoch,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )
        (response,) = self._run(self._started(lambda: self._world.groups.heartbeat(request)))
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            client.rejoin()
        elif response.error_code in GONE:
            client.drop()

    # --- world

    def _use_policy(self, policy: str) -> None:
        self._policy = policy
        self._world.consumer_config = dataclasses.replace(self._world.consumer_config, migration_policy=policy)

    def _begin_again(self, client: Client, kind: int, choice: int) -> None:
        client.begin_again(None if kind % 2 else self.protocol, choice)

    @staticmethod
    async def _soon(change: Any) -> None:
        change()

    def _reloaded(self) -> None:
        self._before = None
        for client in self._clients:
            if client.pending is not None and client.protocol is None:
                client.pending, client.sends_all_fields = None, True
        self._check_offsets()

    def _drop_removed(self) -> None:
        """Let clients whose membership ended by a timeout stop reading: their own timers end it as well."""
        group = self._any_group()
        for client in self._clients:
            if client.is_member and client.pending is None and (group is None or client.member_id not in group.members):
                client.drop()

    # --- rules

    def _check(self) -> None:
        super()._check()
        self._check_transition()
        group = self._any_group()
        if isinstance(group, ConsumerGroup):
            has_sessions = group.members.keys() <= self._timers_of("session")
            assert self._is_held or has_sessions, "sessions: a member has none"
            for client in self._clients:
                self._check_assignment(client, group)
            consumers = [each for each in self._clients if each.protocol is None and each.member_id in group.members]
            held = [partition for each in consumers if each.is_member for partition in each.held]
            assert len(held) == len(set(held)), f"double owner: the members of the new protocol hold {held}"

    def _check_assignment(self, client: Client, group: ConsumerGroup) -> None:
        """Check that a classic member at its epoch has the partitions that its client reads, also after an upgrade."""
        member = group.members.get(client.member_id)
        is_reading = client.protocol is not None and client.phase == "heartbeat" and client.pending is None
        if member is not None and is_reading and client.epoch == member.member_epoch:
            for topic_id, index in client.held:
                parts = (member.assigned_partitions, member.partitions_pending_revocation)
                is_known = any(index in part.get(topic_id, ()) for part in parts)
                assert is_known or topic_id not in self._world.image.topic_names, (
                    f"assignment: {client.name} lost {index}"
                )

    def _check_transition(self) -> None:
        """Compare the group with its state before the operation."""
        group, before = self._any_group(), self._before
        if group is None or not group.members:
            self._before = None
            return
        epoch = group.generation_id if isinstance(group, ClassicGroup) else getattr(group, "epoch", 0)
        has_consumers = isinstance(group, ConsumerGroup) and group.classic_count < len(group.members)
        members = frozenset(group.members)
        self._before = type(group), epoch, members, has_consumers
        if before is None or not before[2] & members:
            return
        kind, epoch_before, _, had_consumers = before
        assert epoch >= epoch_before, f"epochs: {epoch} after {epoch_before}"
        allows_upgrade = self._policy in ("bidirectional", "upgrade")
        allows_downgrade = self._policy in ("bidirectional", "downgrade")
        if kind is not type(group):
            is_allowed = allows_upgrade if kind is ClassicGroup else allows_downgrade
            assert is_allowed, f"type: a {kind.__name__} has changed with the policy {self._policy}"
            if not self._is_held:
                self._check_offsets()
        elif had_consumers and not has_consumers:
            assert not allows_downgrade, "type: a group of classic members is no classic group"

    def _check_code_of_upgrade(self, client: Client, group: AnyGroup | None, answer: Any) -> None:
        is_upgrade = not client.is_member and isinstance(group, ClassicGroup) and bool(group.members)
        if is_upgrade and self._policy in ("downgrade", "disabled"):
            assert not isinstance(answer, asyncio.Future), "code: a consumer member joins a classic group"
            code = ErrorCode(answer.error_code).name
            assert code == "GROUP_ID_NOT_FOUND", f"code: a consumer member receives {code}"

    def _written(self) -> Any:
        group = self._any_group()
        if isinstance(group, ConsumerGroup):
            targets = {each: partitions for each, partitions in group.target.by_member.items() if partitions}
            return group.epoch, group.metadata_hash, group.target.epoch, targets, dict(group.members)
        if isinstance(group, ClassicGroup) and group.state is GroupState.STABLE:
            members = {each.member_id: (each.assignment, each.group_instance_id) for each in group.members.values()}
            return group.generation_id, group.protocol_name, members
        return None

    # --- rest

    def finish(self) -> None:
        """Let everything come to rest: each partition has one owner."""
        self._release()
        self._accept_appends()
        self._use_policy("bidirectional")
        if "t" not in self._world.image.topics:  # each regular expression matches a topic
            self.change_topics(NAMES.index("t"), 0, 0)
        stable = 0
        for number in range(ROUNDS_UNTIL_STABLE):
            if number in (20, 40):
                self._let_leaders_rejoin()
            self.step_all(0, 0, 0)
            self._sleep(1)
            stable = stable + 1 if self._why_unstable() is None else 0
            if stable == ROUNDS_STABLE:
                break
        for _ in range(SILENCE_S // 10):  # ids that no member uses expire
            self.step_all(0, 0, 0)
            self._sleep(10)
        why = self._why_unstable()
        assert why is None, f"stable: {why}"
        group = self._any_group()
        if isinstance(group, ConsumerGroup):
            sessions = self._timers_of("session") ^ group.members.keys()
            assert not sessions, f"sessions: {sessions} of {list(group.members)}"
        self._check_offsets()

    def _let_leaders_rejoin(self) -> None:
        """Let classic members rejoin: a leader, or those of a consumer group, whose heartbeats compare no topics."""
        group = self._any_group()
        for client in self._clients:
            leads = (
                client.member_id == group.leader_id if isinstance(group, ClassicGroup) else client.protocol is not None
            )
            if leads and client.phase == "heartbeat":
                client.rejoin()

    def _why_unstable(self) -> str | None:
        """Return why the group has not settled; None if it has."""
        group, image = self._any_group(), self._world.image
        if group is None or group.state.value != "Stable":
            return f"the group is {group and group.state.value}"
        waiting = [client.name for client in self._clients if not client.is_member or client.pending is not None]
        if waiting:
            return f"{waiting} are no members"
        for name in NAMES & image.topics.keys():
            is_read = any(name in client.read_names for client in self._clients)
            for index in range(len(image.topics[name].partitions)) if is_read else ():
                partition = image.topics[name].topic_id, index
                owners = [client for client in self._clients if partition in client.held]
                if len(owners) != 1 or name not in owners[0].read_names:
                    return f"{name}-{index} has the owners {[client.name for client in owners]}"
        return None


class CooperativeMigrationModel(MigrationModel):
    """Model of a group whose classic members are cooperative."""

    protocol = COOPERATIVE


_WEIGHTS: Final = {
    "step": 40, "step_all": 14, "work": 6, "replace_all": 2, "lose_response": 4, "leave": 5, "crash": 3,
    "subscribe": 3, "commit": 6, "expire": 1, "wait": 6, "change_topics": 4, "change_policy": 3, "reject_appends": 2,
    "hold_commits": 3, "release_commits": 6, "restart": 2, "fail_over": 2, "load_prefix": 1,
}  # fmt: skip
MIGRATION_FUZZER: Final = Fuzzer("migration", MigrationModel, _WEIGHTS, seeds=40)
COOPERATIVE_MIGRATION_FUZZER: Final = Fuzzer("cooperative-migration", CooperativeMigrationModel, _WEIGHTS, seeds=40)
