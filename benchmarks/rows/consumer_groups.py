"""Row about a consumer group (KIP-848) of a thousand members: time until all are stable, and heartbeats a second.

The members share twenty connections, on which they send their heartbeats one after the other.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

from kafka.admin import NewTopic

from benchmarks.brokers import Run
from benchmarks.frames import flexible_frame
from benchmarks.load import load
from benchmarks.rows.groups import wait_for_coordinator
from benchmarks.topics import admin
from compat_tests.harness.ports import HOST
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kwire.protocol.requesting import frame_request, parse_response

MEMBERS = 1_000
CONNECTIONS = 20
PARTITIONS = 1_000
LEAVING = MEMBERS // 10
GROUP = "thousand"
TOPIC = "assigned"
API_KEY, VERSION = 68, 1
ERROR_POSITION = 4 + 4 + 1 + 4
"""Position of the error code in a response: after size, correlation id, tags and throttle time."""
SECONDS_MAX = 240
HEARTBEAT_SECONDS = 3.0
WARM_UP_SECONDS = 1.0


class Member:
    """Client side of one member."""

    def __init__(self, number: int) -> None:
        self.member_id = f"member-{number}"
        self.epoch = 0
        self.owned: list[ConsumerGroupHeartbeatTopicPartitions] = []

    @property
    def count(self) -> int:
        return sum(len(topic.partitions) for topic in self.owned)

    def request(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, topic_partitions=self.owned
        )
        if self.epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names = [TOPIC]
            request.topic_partitions = []
        return request

    def receive(self, response: ConsumerGroupHeartbeatResponse) -> None:
        assert not response.error_code, ErrorCode(response.error_code).name
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = response.assignment.topic_partitions


class Connection:
    """Connection that sends the heartbeats of some members, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        self.writer.write(frame_request(request, VERSION, 1, "bench"))
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        _, response = parse_response(type(request), VERSION, await self.reader.readexactly(size))
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    async def beat(self, members: Sequence[Member]) -> None:
        for member in members:
            member.receive(await self.ask(member.request()))

    async def leave(self, members: Sequence[Member]) -> None:
        for member in members:
            request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member.member_id, member_epoch=-1)
            assert not (await self.ask(request)).error_code


def consumer_group(run: Run) -> Mapping[str, float]:
    """Measure the time until a thousand members have their partitions, and again after a tenth has left."""
    with admin(run) as client:
        client.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    wait_for_coordinator(run, GROUP)
    before = run.cpu_seconds()
    joined, left, members = asyncio.run(asyncio.wait_for(_join_and_leave(run), SECONDS_MAX))
    cpu_seconds = run.cpu_seconds() - before
    frames = [
        flexible_frame(
            API_KEY,
            VERSION,
            ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member.member_id, member_epoch=member.epoch),
        )
        for member in members[:CONNECTIONS]
    ]
    load(run, frames, ERROR_POSITION, seconds=WARM_UP_SECONDS)
    measured = load(run, frames, ERROR_POSITION, seconds=HEARTBEAT_SECONDS)
    return {
        "1,000 members of a consumer group stable, s": joined,
        "stable again after 100 have left, s": left,
        "CPU s for a consumer group of 1,000": cpu_seconds,
        "consumer group heartbeats/s": measured.rate,
    }


async def _join_and_leave(run: Run) -> tuple[float, float, list[Member]]:
    connections = [Connection(*await asyncio.open_connection(HOST, run.broker.port)) for _ in range(CONNECTIONS)]
    members = [Member(number) for number in range(MEMBERS)]
    try:
        joined = await _until_stable(connections, members)
        leaving, staying = members[:LEAVING], members[LEAVING:]
        started = time.perf_counter()
        await connections[0].leave(leaving)
        left_after = time.perf_counter() - started
        return joined, left_after + await _until_stable(connections, staying), staying
    finally:
        for connection in connections:
            connection.writer.close()


async def _until_stable(connections: Sequence[Connection], members: Sequence[Member]) -> float:
    """Send heartbeats until all members are at one epoch and share all partitions evenly; return the seconds."""
    started = time.perf_counter()
    shares = [members[number :: len(connections)] for number in range(len(connections))]
    while True:
        await asyncio.gather(*(connection.beat(share) for connection, share in zip(connections, shares, strict=True)))
        counts = [member.count for member in members]
        is_balanced = sum(counts) == PARTITIONS and max(counts) - min(counts) <= 1
        if is_balanced and len({member.epoch for member in members}) == 1:
            return time.perf_counter() - started
