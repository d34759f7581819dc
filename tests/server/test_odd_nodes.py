"""NodeConnection to a node that responds incorrectly, or supports older versions."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kwire import event_loop
from kwire.cluster.channel import Destination, Unreachable
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.codec import decode
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.framing import encode_response, parse_request_header
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.protocol.messages.fetch import FetchReplicaState, FetchRequest, FetchResponse
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kwire.protocol.messages.vote import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData
from kwire.server.network.outgoing.node_channel import NodeChannel

SIZE_BYTES = 4
HEARTBEAT = BrokerHeartbeatRequest(broker_id=1, broker_epoch=2)
SPOKEN = {ApiKey.BROKER_HEARTBEAT: 0, ApiKey.VOTE: 1, ApiKey.FETCH: 14}
"""Newest version that the other node supports, by API."""

Answer = Callable[[bytes], bytes]


def versions(frame: bytes, code: ErrorCode = ErrorCode.NONE) -> bytes:
    keys = [ApiVersion(api_key=key, min_version=0, max_version=high) for key, high in SPOKEN.items()]
    return framed(frame, ApiVersionsResponse(error_code=code, api_keys=keys))


def framed(frame: bytes, response: Any) -> bytes:
    header = parse_request_header(frame)
    return b"".join(bytes(each) for each in encode_response(header.correlation_id, response, header.api_version))


class OddNode:
    """Node that responds to ApiVersions and any other request as the test says."""

    def __init__(self, answer: Answer, first: Answer) -> None:
        self._answer = answer
        self._first = first
        self.frames: list[bytes] = []
        self.destination = Destination(2, "", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
                frame = await reader.readexactly(size)
                is_first = parse_request_header(frame).api_key == ApiKey.API_VERSIONS
                if not is_first:
                    self.frames.append(frame)
                for byte in struct.iter_unpack("c", self._first(frame) if is_first else self._answer(frame)):
                    writer.write(byte[0])
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def odd_node(answer: Answer, first: Answer = versions) -> AsyncIterator[tuple[OddNode, NodeChannel]]:
    other = OddNode(answer, first)
    server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
    other.destination = Destination(2, *server.sockets[0].getsockname()[:2])
    channel = NodeChannel(client_id="test", software_version="1", timeout_ms=10_000)
    try:
        yield other, channel
    finally:
        channel.close()
        server.close()
        await server.wait_closed()


def beaten(frame: bytes) -> bytes:
    return framed(frame, BrokerHeartbeatResponse(is_fenced=True))


def check_unreachable(answer: Answer, why: str, first: Answer = versions) -> None:
    async def main() -> None:
        async with odd_node(answer, first) as (other, channel):
            with pytest.raises(Unreachable, match=why):
                await channel.send(other.destination, HEARTBEAT)

    event_loop.run(main())


@pytest.mark.parametrize("size", [-1, 0, 100 * 1024 * 1024 + 1])
def test_a_response_of_no_possible_size_ends_the_connection(size: int) -> None:
    check_unreachable(lambda _: struct.pack(">i", size), f"a response claims {size} bytes")


def test_a_node_that_fails_api_versions_is_unreachable() -> None:
    def reject(frame: bytes) -> bytes:
        return versions(frame, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    check_unreachable(beaten, "ApiVersions was answered with error 31", reject)


def test_an_unexpected_response_closes_the_connection() -> None:
    async def main() -> None:
        async with odd_node(lambda frame: beaten(frame) * 2) as (other, channel):
            sending = asyncio.ensure_future(channel.send(other.destination, HEARTBEAT))
            await asyncio.sleep(0)
            (connection,) = channel._connections.values()
            assert (await sending).is_fenced
            async with asyncio.timeout(10):
                while not connection.is_closed:
                    await asyncio.sleep(0)

    event_loop.run(main())


def test_an_api_that_the_other_node_does_not_have_is_named() -> None:
    async def main() -> None:
        async with odd_node(beaten) as (other, channel):
            with pytest.raises(Unreachable, match="the other node does not support UNREGISTER_BROKER"):
                await channel.send(other.destination, UnregisterBrokerRequest(broker_id=7))
            assert other.frames == []

    event_loop.run(main())


def test_a_request_that_cannot_be_encoded_keeps_the_connection_open() -> None:
    async def main() -> None:
        async with odd_node(beaten) as (other, channel):
            with pytest.raises(Unreachable):
                await channel.send(other.destination, BrokerHeartbeatRequest(broker_id=1 << 40))
            assert (await channel.send(other.destination, HEARTBEAT)).is_fenced

    event_loop.run(main())


def test_a_node_without_pre_vote_support_gets_no_pre_vote_request() -> None:
    async def main() -> None:
        asked = VoteRequestPartitionData(partition_index=0, replica_id=1, replica_epoch=3, pre_vote=True)
        vote = VoteRequest(topics=[VoteRequestTopicData(topic_name="__cluster_metadata", partitions=[asked])])
        async with odd_node(beaten) as (other, channel):
            answer = await channel.send(other.destination, vote)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert other.frames == []

    event_loop.run(main())


def test_an_older_node_gets_the_replica_id_in_the_old_field() -> None:
    async def main() -> None:
        request = FetchRequest(replica_state=FetchReplicaState(replica_id=5, replica_epoch=9))
        async with odd_node(lambda frame: framed(frame, FetchResponse())) as (other, channel):
            assert (await channel.send(other.destination, request)).error_code == ErrorCode.NONE
            (frame,) = other.frames
            header = parse_request_header(frame)
            assert header.api_version == SPOKEN[ApiKey.FETCH]
            assert decode(FetchRequest, header.api_version, frame, header.body_position).replica_id == 5

    event_loop.run(main())


def test_api_versions_carries_the_software_name_and_version() -> None:
    async def main() -> None:
        reported: list[ApiVersionsRequest] = []

        def first(frame: bytes) -> bytes:
            header = parse_request_header(frame)
            reported.append(decode(ApiVersionsRequest, header.api_version, frame, header.body_position))
            return versions(frame)

        async with odd_node(beaten, first) as (other, channel):
            await channel.send(other.destination, HEARTBEAT)
            assert [(each.client_software_name, each.client_software_version) for each in reported] == [("kwire", "1")]

    event_loop.run(main())
