"""Attacks of more than one frame, repeated next to the attack with single frames: slow readers, incomplete frames,
single bytes, groups, sessions and lists of the maximum size, and many connections.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.requesting import frame_request
from tests.hostile.frames import valid
from tests.support.raw_client import sized
from tests.support.requests import fetch_request

LARGE = "large"
"""Topic with more data than one response may have."""
SLOW_READERS = 40
HALF_FRAMES = 12
HALF_FRAME_BYTES = 60 * 1024 * 1024
CONNECTIONS = 1000
ELEMENTS = 90_000
STAY_SECONDS = 3.0
PATIENCE_SECONDS = 30.0
JOINS = 200
METADATA_BYTES = 300_000


def frame(request: Any, version: int, client_id: str = "scene") -> bytes:
    return frame_request(request, version, 1, client_id)


class Scenes:
    """Attacks that repeat until they are stopped; `frames` is the number of sent frames."""

    def __init__(self, bootstrap_server: str, seed: int) -> None:
        host, port = bootstrap_server.rsplit(":", 1)
        self._address = host, int(port)
        self._random_source = random.Random(seed)
        self.frames = 0
        self.played: dict[str, int] = {}
        self.stopped = False
        """True once the attack is over, because wait_for may swallow a cancellation."""

    async def play(self) -> None:
        """Run several attacks in parallel until they are stopped."""
        loops = ((self.slow_readers,), (self.half_frames,), (self.dribble,), (self.connections,))
        lists = (self.many_keys, self.join, self.many_partitions, self.session, self.many_offsets, self.many_topics)
        await asyncio.gather(*(self._again(each) for each in (*loops, lists)))

    async def _again(self, scenes: tuple[Callable[[], Awaitable[None]], ...]) -> None:
        while not self.stopped:
            for scene in scenes:
                with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                    await asyncio.wait_for(scene(), PATIENCE_SECONDS)
                await asyncio.sleep(0.05)
                self.played[scene.__name__] = self.played.get(scene.__name__, 0) + 1

    @asynccontextmanager
    async def _connected(self, **more: Any) -> Any:
        reader, writer = await asyncio.open_connection(*self._address, **more)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _ask(self, data: bytes) -> None:
        """Send a frame and read its response."""
        async with self._connected() as (reader, writer):
            writer.write(data)
            self.frames += 1
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            while size > 0:
                part = await reader.read(min(size, 1 << 20))
                if not part:
                    return
                size -= len(part)

    # --- attacks

    async def slow_readers(self) -> None:
        """Open connections that each request 50 MB and do not read it."""
        poll = frame(fetch_request(LARGE, max_bytes=50 << 20, partition_max_bytes=50 << 20), 12)

        async def one() -> None:
            async with self._connected(limit=1) as (_, writer):
                writer.write(poll * 5)
                self.frames += 5
                await asyncio.sleep(STAY_SECONDS)

        await asyncio.gather(*(one() for _ in range(SLOW_READERS)), return_exceptions=True)

    async def half_frames(self) -> None:
        """Send incomplete frames that together exceed the broker's request memory."""

        async def one() -> None:
            async with self._connected() as (_, writer):
                writer.write(struct.pack(">i", 90 << 20))
                self.frames += 1
                part = bytes(1 << 20)
                with suppress(TimeoutError):
                    async with asyncio.timeout(STAY_SECONDS):
                        for _ in range(HALF_FRAME_BYTES // len(part)):
                            writer.write(part)
                            await writer.drain()
                        await asyncio.sleep(STAY_SECONDS)

        await asyncio.gather(*(one() for _ in range(HALF_FRAMES)), return_exceptions=True)

    async def dribble(self) -> None:
        """Send a byte every few milliseconds."""

        async def one(data: bytes) -> None:
            async with self._connected() as (_, writer):
                self.frames += 1
                for byte in data[:400]:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.005)

        await asyncio.gather(*(one(sized(valid(self._random_source))) for _ in range(15)), return_exceptions=True)

    async def connections(self) -> None:
        """Open many connections from one host that send no data, or half a size."""

        async def one() -> None:
            async with self._connected() as (_, writer):
                writer.write(b"\0\0")
                self.frames += 1
                await asyncio.sleep(STAY_SECONDS)

        for _ in range(CONNECTIONS // 100):
            tasks = [asyncio.ensure_future(one()) for _ in range(100)]
            await asyncio.sleep(0.1)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def many_keys(self) -> None:
        await self._ask(frame(FindCoordinatorRequest(key_type=0, coordinator_keys=self._names("key")), 6))

    async def join(self) -> None:
        """Join groups with maximum metadata, as members that send no further requests."""
        for number in range(JOINS):
            request = JoinGroupRequest(
                group_id=f"hostile-scene-{self._random_source.getrandbits(32)}",
                session_timeout_ms=6000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(METADATA_BYTES))],
            )
            async with self._connected() as (_, writer):
                writer.write(frame(request, 3 if number % 2 else 9, client_id="😀" * 8000))
                self.frames += 1
                await writer.drain()
                await asyncio.sleep(0.005)

    async def many_partitions(self) -> None:
        partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(ELEMENTS)]
        topic = ListOffsetsTopic(name=LARGE, partitions=partitions)
        await self._ask(frame(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7))

    async def session(self) -> None:
        """Open a session with invalid topic names."""
        topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0)]) for name in self._names("n" * 300)]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, session_id=0, session_epoch=0, topics=topics)
        await self._ask(frame(request, 12))

    async def many_offsets(self) -> None:
        request = fetch_request(LARGE, session=(0, 0))
        request.topics[0].partitions = [
            FetchPartition(partition=index % 3, fetch_offset=index) for index in range(ELEMENTS)
        ]
        await self._ask(frame(request, 12))

    async def many_topics(self) -> None:
        topics = [MetadataRequestTopic(name=name) for name in self._names("topic")]
        await self._ask(frame(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12))

    def _names(self, prefix: str) -> list[str]:
        return [f"{prefix}-{self._random_source.getrandbits(30)}" for _ in range(ELEMENTS // 3)]
