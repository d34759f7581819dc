"""Row about a group that a hundred consumers join at the same time."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.brokers import Run
from benchmarks.topics import make_topic
from compat_tests.harness.ports import HOST
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_consumer_protocol
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kwire.protocol.requesting import frame_request, parse_response

MEMBERS = 100
ROUNDS = 3
GROUP = "hundred"
TOPIC = "grouped"
JOIN, SYNC, FIND, HEARTBEAT = 5, 3, 3, 3
HEARTBEAT_SECONDS = 0.05
PATIENCE_SECONDS = 60
RETRY = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Member:
    """Client side of the group protocol for one consumer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, group: str) -> None:
        self.reader, self.writer, self.group = reader, writer, group
        self.member_id = ""
        self.generation = -1
        self.settled = -1
        """Generation in which the member has its assignment; -1 while it joins."""

    async def ask(self, request: object, version: int) -> Any:
        self.writer.write(frame_request(request, version, 1, "bench"))
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(size)
        _, response = parse_response(type(request), version, frame)
        return response

    async def live(self, everybody: list["Member"], done: asyncio.Event) -> None:
        """Join, and join again when a heartbeat returns an error, until all members have the same generation."""
        while not done.is_set():
            await self._settle()
            if all(member.settled == self.settled for member in everybody):
                done.set()
            code = ErrorCode.NONE
            while not done.is_set() and not code:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(done.wait(), HEARTBEAT_SECONDS)
                code = await self.heartbeat()

    async def _settle(self) -> None:
        self.settled = -1
        code = ErrorCode.REBALANCE_IN_PROGRESS
        while code:
            joined = await self._join()
            if joined.error_code in RETRY:
                await asyncio.sleep(HEARTBEAT_SECONDS)
                continue
            self.member_id, self.generation = joined.member_id, joined.generation_id
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                continue
            assert not joined.error_code, ErrorCode(joined.error_code).name
            code = await self._sync(joined)
            assert not code or code is ErrorCode.REBALANCE_IN_PROGRESS, code.name
        self.settled = self.generation

    async def _sync(self, joined: JoinGroupResponse) -> ErrorCode:
        """Send SyncGroup: the group's leader assigns a part to each member, other members send an empty list."""
        assignments = [
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"part") for member in joined.members
        ]
        request = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id, assignments=assignments
        )
        synced = await self.ask(request, SYNC)
        assert isinstance(synced, SyncGroupResponse)
        return ErrorCode(synced.error_code)

    async def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        answer = await self.ask(request, HEARTBEAT)
        assert isinstance(answer, HeartbeatResponse)
        return ErrorCode(answer.error_code)

    async def _join(self) -> JoinGroupResponse:
        metadata = encode_consumer_protocol(ConsumerProtocolSubscription(topics=[TOPIC]))
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        joined = await self.ask(request, JOIN)
        assert isinstance(joined, JoinGroupResponse)
        return joined


def group_join(run: Run) -> Mapping[str, float]:
    """Measure the seconds from the first join until all hundred have an assignment in one generation; best of three."""
    make_topic(run, TOPIC)
    return {
        "100 consumers joined (best of 3 groups), s": min(
            asyncio.run(_join_all(run, f"{GROUP}-{index}")) for index in range(ROUNDS)
        )
    }


def wait_for_coordinator(run: Run, group: str) -> None:
    """Wait until the group's coordinator is ready; the first request creates the topic of committed offsets."""

    async def find() -> None:
        member = Member(*await asyncio.open_connection(HOST, run.broker.port), group)
        try:
            await asyncio.wait_for(_find_coordinator(member), PATIENCE_SECONDS)
            while await member.heartbeat() in RETRY:
                await asyncio.sleep(HEARTBEAT_SECONDS)
        finally:
            member.writer.close()

    asyncio.run(find())


async def _join_all(run: Run, group: str) -> float:
    members = [Member(*await asyncio.open_connection(HOST, run.broker.port), group) for _ in range(MEMBERS)]
    try:
        await asyncio.wait_for(_find_coordinator(members[0]), PATIENCE_SECONDS)
        started = time.perf_counter()
        done = asyncio.Event()
        await asyncio.wait_for(asyncio.gather(*(member.live(members, done) for member in members)), PATIENCE_SECONDS)
        return time.perf_counter() - started
    finally:
        for member in members:
            member.writer.close()


async def _find_coordinator(member: Member) -> None:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    while code:
        found = await member.ask(FindCoordinatorRequest(key=member.group, key_type=0), FIND)
        assert isinstance(found, FindCoordinatorResponse)
        code = ErrorCode(found.error_code)
