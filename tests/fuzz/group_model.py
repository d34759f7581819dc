"""Classic group against a model: dynamic and static members that restart, with different protocols. The group's log may
reject records, hold commits back, or be loaded again at any time.

Rules, by the names that a failure begins with:

- protocol: a generation has one protocol, and each of its members supports it
- members: the leader's list has each member of the generation, with the metadata that the member sent
- generation: generations increase, and only members of the newest one are served
- fenced: a member id whose static member was replaced, or that left, is no longer served (KIP-345)
- assignment: each member gets the assignment of its generation's leader, the same on each SyncGroup
- offset: a committed offset is the last acknowledged one, or one that was sent later
- waits: every request gets a response, and an idle group loses its members and can be used again
- invariant: no operation breaks an invariant of the group
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from kwire.coordinator.group.classic.classic_group import GroupState
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_consumer_protocol
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinator.clients import client_named
from tests.coordinator.group_script import settle
from tests.fuzz.fuzzing import Fuzzer, Operation
from tests.fuzz.group_clients import (
    GROUP,
    OFFERS,
    REBALANCE_MS,
    SESSION_MS,
    Call,
    Client,
    Errors,
    Generation,
    join_request,
)
from tests.fuzz.group_world import GroupWorld

INITIAL_DELAY_MS: Final = 2
WAITS_MS: Final = (10, 1000, 3500, 5500, 6500)
RETRIED: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class GroupModel(GroupWorld):
    """Model of a classic group."""

    def __init__(self) -> None:
        super().__init__()
        self._world.config = replace(self._world.config, initial_rebalance_delay_ms=INITIAL_DELAY_MS)
        self._clients = [Client("a", None), Client("b", None), Client("x", "ix"), Client("y", "iy")]
        self._waiting: dict[asyncio.Future[Any], Call | None] = {}
        self._life = 0
        self._count = 0
        self._newest: int | None = None
        self._generations: dict[int, Generation] = {}
        self._barred = set[str]()
        self._sent: list[tuple[int, Call]] = []
        """Sent offsets, one of which may be committed, oldest first."""
        self._failure: BaseException | None = None
        self._has_committed = False
        self._errors = Errors()
        self._logger = logging.getLogger("kwire.coordinator")
        self._level = self._logger.level
        self._logger.addHandler(self._errors)
        self._logger.setLevel(logging.ERROR)  # hides warnings of failures that the operations cause
        self._run(self._world.start())

    def close(self) -> None:
        self._failure = None
        super().close()
        self._logger.removeHandler(self._errors)
        self._logger.setLevel(self._level)

    def _run(self, awaited: Awaitable[Any]) -> Any:
        answer = super()._run(awaited)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return answer

    def do(self, operation: Operation) -> None:
        async def act() -> None:
            outcome = getattr(self, operation.name)(operation.a, operation.b, operation.c)
            if outcome is not None:
                await outcome

        self._run(act())
        self._check_invariants()

    def _check_invariants(self) -> None:
        error = self._errors.first
        assert error is None, f"invariant: {error.exc_info}"
        for group in self._world.group_machine().groups.values():
            try:
                group.check_invariants()
            except AssertionError as broken:
                raise AssertionError(f"invariant: {broken}") from broken

    # --- requests

    def join(self, a: int, b: int, c: int) -> None:
        """Join as a client, perhaps with other protocols or another subscription, in an old or a new version."""
        client = self._client(a)
        if b % 3 == 0:
            client.offers = OFFERS[b // 3 % len(OFFERS)]
        if b % 5 == 0:
            client.topic = "tu"[b // 5 % 2]
        self._join(client, client.member_id, c)

    def restart_client(self, a: int, b: int, c: int) -> None:
        """Replace a client's process by another one, which has no member id and joins."""
        client = self._client(a)
        client.begin_anew()
        if b % 3 == 0:
            client.offers = OFFERS[b // 3 % len(OFFERS)]
        self._join(client, "", c)

    def restart_held(self, a: int, b: int, c: int) -> None:
        """Restart a static member while commits are held, and let another client join with other protocols."""
        self._world.hold_commits()
        static = self._clients[2 + a % 2]
        static.begin_anew()
        self._join(static, "", c)
        self.join(a // 2, 3 * b, c)

    def _join(self, client: Client, member_id: str, choice: int) -> None:
        versions = (3, 4, 9) if client.instance is None else (5, 9)
        version = versions[choice % len(versions)]
        subscription = ConsumerProtocolSubscription(topics=[client.topic], user_data=client.name.encode())
        offered = {name: encode_consumer_protocol(subscription, 0) + name.encode() for name in client.offers}
        call = self._call(client, member_id)
        call.offered = offered
        request, sender = join_request(client, member_id, offered), client_named(client.name)
        answer = self._world.groups.join(request, sender, version=version)
        self._when(call, answer, self._joined)

    def _joined(self, call: Call, response: JoinGroupResponse) -> None:
        client, code = call.client, response.error_code
        is_current = client.call is call
        if is_current:
            client.call = None
        if code == ErrorCode.MEMBER_ID_REQUIRED and is_current:
            self._adopt(client, response.member_id)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID) and is_current:
            client.begin_anew()
        if code:
            return
        self._check_served(call, response.generation_id, response.member_id)
        generation = self._generation(response.generation_id)
        protocol = response.protocol_name
        assert protocol in call.offered, f"protocol: {protocol} was chosen, {list(call.offered)} were offered"
        assert generation.protocol in (None, protocol), f"protocol: {generation.protocol} and {protocol}"
        generation.protocol = protocol
        generation.joined[response.member_id] = call
        if response.members:
            assert response.leader == response.member_id, "members: a member that does not lead has a list of them"
            generation.listed = {
                each.member_id: (each.group_instance_id, bytes(each.metadata)) for each in response.members
            }
        generation.check_listed()
        if client.instance is not None:
            self._barred.update(known for known in client.ids if known != response.member_id)
        if is_current:
            self._adopt(client, response.member_id)
            client.generation, client.must_join, client.is_synced = response.generation_id, False, False
            client.listed = [each.member_id for each in response.members]
        else:
            client.ids.insert(0, response.member_id)
            if client.generation == response.generation_id:
                client.generation = -1  # its generation has this number since an earlier load of the coordinator

    def _adopt(self, client: Client, member_id: str) -> None:
        client.member_id = member_id
        if member_id not in client.ids[-1:]:
            client.ids.append(member_id)

    def sync(self, a: int, b: int, c: int) -> None:
        """Sync a client, with assignments if it leads."""
        client = self._client(a)
        if client.generation >= 0:
            self._sync(client, client.member_id)

    def sync_leader(self, a: int, b: int, c: int) -> None:
        """Sync the leader, and no other member."""
        for client in self._clients:
            if client.listed and client.call is None and not client.must_join:
                self._sync(client, client.member_id)

    def _sync(self, client: Client, member_id: str) -> None:
        call = self._call(client, member_id)
        instance_of = {
            each: instance
            for generation in self._generations.values()
            for each, (instance, _) in (generation.listed or {}).items()
        }
        assignments = [
            SyncGroupRequestAssignment(
                member_id=each, assignment=f"{client.generation} {call.number} {instance_of.get(each) or each}".encode()
            )
            for each in client.listed
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=member_id,
            group_instance_id=client.instance,
            assignments=assignments,
        )
        self._when(call, self._world.groups.sync(request), self._synced)

    def _synced(self, call: Call, response: SyncGroupResponse) -> None:
        client, code = call.client, response.error_code
        if client.call is call:
            client.call = None
            self._react(client, code)
            client.is_synced = not code
        if code:
            return
        self._check_served(call, call.generation, call.member_id)
        generation = self._generation(call.generation)
        number, by, who = bytes(response.assignment).decode().split(" ")
        assert int(number) == call.generation, f"assignment: of generation {number} in {call.generation}"
        assert who == call.who, f"assignment: {call.who} got that of {who}"
        assert generation.assigned_by in (None, int(by)), "assignment: members have those of two SyncGroups"
        generation.assigned_by = int(by)

    def heartbeat(self, a: int, b: int, c: int) -> None:
        """Send a client's heartbeat; with b % 4 == 0, for one of its earlier member ids."""
        client = self._client(a)
        if client.ids:
            old = client.ids[c % len(client.ids)]
            self._heartbeat(client, old if b % 4 == 0 else client.member_id)

    def _heartbeat(self, client: Client, member_id: str) -> None:
        call = self._call(client, member_id)
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=client.generation, member_id=member_id, group_instance_id=client.instance
        )
        code = self._world.groups.heartbeat(request).error_code
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._check_served(call, client.generation, member_id)
        if client.call is call:
            client.call = None
        if member_id == client.member_id:
            self._react(client, code)

    def leave(self, a: int, b: int, c: int) -> None:
        """Leave as a client, or remove it by its instance id as an administrator."""
        client = self._client(a)
        by_instance = b % 2 == 0 and client.instance is not None
        call = self._call(client, "" if by_instance else client.member_id)
        ids = tuple(client.ids) if by_instance else (client.member_id,)
        identity = MemberIdentity(member_id=call.member_id, group_instance_id=client.instance)

        def left(call: Call, response: LeaveGroupResponse) -> None:
            if not response.error_code and not response.members[0].error_code:
                self._barred.update(each for each in ids if each)
            if client.call is call:
                client.begin_anew()

        self._when(call, self._world.groups.leave(GROUP, [identity]), left)

    def commit(self, a: int, b: int, c: int) -> None:
        """Commit an offset as a client; with b % 4 == 0, for one of its earlier member ids."""
        client = self._client(a)
        if not client.ids:
            return
        call = self._call(client, client.ids[c % len(client.ids)] if b % 4 == 0 else client.member_id)
        offset = self._count
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=client.generation,
            member_id=call.member_id,
            group_instance_id=client.instance,
        )
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
        self._sent.append((offset, call))

        def committed(call: Call, response: list[OffsetCommitResponseTopic]) -> None:
            code = response[0].partitions[0].error_code
            if client.call is call:
                client.call = None
            if not code:
                if call.generation >= 0:  # a commit without a generation is valid in an empty group
                    assert not call.was_barred, f"fenced: {call.member_id} commits, and its place is another's"
                    newest = call.generation if call.newest is None else call.newest
                    assert call.generation == newest, f"generation: a commit of {call.generation} in {newest}"
                while self._sent[0][1] is not call:
                    self._sent.pop(0)
                self._has_committed = True
            elif code in (*RETRIED, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self._sent.remove((offset, call))

        self._when(call, self._world.groups.commit_offsets(request, topics, version=7), committed)

    def fetch(self, a: int, b: int, c: int) -> None:
        """Fetch the committed offset."""
        request = OffsetFetchRequestGroup(
            group_id=GROUP, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        possible = {offset for offset, _ in self._sent} | (set() if self._has_committed else {-1})

        def fetched(response: Any) -> None:
            if response.error_code or response.topics[0].partitions[0].error_code:
                return
            found = response.topics[0].partitions[0].committed_offset
            assert found in possible | {offset for offset, _ in self._sent}, f"offset: {found} of {possible}"

        answer = self._world.groups.fetch_offsets(request, require_stable=False)
        self._watch(answer, fetched)

    def work(self, a: int, b: int, c: int) -> None:
        """Let every client send its next request as a consumer does."""
        for client in self._clients[a % 4 :] + self._clients[: a % 4]:
            if client.call is not None:
                continue
            if client.must_join:
                self._join(client, client.member_id, c)
            elif not client.is_synced:
                self._sync(client, client.member_id)
            else:
                self._heartbeat(client, client.member_id)

    async def gather(self, a: int, b: int, c: int) -> None:
        """Join all clients that need to, without a sync. With b % 2 == 0, a new generation begins."""
        if b % 2 == 0:
            self._client(a).must_join = True
        for _ in range(4):
            for client in self._clients:
                if client.call is None and client.must_join:
                    self._join(client, client.member_id, c)
                elif client.call is None and client.is_synced:
                    self._heartbeat(client, client.member_id)
            await asyncio.sleep(0.002)

    async def settle_down(self, a: int, b: int, c: int) -> None:
        """Let every client work as a consumer does for a while."""
        for _ in range(6):
            self.work(a, b, c)
            await asyncio.sleep(0.001)

    # --- world

    async def wait(self, a: int, b: int, c: int) -> None:
        await asyncio.sleep(WAITS_MS[a % len(WAITS_MS)] / 1000)

    def hold_commits(self, a: int, b: int, c: int) -> None:
        self._world.hold_commits()

    def release_commits(self, a: int, b: int, c: int) -> None:
        self._world.release_commits()

    def reject_appends(self, a: int, b: int, c: int) -> None:
        self._world.reject_appends(reject=True)

    def allow_appends(self, a: int, b: int, c: int) -> None:
        self._world.reject_appends(reject=False)

    async def reload(self, a: int, b: int, c: int) -> None:
        """Unload and load the coordinator's partition."""
        runtime = self._world.groups._runtime
        runtime.resign(0)
        await settle()
        self._life += 1
        self._newest = None
        self._generations.clear()
        self._barred.clear()
        runtime.lead(self._world.offsets_partition())
        await runtime.loaded()

    def finish(self) -> None:
        async def come_to_rest() -> None:
            self._world.reject_appends(reject=False)
            self._world.release_commits()
            for _ in range(4):
                await asyncio.sleep((REBALANCE_MS + SESSION_MS) / 1000)

        self._run(come_to_rest())
        self._check_invariants()
        waiting = [each for each, call in self._waiting.items() if not each.done() and not (call and call.is_replaced)]
        assert not waiting, f"waits: {len(waiting)} requests are not answered"
        for group in self._world.group_machine().groups.values():
            assert group.state is GroupState.EMPTY, f"waits: {list(group.members)} are left, {group.state}"
            assert not group.pending_join, f"waits: {group.pending_join} are expected"
        self._use_again()

    def _use_again(self) -> None:
        """Join with a new member, which must get a generation and its assignment."""
        client = Client("n", None)

        async def use() -> None:
            for _ in range(10):
                if client.is_synced:
                    break
                if client.call is None and client.must_join:
                    self._join(client, client.member_id, 0)
                elif client.call is None:
                    self._sync(client, client.member_id)
                await asyncio.sleep(1)

        self._run(use())
        self._check_invariants()
        assert client.is_synced, "waits: a new member gets no assignment"

    def _client(self, number: int) -> Client:
        return self._clients[number % len(self._clients)]

    def _call(self, client: Client, member_id: str) -> Call:
        self._count += 1
        call = Call(
            client=client,
            life=self._life,
            number=self._count,
            member_id=member_id,
            generation=client.generation,
            newest=self._newest,
            was_barred=member_id in self._barred,
        )
        for waiting in self._waiting.values():
            if waiting is not None and member_id and waiting.member_id == member_id:
                waiting.is_replaced = True
        if member_id == client.member_id:
            client.call = call
        return call

    def _when(self, call: Call, answer: Any, seen: Callable[[Call, Any], None]) -> None:
        self._watch(answer, lambda response: seen(call, response), call)

    def _watch(self, answer: Any, seen: Callable[[Any], None], call: Call | None = None) -> None:
        if not isinstance(answer, Awaitable):
            seen(answer)
            return

        async def wait() -> None:
            seen(await answer)

        task = self._loop.create_task(wait())
        task.add_done_callback(self._raise_later)
        self._waiting[task] = call

    def _raise_later(self, task: asyncio.Future[Any]) -> None:
        if not task.cancelled():
            self._failure = self._failure or task.exception()

    def _react(self, client: Client, code: int) -> None:
        """React as a consumer does: join again after a rebalance, and as a new member if the member id is unknown."""
        if code in RETRIED:
            client.must_join = True
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.begin_anew()

    def _generation(self, number: int) -> Generation:
        return self._generations.setdefault(number, Generation())

    def _check_served(self, call: Call, generation: int, member_id: str) -> None:
        """Check that only a member of the newest generation is served."""
        assert call.life == self._life, "generation: a coordinator that resigned serves a member"
        assert not call.was_barred, f"fenced: {member_id} is served, and its place is another's"
        assert self._newest is None or generation >= self._newest, f"generation: {generation} after {self._newest}"
        self._newest = generation


GROUP_FUZZER: Final = Fuzzer(
    "group",
    GroupModel,
    {
        "join": 10, "restart_client": 14, "restart_held": 5, "gather": 12, "sync_leader": 12, "sync": 4,
        "heartbeat": 5, "leave": 3, "commit": 4, "fetch": 2, "work": 12, "settle_down": 16, "wait": 8,
        "hold_commits": 4, "release_commits": 5, "reject_appends": 2, "allow_appends": 4, "reload": 2,
    },
    steps=80,
)  # fmt: skip
