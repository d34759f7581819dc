"""The way to another node: a connection is kept for the next request, unless the other node has hung up meanwhile."""

from __future__ import annotations

import asyncio

from kwire import event_loop
from kwire.cluster.quorum.ready import Destination
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.codec import decode
from kwire.protocol.framing import encode_response, parse_request_header
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.server.network.node_channel import NodeChannel

SIZE_BYTES = 4


class OtherNode:
    """Answers ApiVersions and heartbeats, and hangs up when it is told to."""

    def __init__(self) -> None:
        self.connections: list[asyncio.StreamWriter] = []
        self.beats: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
                writer.writelines(self._answer(await reader.readexactly(size)))
        except asyncio.IncompleteReadError:
            writer.close()

    def _answer(self, frame: bytes) -> list[bytes]:
        header = parse_request_header(frame)
        response: ApiVersionsResponse | BrokerHeartbeatResponse
        if header.api_key == ApiKey.API_VERSIONS:
            beats = ApiVersion(api_key=ApiKey.BROKER_HEARTBEAT, min_version=0, max_version=1)
            response = ApiVersionsResponse(api_keys=[beats])
        else:
            beat = decode(BrokerHeartbeatRequest, header.api_version, frame, header.body_position)
            self.beats.append(beat.broker_epoch)
            response = BrokerHeartbeatResponse(is_caught_up=True)
        return [bytes(each) for each in encode_response(header.correlation_id, response, header.api_version)]


def test_a_connection_is_used_again_unless_the_other_node_has_hung_up() -> None:
    event_loop.run(use_twice())


async def use_twice() -> None:
    other = OtherNode()
    server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
    channel = NodeChannel(client_id="test", software_version="1", timeout_ms=10_000)
    destination = Destination(2, *server.sockets[0].getsockname()[:2])

    async def beat(epoch: int) -> BrokerHeartbeatResponse:
        response = await channel.send(destination, BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch))
        assert isinstance(response, BrokerHeartbeatResponse)
        return response

    assert (await beat(1)).is_caught_up
    assert (await beat(2)).is_caught_up
    assert len(other.connections) == 1
    (kept,) = channel._idle.values()
    other.connections[0].close()
    async with asyncio.timeout(10):
        while not kept.is_over:
            await asyncio.sleep(0)
    assert (await beat(3)).is_caught_up, "the first request after that does not fail"
    assert (len(other.connections), other.beats) == (2, [1, 2, 3])
    channel.close()
    server.close()
    await server.wait_closed()
