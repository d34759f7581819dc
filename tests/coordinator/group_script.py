"""Runner of the group scripts: it runs the commands of a script and returns their observed results.

A script opens with comments. A line that begins with ">" is a command; the lines up to the next one are all results of
it, in order. Clients have names; each remembers its member id and generation. Member ids are shown as name#number.
Settings of the coordinator are given once, before the first other command. Commands that ";" separates run one after
another, before the event loop does anything else.

    > join a version=4 rebalance=60000        JoinGroup; others: instance= protocols=x,y type= session= member= topic=
    > sync a a=one b=two                      SyncGroup with assignments by client; others: generation= name= type=
    > heartbeat a                             others: generation= member= instance=
    > leave a b                               LeaveGroup with several members; "instance:i" stands for a static one
    > commit a t-0=5                          OffsetCommit; "-": without a member; others: generation= member= metadata=
    > fetch t-0 t-1, fetch *                  OffsetFetch
    > delete-offsets t-0                      OffsetDelete
    > delete-group, describe, list            with states= and types= for list
    > wait 3000                               milliseconds pass
    > set-clock-back 3600000                  the wall clock is set back by milliseconds
    > restart                                 the coordinator stops and loads its log again; also with other settings
    > disconnect a                            client a closes its connection and gives up its waiting request
    > reject-appends, allow-appends           the internal partition rejects appends, or accepts them again
    > hold-commits, release-commits           appended records stay uncommitted, as with a lagging replica, or commit
    > delete-topic t
    > records                                 records appended since the last query
    > config max_size=2
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path
from typing import Any

from kwire.coordinator.group.records import GroupRecord
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_consumer_protocol
from kwire.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitValue
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinator.clients import client_named
from tests.coordinator.world import World

GROUP = "g"
_MEMBER_ID = re.compile(r"-00000000-0000-0000-0000-([0-9a-f]{12})")


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.instance: str | None = None
        self.waiting: asyncio.Future[Any] | None = None


class ScriptRunner:
    """State of a running script and its observed results."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.world = World(directory, loop)
        self._clients: dict[str, Client] = {}
        self._seen: list[str] = []
        self.is_started = False

    async def run(self, command: str) -> list[str]:
        """Run the command of a line and return all results."""
        for each in command.split("; "):
            await self._run(each)
        await settle()
        seen, self._seen = self._seen, []
        return seen

    async def _run(self, command: str) -> None:
        verb, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        if verb == "config":
            assert not self.is_started
            settings = {key: int(value) for key, value in options.items()}
            self.world.config = dataclasses.replace(self.world.config, **settings)
            return
        if not self.is_started:
            self.is_started = True
            await self.world.start()
        outcome = getattr(self, "_" + verb.replace("-", "_"))(names, options)
        if outcome is not None:
            await outcome

    def stop(self) -> None:
        if self.is_started:
            self.world.stop()

    # --- membership

    def _join(self, names: list[str], options: dict[str, str]) -> None:
        client = self._client(names[0])
        client.instance = options.get("instance", client.instance)
        topic = options.get("topic", "t")
        metadata = encode_consumer_protocol(ConsumerProtocolSubscription(topics=[topic]), 0)
        request = JoinGroupRequest(
            group_id=options.get("group", GROUP),
            session_timeout_ms=int(options.get("session", "10000")),
            rebalance_timeout_ms=int(options.get("rebalance", "60000")),
            member_id=options.get("member", client.member_id),
            group_instance_id=client.instance,
            protocol_type=options.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in options.get("protocols", "range").split(",")
                if name
            ],
        )
        answer = self.world.groups.join(request, client_named(client.name), version=int(options.get("version", "9")))
        self._when(client, answer, self._joined)

    def _joined(self, client: Client, response: JoinGroupResponse) -> None:
        client.member_id = response.member_id or client.member_id
        if response.error_code:
            self._see(f"{client.name} join: {_code(response.error_code)} member={response.member_id}")
            return
        client.generation = response.generation_id
        text = f"{client.name} join: generation {response.generation_id} {response.protocol_name}"
        text += f" leader={response.leader} member={response.member_id}"
        if response.members:
            text += f" members={','.join(member.member_id for member in response.members)}"
        self._see(text + (" skip-assignment" if response.skip_assignment else ""))

    def _sync(self, names: list[str], options: dict[str, str]) -> None:
        client = self._client(names[0])
        given = {key: value for key, value in options.items() if key not in ("generation", "name", "type", "member")}
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=int(options.get("generation", client.generation)),
            member_id=options.get("member", client.member_id),
            group_instance_id=client.instance,
            protocol_type=options.get("type"),
            protocol_name=options.get("name"),
            assignments=[
                SyncGroupRequestAssignment(member_id=self._client(name).member_id, assignment=value.encode())
                for name, value in given.items()
            ],
        )
        self._when(client, self.world.groups.sync(request), self._synced)

    def _synced(self, client: Client, response: SyncGroupResponse) -> None:
        what = (
            _code(response.error_code)
            if response.error_code
            else repr(response.assignment.decode(errors="backslashreplace"))
        )
        self._see(f"{client.name} sync: {what}")

    def _heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        client = self._client(names[0])
        request = HeartbeatRequest(
            group_id=options.get("group", GROUP),
            generation_id=int(options.get("generation", client.generation)),
            member_id=options.get("member", client.member_id),
            group_instance_id=options.get("instance", client.instance),
        )
        self._see(f"{client.name} heartbeat: {_code(self.world.groups.heartbeat(request).error_code)}")

    def _leave(self, names: list[str], options: dict[str, str]) -> None:
        identities = []
        for name in names:
            if name.startswith("instance:"):
                identities.append(MemberIdentity(member_id="", group_instance_id=name.removeprefix("instance:")))
            else:
                client = self._client(name)
                member_id = options.get("member", client.member_id)
                identities.append(MemberIdentity(member_id=member_id, group_instance_id=client.instance))
        answer = self.world.groups.leave(GROUP, identities)
        self._when(Client(" ".join(names)), answer, self._left)

    def _left(self, client: Client, response: LeaveGroupResponse) -> None:
        codes = [_code(response.error_code)] if response.error_code else []
        codes += [_code(member.error_code) for member in response.members]
        self._see(f"{client.name} leave: {' '.join(codes)}")

    def _disconnect(self, names: list[str], _: dict[str, str]) -> None:
        waiting = self._client(names[0]).waiting
        assert waiting is not None
        waiting.cancel()

    # --- offsets

    def _commit(self, names: list[str], options: dict[str, str]) -> None:
        client = Client("-") if names[0] == "-" else self._client(names[0])
        topics = [
            OffsetCommitRequestTopic(
                name=key.split("-")[0],
                topic_id=self.world.image.topics[key.split("-")[0]].topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=int(key.split("-")[1]),
                        committed_offset=int(value),
                        committed_metadata=options.get("metadata"),
                    )
                ],
            )
            for key, value in options.items()
            if "-" in key
        ]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=int(options.get("generation", client.generation)),
            member_id=options.get("member", client.member_id),
            group_instance_id=client.instance,
            retention_time_ms=int(options.get("retention", "-1")),
            topics=topics,
        )
        version = int(options.get("version", "9"))
        self._when(client, self.world.groups.commit_offsets(request, topics, version=version), self._committed)

    def _committed(self, client: Client, topics: list[OffsetCommitResponseTopic]) -> None:
        codes = [_code(partition.error_code) for topic in topics for partition in topic.partitions]
        self._see(f"{client.name} commit: {' '.join(codes)}")

    def _fetch(self, names: list[str], _: dict[str, str]) -> None:
        asked = [
            OffsetFetchRequestTopics(name=name.split("-")[0], partition_indexes=[int(name.split("-")[1])])
            for name in names
            if name != "*"
        ]
        topics = asked or self.world.groups.committed_partitions(OffsetFetchRequestGroup(group_id=GROUP))
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        self._when(Client(""), self.world.groups.fetch_offsets(request, require_stable=False), self._fetched)

    def _fetched(self, _: Client, group: OffsetFetchResponseGroup) -> None:
        if group.error_code:
            self._see(f"fetch: {_code(group.error_code)}")
        for topic in group.topics:
            for partition in topic.partitions:
                metadata = f" {partition.metadata!r}" if partition.metadata else ""
                self._see(f"{topic.name}-{partition.partition_index}: {partition.committed_offset}{metadata}")

    def _delete_offsets(self, names: list[str], _: dict[str, str]) -> None:
        topics = [
            OffsetDeleteRequestTopic(
                name=name.split("-")[0],
                partitions=[OffsetDeleteRequestPartition(partition_index=int(name.split("-")[1]))],
            )
            for name in names
        ]
        self._when(Client(""), self.world.groups.delete_offsets(GROUP, topics), self._deleted_offsets)

    def _deleted_offsets(self, _: Client, response: OffsetDeleteResponse) -> None:
        codes = [_code(response.error_code)] if response.error_code else []
        codes += [_code(partition.error_code) for topic in response.topics for partition in topic.partitions]
        self._see(f"delete-offsets: {' '.join(codes)}")

    # --- administration

    def _delete_group(self, names: list[str], _: dict[str, str]) -> None:
        answer = self.world.groups.delete_group(names[0] if names else GROUP)
        self._when(Client(""), answer, lambda _, result: self._see(f"delete-group: {_code(result.error_code)}"))

    def _describe(self, names: list[str], _: dict[str, str]) -> None:
        group = self.world.groups.describe_group(names[0] if names else GROUP, version=6)
        if group.error_code:
            self._see(f"{group.group_state} {_code(group.error_code)}")
            return
        self._see(f"{group.group_state} type={group.protocol_type} protocol={group.protocol_data}".rstrip())
        for member in group.members:
            instance = f" instance={member.group_instance_id}" if member.group_instance_id else ""
            assignment = member.member_assignment.decode(errors="backslashreplace")
            self._see(f"  {member.member_id}{instance} assignment={assignment!r}")

    def _list(self, _: list[str], options: dict[str, str]) -> None:
        states = options["states"].split(",") if "states" in options else []
        types = options["types"].split(",") if "types" in options else []
        for group in chain.from_iterable(self.world.groups.list_groups(states, types)):
            self._see(f"{group.group_id} {group.group_state} {group.group_type} {group.protocol_type}".rstrip())

    # --- world

    async def _wait(self, names: list[str], _: dict[str, str]) -> None:
        await asyncio.sleep(int(names[0]) / 1000)

    def _set_clock_back(self, names: list[str], _: dict[str, str]) -> None:
        self.world.clock.set_back_ms += int(names[0])

    async def _restart(self, _: list[str], options: dict[str, str]) -> None:
        self.world.stop()
        await settle()
        settings = {key: int(value) for key, value in options.items()}
        self.world.config = dataclasses.replace(self.world.config, **settings)
        await self.world.start()

    def _reject_appends(self, _: list[str], __: dict[str, str]) -> None:
        self.world.reject_appends(reject=True)

    def _allow_appends(self, _: list[str], __: dict[str, str]) -> None:
        self.world.reject_appends(reject=False)

    def _hold_commits(self, _: list[str], __: dict[str, str]) -> None:
        self.world.hold_commits()

    def _release_commits(self, _: list[str], __: dict[str, str]) -> None:
        self.world.release_commits()

    def _delete_topic(self, names: list[str], _: dict[str, str]) -> None:
        self.world.delete_topic(names[0])

    def _records(self, _: list[str], __: dict[str, str]) -> None:
        for record in self.world.new_records():
            self._see(_described(record))

    # --- observations

    def _client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(name))

    def _see(self, text: str) -> None:
        self._seen.append(_MEMBER_ID.sub(lambda found: f"#{int(found[1], 16)}", text))

    def _when(self, client: Client, answer: Awaitable[Any] | Any, seen: Callable[[Client, Any], None]) -> None:
        """Record the response now or when it arrives; responses to disconnected clients are dropped."""
        if not isinstance(answer, Awaitable):
            seen(client, answer)
            return
        future = asyncio.ensure_future(answer)
        client.waiting = future
        future.add_done_callback(lambda done: None if done.cancelled() else seen(client, done.result()))


def _code(code: int) -> str:
    return ErrorCode(code).name


def _described(record: GroupRecord) -> str:
    key, value = record
    if isinstance(key, GroupMetadataKey):
        if value is None:
            return f"group {key.group} tombstone"
        assert isinstance(value, GroupMetadataValue)
        members = " ".join(
            f"{member.member_id}={member.assignment.decode(errors='backslashreplace')!r}" for member in value.members
        )
        return (
            f"group {key.group} type={value.protocol_type!r} generation={value.generation} protocol={value.protocol} "
            f"leader={value.leader} {members}"
        ).rstrip()
    if value is None:
        return f"offset {key.group} {key.topic}-{key.partition} tombstone"
    assert isinstance(value, OffsetCommitValue)
    return f"offset {key.group} {key.topic}-{key.partition} {value.offset}"


async def settle() -> None:
    """Let the loop run until nothing more happens at the current time."""
    for _ in range(6):
        await asyncio.sleep(0)
