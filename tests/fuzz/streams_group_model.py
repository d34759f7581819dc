"""Streams group (KIP-1071) against a model: threads of processes that join, close tasks late, miss responses, leave,
ask the application to stop, and expire.

Topics appear, grow and go; settings change. The log may reject records, hold commits back, lose its uncommitted end, or
be loaded again, also from any prefix of its records. Static members do not exist in Kafka 4.3: an instance id is
rejected.

Rules, by the names that a failure begins with:

- double owner: no active task is open in two members
- roles: no process has a task in two roles
- epochs: neither the group's epoch nor a member's decreases
- revoked: a member that has not closed its revoked tasks stays at its epoch
- assignment: a client that has closed them has only tasks that the coordinator says that its member has
- status: each response has the status that follows from the topics, and the request to stop
- fenced: requests with a wrong epoch, of an unknown member, or with another topology get Kafka's error code
- commit: a member commits with its epoch; with an older one only for tasks that it has had since
- offset: acknowledged offsets can be fetched, also from the next coordinator
- restart: the loaded group is the one that was written
- timers: each member has a session, and a rebalance timeout while it must close tasks; an empty group has no timers
- stable: when all is quiet, each task is active in one member, and has its standby tasks
- memory: nothing is left of members that have left
- invariant: no operation breaks an invariant of the group
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, Self

import pytest

from kwire.chunks import at_once, is_in_pieces
from kwire.coordinator.group.assignors import pace
from kwire.coordinator.group.streams import task_assignments
from kwire.coordinator.group.streams.heartbeats import StreamsHeartbeat
from kwire.coordinator.group.streams.member import MemberState, StreamsMember
from kwire.coordinator.group.streams.statuses import Status
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.coordinator.clients import client_named
from tests.coordinator.world import topic_image
from tests.fuzz.fuzzing import Fuzzer
from tests.fuzz.logged_world import GROUP, LoggedWorld
from tests.fuzz.streams_clients import (
    PROCESSES,
    TOPIC_STATUSES,
    TOPOLOGIES,
    Client,
    Plan,
    Sent,
    Task,
    check_nothing_left,
    code_of_commit,
    invalid_request,
    source_of,
    tasks_of,
    tasks_of_member,
)

SESSION_S: Final = 46
DELAY_S: Final = 4
"""Longer than the initial rebalance delay and the assignment interval."""
ROUNDS_UNTIL_STABLE: Final = 40
STANDBYS: Final = "group.streams.num.standby.replicas"
NAMES: Final = ("t", "u", "c", "r")
GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class StreamsGroupModel(LoggedWorld):
    """Model of a streams group."""

    def __init__(self) -> None:
        super().__init__()
        self._change(standbys=0, interval_ms=0, delay_ms=0)
        self._clients = [Client("a", "p"), Client("b", "p"), Client("c", "q"), Client("d", "r")]
        self._sent: dict[Client, Sent] = {}
        self._topology = TOPOLOGIES[0]
        self._epoch = 0
        self._must_stop = self._may_stop = False
        """True if responses must, or may, have the status that asks the application to stop."""
        self._has_failed = False
        """True if a write of this coordinator has failed; as in Kafka, its timers have changed nevertheless."""
        self._rejects_next = False
        self._run(self._world.start())

    # --- operations of members

    def beat(self, a: int, _b: int, c: int) -> None:
        """Heartbeat of a client that closes at once what it lost; it joins if it is no member."""
        client = self._clients[a % len(self._clients)]
        if self._streams_group() is None:
            self._topology = TOPOLOGIES[c % len(TOPOLOGIES)]
        client.close_revoked()
        self._step(client)

    def beat_without_revoking(self, a: int, _b: int, _c: int) -> None:
        self._step(self._clients[a % len(self._clients)])

    def beat_all(self, a: int, _b: int, _c: int) -> None:
        for index in range(len(self._clients)):
            self.beat(a + index, 0, 0)
            self._check()

    def lose_response(self, a: int, _b: int, _c: int) -> None:
        """Heartbeat whose response does not arrive: the next one is at the old epoch and has all fields."""
        client = self._clients[a % len(self._clients)]
        if client.is_member and client.pending is None:
            self._send(client, client.request(self._topology))
            client.sends_all_fields = True

    def lose_state(self, a: int, _b: int, _c: int) -> None:
        """Let a client join again with its member id, without tasks."""
        self._clients[a % len(self._clients)].drop()

    def leave(self, a: int, b: int, c: int) -> None:
        """Leave for good, and perhaps ask the application to stop; the next thread has another member id."""
        client = self._clients[a % len(self._clients)]
        if client.is_member and client.pending is None:
            request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=client.member_id, member_epoch=-1)
            request.shutdown_application = c % 4 == 0
            self._may_stop = self._may_stop or request.shutdown_application
            answer = self._send(client, request)
            if isinstance(answer, StreamsHeartbeat) and answer.response.error_code == 0:
                self._must_stop = self._must_stop or request.shutdown_application
            client.begin_again(PROCESSES[b % len(PROCESSES)])

    def crash(self, a: int, b: int, _c: int) -> None:
        """End a thread without a word: its member stays until its session ends."""
        self._clients[a % len(self._clients)].begin_again(PROCESSES[b % len(PROCESSES)])

    def stop_application(self, a: int, _b: int, _c: int) -> None:
        client = self._clients[a % len(self._clients)]
        if client.is_member and client.pending is None:
            client.close_revoked()
            client.asked_to_stop = True
            self._step(client)

    def commit(self, a: int, b: int, _c: int) -> None:
        """Commit as a member for a task of any member."""
        client = self._clients[a % len(self._clients)]
        tasks = sorted({task for each in self._clients for task in each.held[0]})
        if not (client.is_member and tasks) or self._is_rejecting or self._is_held:
            return
        task = tasks[b % len(tasks)]
        name = source_of(self._topology, task)
        if name not in self._world.image.topics:
            return
        expected = code_of_commit(self._streams_group(), client, task)
        code = self._commit((name, task[1]), client.member_id, client.epoch)
        assert code == expected, f"commit: {code.name}, not {expected.name}, of {client.member_id} at {client.epoch}"
        others = {each for other in self._present() if other is not client for each in other.held[0]}
        member = self._member(client)
        if member is not None and client.epoch != member.member_epoch and task in others:
            assert code, f"commit: an old epoch commits for {task}, which another member has"

    def send_invalid(self, a: int, b: int, c: int) -> None:
        """Send a heartbeat that must be rejected."""
        client = self._clients[a % len(self._clients)]
        if not client.is_member or self._is_rejecting or self._is_held:
            return
        plan = Plan(self._topology, self._world.image.topics)
        request, expected = invalid_request(self._streams_group(), client, self._topology, plan, (b % 7, c))
        answer = self._send(client, request)
        assert isinstance(answer, StreamsHeartbeat), "fenced: an invalid request is written"
        code = ErrorCode(answer.response.error_code)
        assert code == expected, f"fenced: {code.name}, not {expected.name}, for {request}"

    def beat_in_vain(self, a: int, b: int, c: int) -> None:
        """Change a topic while no record can be stored, let all members see it, and perhaps undo the change."""
        if self._is_held:
            return
        before, was_rejecting = self._world.image.topics, self._is_rejecting
        self._world.reject_appends(reject=True)
        self._run(self._soon(lambda: self._change_topic("tu", a, b)))
        self.beat_all(0, 0, 0)
        if c % 2 and all(self._world.image.topics.get(name, topic) is topic for name, topic in before.items()):
            self._run(self._soon(lambda: self._world._have_topics(dict(before))))
        self._forget_deleted()
        self._world.reject_appends(reject=was_rejecting)

    def beat_before_rejection(self, a: int, _b: int, _c: int) -> None:
        """Heartbeat of a client whose records are stored, and those of the next moments are not."""
        client = self._clients[a % len(self._clients)]
        if client.pending is None and not self._is_held and not self._is_rejecting:
            client.close_revoked()
            self._rejects_next = True
            self._step(client)
            self._rejects_next = False
            self._sleep(0.1)
            self._world.reject_appends(reject=False)

    # --- operations of the world

    def expire(self, _a: int, _b: int, _c: int) -> None:
        """Let all sessions expire."""
        self._sleep(SESSION_S)
        for client in self._clients:
            client.drop()
        group = self._streams_group()
        if group is not None and not self._is_rejecting:
            assert group.is_empty, f"timers: the silent members {list(group.members)} stay"

    def wait(self, a: int, _b: int, _c: int) -> None:
        """Let some seconds pass, within which a timeout may end a membership."""
        self._sleep((0.1, 1, 4, 16)[a % 4])
        self._drop_removed()

    def change_topics(self, a: int, b: int, c: int) -> None:
        """Create, grow or delete a topic; internal ones are only created by the group, and deleted."""
        name = NAMES[a % len(NAMES)]
        if name in "tu":
            self._run(self._soon(lambda: self._change_topic((name,), 0, b)))
        elif name in self._world.image.topics and c % 2:
            self._run(self._soon(lambda: self._world.delete_topic(name)))
        self._forget_deleted()

    def change_settings(self, a: int, b: int, c: int) -> None:
        self._change(standbys=a % 3, interval_ms=(0, 0, 2000)[b % 3], delay_ms=(0, 0, 3000)[c % 3])

    def _prepare(self, other: Self, b: int) -> None:
        """Give another broker the topics, the settings and the topology, with other members or the same ones."""
        other._world.image, other._world.settings = self._world.image, self._world.settings
        other._topics, other._topology = self._topics, self._topology
        for client in other._clients:
            client.lives = 1000 * (b % 2)
            client.begin_again(client.process)

    # --- requests

    def _step(self, client: Client) -> None:
        """Receive the response that a client waits for, or send its next heartbeat."""
        if client.pending is not None:
            if client.pending.done():
                arrived, client.pending = client.pending.result(), None
                self._receive(client, arrived)
            return
        request = client.request(self._topology)
        request.shutdown_application = client.asked_to_stop
        self._may_stop = self._may_stop or client.asked_to_stop
        plan = Plan(self._topology, self._world.image.topics)
        self._sent[client] = Sent(plan.status, self._must_stop, self._may_stop, client.has_revoked())
        answer = self._send(client, request)
        if isinstance(answer, StreamsHeartbeat):
            self._receive(client, answer)
        else:
            client.pending = answer

    def _send(
        self, client: Client, request: StreamsGroupHeartbeatRequest
    ) -> StreamsHeartbeat | asyncio.Future[StreamsHeartbeat]:
        """Send a request; return its response, or a future of it until its records are committed."""

        async def send() -> list[Any]:
            answer: Any = self._world.groups.streams.heartbeat(request, client_named(client.name))
            answer = at_once(answer) if is_in_pieces(answer) else answer
            if self._rejects_next:
                self._world.reject_appends(reject=True)
            return [asyncio.ensure_future(answer) if isinstance(answer, Awaitable) else answer]

        answer: StreamsHeartbeat | asyncio.Future[StreamsHeartbeat]
        (answer,) = self._run(send())
        return answer.result() if isinstance(answer, asyncio.Future) and answer.done() else answer

    def _receive(self, client: Client, answer: StreamsHeartbeat) -> None:
        response, sent = answer.response, self._sent[client]
        self._create_topics(answer)
        if response.error_code in GONE:
            client.drop()
        if response.error_code:
            self._has_failed = True
            client.sends_all_fields = True
            return
        if client.is_member:
            assert response.member_epoch >= client.epoch, "epochs: a member's epoch decreases"
            assert sent.has_revoked or response.member_epoch == client.epoch, "revoked: a member skips a revocation"
        self._must_stop = self._must_stop or client.asked_to_stop
        client.asked_to_stop = False
        client.is_member, client.sends_all_fields = True, False
        client.epoch = response.member_epoch
        if response.active_tasks is not None:
            client.assigned = tasks_of(response.active_tasks), tasks_of(response.standby_tasks)
            client.held = client.held[0] | client.assigned[0], client.held[1] | client.assigned[1]
        self._check_statuses({Status(each.status_code) for each in response.status or ()}, sent)

    def _check_statuses(self, statuses: set[Status], sent: Sent) -> None:
        expected = set() if sent.status is None else {sent.status}
        found = statuses & {*TOPIC_STATUSES}
        assert found == expected, f"status: {found}, not {expected}"
        assert Status.STALE_TOPOLOGY not in statuses, "status: the topology is stale"
        stops = Status.SHUTDOWN_APPLICATION in statuses
        assert stops or not sent.must_stop, "status: the request to stop is forgotten"
        assert sent.may_stop or not stops, "status: no member asked to stop"

    def _create_topics(self, answer: StreamsHeartbeat) -> None:
        """Create the internal topics that a heartbeat has found missing, as the server does."""
        for topic in answer.missing.values():
            if topic.name not in self._world.image.topics:
                self._topics += 1
                image = topic_image(topic.name, self._topics, topic.partitions)
                self._run(self._soon(lambda image=image: self._world.change_topic(image)))

    # --- world

    @staticmethod
    async def _soon(change: Any) -> None:
        change()

    def _change(self, *, standbys: int, interval_ms: int, delay_ms: int) -> None:
        self._world.settings = {
            **self._world.settings,
            STANDBYS: standbys,
            "group.streams.assignment.interval.ms": interval_ms,
            "group.streams.initial.rebalance.delay.ms": delay_ms,
        }

    def _forget_deleted(self) -> None:
        self._committed = {
            place: offset for place, offset in self._committed.items() if place[0] in self._world.image.topics
        }

    def _reloaded(self) -> None:
        group = self._streams_group()
        self._epoch = 0 if group is None else min(self._epoch, group.epoch)
        known = max((client.epoch for client in self._present()), default=0)
        assert known <= (0 if group is None else group.epoch), "epochs: a coordinator has forgotten a member's epoch"
        self._must_stop = self._may_stop = self._has_failed = False
        for client in self._clients:
            if client.pending is not None:
                client.pending, client.sends_all_fields = None, True
        self._check_offsets()

    def _streams_group(self) -> StreamsGroup | None:
        group = self._any_group()
        return group if isinstance(group, StreamsGroup) else None

    def _member(self, client: Client) -> StreamsMember | None:
        group = self._streams_group()
        return None if group is None else group.members.get(client.member_id)

    def _present(self) -> list[Client]:
        return [client for client in self._clients if client.is_member and self._member(client) is not None]

    def _drop_removed(self) -> None:
        """Let clients whose membership ended by a timeout close their tasks: their own timers end it as well."""
        for client in self._clients:
            if client.is_member and self._member(client) is None:
                client.drop()

    # --- rules

    def _check(self) -> None:
        super()._check()
        group = self._streams_group()
        if group is None or group.is_empty:
            self._must_stop = self._may_stop = False
        if group is None:
            self._epoch = 0
            return
        assert group.epoch >= self._epoch, "epochs: the group's epoch decreases"
        self._epoch = group.epoch
        self._check_owners()
        for client in self._present():
            self._check_assignment(client)
        assert group.members.keys() <= self._timers_of("session"), "timers: a member has no session"
        revoking = {each for each, member in group.members.items() if member.state is MemberState.UNREVOKED_TASKS}
        assert self._has_failed or revoking <= self._timers_of("revocation"), "timers: a revocation has no end"

    def _check_owners(self) -> None:
        owners: dict[Task, str] = {}
        roles: dict[tuple[str, Task], tuple[str, int]] = {}
        for client in self._present():
            for task in client.held[0]:
                assert owners.setdefault(task, client.name) == client.name, (
                    f"double owner: {owners[task]}, {client.name}"
                )
            for role, tasks in enumerate(client.held):
                for task in tasks:
                    known = roles.setdefault((client.process, task), (client.name, role))
                    assert known == (client.name, role), f"roles: {task} in {client.process}"

    def _check_assignment(self, client: Client) -> None:
        member = self._member(client)
        if member is not None and member.member_epoch == client.epoch and client.pending is None:
            allowed = tasks_of_member(member)
            for held, assigned, may in zip(client.held, client.assigned, allowed, strict=True):
                assert held & assigned <= may, f"assignment: {client.member_id} has {held & assigned - may} too much"

    def _written(self) -> Any:
        group = self._streams_group()
        if group is None:
            return ()
        epochs = group.epoch, group.validated_topology_epoch, group.target_epoch
        configs = group.metadata_hash, dict(group.assignment_configs), group.topology is None
        return epochs, configs, dict(group.targets), dict(group.members)

    # --- rest

    def finish(self) -> None:
        """Let everything come to rest, and then let all members leave."""
        self._release()
        self._accept_appends()
        self._run(self._soon(self._make_topics_fit))
        self._forget_deleted()
        self._sleep(SESSION_S)
        for client in self._clients:
            client.drop()
        self._check()
        self._beat_until_stable()
        self._check_stable()
        self._check_offsets()
        self._leave_all()

    def _make_topics_fit(self) -> None:
        """Give both source topics as many partitions, and remove internal topics."""
        topics = self._world.image.topics
        count = max((len(topics[name].partitions) for name in "tu" if name in topics), default=2)
        for name in "tu":
            self._topics += 1
            number = topics[name].topic_id.int if name in topics else self._topics
            self._world.change_topic(topic_image(name, number, count))
        for name in "cr":
            if name in topics:
                self._world.delete_topic(name)

    def _beat_until_stable(self) -> None:
        for _ in range(ROUNDS_UNTIL_STABLE):
            epoch = self._beat_and_wait()
            if [client.epoch for client in self._clients] == [epoch] * len(self._clients):
                break
        stable = self._beat_and_wait()
        assert self._beat_and_wait() == stable, "stable: the epoch grows"
        assert [client.epoch for client in self._clients] == [stable] * len(self._clients), "stable: a member is behind"

    def _beat_and_wait(self) -> int:
        """Let each member send a heartbeat; return the epoch of the group if it is stable, or else -1."""
        self.beat_all(0, 0, 0)
        self._sleep(1)
        group = self._streams_group()
        assert group is not None, "stable: the group is gone"
        return group.epoch if group.state.value == "Stable" else -1

    def _check_stable(self) -> None:
        tasks = Plan(self._topology, self._world.image.topics).tasks
        assert tasks, "stable: the topology is not ready"
        owned = sorted(task for client in self._clients for task in client.held[0])
        assert owned == sorted(tasks), f"stable: the members have {owned}"
        copies = min(self._world.settings[STANDBYS], len({client.process for client in self._clients}) - 1)
        standbys = sorted(task for client in self._clients for task in client.held[1])
        expected = sorted(task for task, is_stateful in tasks.items() if is_stateful for _ in range(copies))
        assert standbys == expected, f"stable: the members have the standby tasks {standbys}, not {expected}"
        assert self._timers_of("session") == {client.member_id for client in self._clients}, "timers: other sessions"
        assert not self._timers_of("revocation"), "timers: a stable member must revoke"

    def _leave_all(self) -> None:
        for client in self._clients:
            self.leave(self._clients.index(client), 0, 1)
            self._check()
        group = self._streams_group()
        assert group is not None, "memory: the group is gone"
        assert group.is_empty, f"memory: {list(group.members)} stay"
        check_nothing_left(group)
        self._sleep(DELAY_S)
        assert not self._timers(), f"timers: the empty group has {self._timers()}"
        assert not self._shard().machine.streams._assignments._in_progress, "memory: an assignment is in progress"


class LargeStreamsGroupModel(StreamsGroupModel):
    """Model of a streams group whose assignments are all computed in the background, in many steps."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(task_assignments, "SMALL_ASSIGNMENT", -1)
        self._patch.setattr(task_assignments, "STORED_AT_ONCE", 1)
        self._patch.setattr(pace, "UNITS_OF_STEP", 1)
        super().__init__()

    def close(self) -> None:
        super().close()
        self._patch.undo()


_WEIGHTS: Final = {
    "beat": 40, "beat_all": 12, "beat_without_revoking": 8, "lose_response": 5, "lose_state": 2, "leave": 5,
    "crash": 3, "stop_application": 1, "commit": 8, "send_invalid": 6, "expire": 1, "wait": 6, "change_topics": 6,
    "change_settings": 3, "reject_appends": 3, "hold_commits": 4, "release_commits": 6, "restart": 2, "fail_over": 3,
    "load_prefix": 1, "beat_in_vain": 2, "beat_before_rejection": 3,
}  # fmt: skip
STREAMS_GROUP_FUZZER: Final = Fuzzer("streams-group", StreamsGroupModel, _WEIGHTS)
LARGE_STREAMS_GROUP_FUZZER: Final = Fuzzer("large-streams-group", LargeStreamsGroupModel, _WEIGHTS, seeds=50)
