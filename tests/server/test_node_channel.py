"""NodeChannel: one connection for each node and API, requests in flight, and events that close a connection."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from kwire import event_loop
from kwire.cluster.channel import Destination, Unreachable
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.codec import decode
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.framing import encode_response, parse_request_header
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kwire.server.network import forks
from kwire.server.network.outgoing.node_channel import NodeChannel
from kwire.server.network.outgoing.node_connection import REQUESTS_IN_FLIGHT_MAX, NodeConnection
from tests.support.waiting import until

SIZE_BYTES = 4
SPOKEN = (ApiKey.BROKER_HEARTBEAT, ApiKey.UNREGISTER_BROKER)


class OtherNode:
    """Server that responds to ApiVersions at once, and to heartbeats in order once `may_answer` is set."""

    def __init__(self) -> None:
        self.connections: list[asyncio.StreamWriter] = []
        self.received: list[int] = []
        self.most_in_flight = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._unanswered = 0
        self.destination = Destination(2, "", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        answers: asyncio.Queue[bytes] = asyncio.Queue()
        answering = asyncio.create_task(self._answer_in_order(answers, writer))
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
                frame = await reader.readexactly(size)
                if parse_request_header(frame).api_key == ApiKey.BROKER_HEARTBEAT:
                    self._unanswered += 1
                    self.most_in_flight = max(self.most_in_flight, self._unanswered)
                    answers.put_nowait(frame)
                else:
                    writer.writelines(self._answer(frame))
        except (asyncio.IncompleteReadError, ConnectionError):
            answering.cancel()
            writer.close()

    async def _answer_in_order(self, frames: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
        while True:
            frame = await frames.get()
            await self.may_answer.wait()
            self._unanswered -= 1
            writer.writelines(self._answer(frame))

    def _answer(self, frame: bytes) -> list[bytes]:
        header = parse_request_header(frame)
        response: Any = UnregisterBrokerResponse()
        if header.api_key == ApiKey.API_VERSIONS:
            response = ApiVersionsResponse(
                api_keys=[ApiVersion(api_key=key, min_version=0, max_version=0) for key in SPOKEN]
            )
        elif header.api_key == ApiKey.BROKER_HEARTBEAT:
            beat = decode(BrokerHeartbeatRequest, header.api_version, frame, header.body_position)
            self.received.append(beat.broker_epoch)
            response = BrokerHeartbeatResponse(is_fenced=bool(beat.broker_epoch % 2))
        return [bytes(each) for each in encode_response(header.correlation_id, response, header.api_version)]


@asynccontextmanager
async def other_node() -> AsyncIterator[OtherNode]:
    other = OtherNode()
    server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
    other.destination = Destination(2, *server.sockets[0].getsockname()[:2])
    yield other
    for connection in other.connections:
        connection.close()
    server.close()
    await server.wait_closed()


def new_channel(timeout_ms: int = 10_000) -> NodeChannel:
    return NodeChannel(client_id="test", software_version="1", timeout_ms=timeout_ms)


def beat(channel: NodeChannel, other: OtherNode, epoch: int) -> Coroutine[Any, Any, Any]:
    return channel.send(other.destination, BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch))


def test_a_connection_is_used_again_unless_the_other_node_has_closed_it() -> None:
    event_loop.run(use_twice())


async def use_twice() -> None:
    async with other_node() as other:
        channel = new_channel()
        assert not (await beat(channel, other, 2)).is_fenced
        assert (await beat(channel, other, 3)).is_fenced
        assert len(other.connections) == 1
        (kept,) = channel._connections.values()
        other.connections[0].close()
        await until(lambda: kept.is_closed)
        await beat(channel, other, 4)  # the next request succeeds
        assert (len(other.connections), other.received) == (2, [2, 3, 4])
        channel.close()


def test_many_requests_at_once_share_one_connection_and_each_gets_its_own_response() -> None:
    event_loop.run(send_many())


async def send_many() -> None:
    async with other_node() as other:
        other.may_answer.clear()
        channel = new_channel()
        beats = [asyncio.ensure_future(beat(channel, other, epoch)) for epoch in range(500)]
        await until(lambda: other.most_in_flight == REQUESTS_IN_FLIGHT_MAX)
        other.may_answer.set()
        responses = await asyncio.gather(*beats)
        assert [response.is_fenced for response in responses] == [bool(epoch % 2) for epoch in range(500)]
        assert other.received == list(range(500))
        assert len(other.connections) == 1
        assert other.most_in_flight == REQUESTS_IN_FLIGHT_MAX
        channel.close()


def test_a_request_of_another_api_does_not_wait_behind_one_that_is_not_answered() -> None:
    event_loop.run(send_beside())


async def send_beside() -> None:
    async with other_node() as other:
        other.may_answer.clear()
        channel = new_channel()
        slow = asyncio.ensure_future(beat(channel, other, 1))
        await until(lambda: other.most_in_flight == 1)
        response = await channel.send(other.destination, UnregisterBrokerRequest(broker_id=7))
        assert response.error_code == 0
        assert not slow.done()
        assert len(other.connections) == 2
        channel.close()
        with pytest.raises(Unreachable, match="this node is stopping"):
            await slow
        with pytest.raises(Unreachable, match="this node is stopping"):
            await beat(channel, other, 2)


def test_a_timeout_ends_the_connection_and_all_requests_on_it() -> None:
    event_loop.run(time_out())


async def time_out() -> None:
    async with other_node() as other:
        other.may_answer.clear()
        channel = new_channel(timeout_ms=50)
        outcomes = await asyncio.gather(*(beat(channel, other, epoch) for epoch in range(3)), return_exceptions=True)
        assert all(isinstance(outcome, Unreachable) for outcome in outcomes)
        assert "no response within 0.05 s" in str(outcomes[0])
        other.may_answer.set()
        await beat(channel, other, 9)
        assert len(other.connections) == 2
        channel.close()


def test_a_cancelled_request_leaves_the_others_on_its_connection_alone() -> None:
    event_loop.run(cancel_one())


async def cancel_one() -> None:
    async with other_node() as other:
        other.may_answer.clear()
        channel = new_channel()
        beats = [asyncio.ensure_future(beat(channel, other, epoch)) for epoch in (1, 2, 4)]
        await until(lambda: other.most_in_flight == 3)
        beats[1].cancel()
        await until(beats[1].done)
        other.may_answer.set()
        assert [(await beats[0]).is_fenced, (await beats[2]).is_fenced] == [True, False]
        assert len(other.connections) == 1
        channel.close()


def test_a_connection_whose_requests_are_all_cancelled_is_closed() -> None:
    event_loop.run(cancel_all())


async def cancel_all() -> None:
    async with other_node() as other:
        other.may_answer.clear()
        channel = new_channel()
        beats = [asyncio.ensure_future(beat(channel, other, epoch)) for epoch in range(2 * REQUESTS_IN_FLIGHT_MAX)]
        await until(lambda: other.most_in_flight == REQUESTS_IN_FLIGHT_MAX)
        (connection,) = channel._connections.values()
        for each in beats:
            each.cancel()
        await until(lambda: connection.is_closed)
        other.may_answer.set()
        await beat(channel, other, 100)
        assert len(other.connections) == 2
        channel.close()


def test_closed_ports_and_invalid_host_names_are_unreachable() -> None:
    event_loop.run(send_to_unreachable_addresses())


async def send_to_unreachable_addresses() -> None:
    async with other_node() as other:
        address = other.destination
    channel = new_channel()
    for destination in (address, Destination(3, "a" * 70 + ".example", 1), Destination(4, "\udcff", 1)):
        with pytest.raises(Unreachable, match=f"node {destination.node_id} at"):
            await channel.send(destination, BrokerHeartbeatRequest(broker_id=1))
    channel.close()


def test_unreachable_nodes_leave_no_state() -> None:
    """Any client may name unreachable nodes with AddRaftVoter."""
    event_loop.run(send_to_unreachable_nodes())


async def send_to_unreachable_nodes() -> None:
    channel = new_channel()
    for number in range(5):
        with pytest.raises(Unreachable):
            await channel.send(Destination(number, "h" * 32_000, 9), BrokerHeartbeatRequest())
    assert not channel._connections
    channel.close()


def test_idle_connections_are_closed_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.server.network.outgoing.node_channel.CONNECTIONS_MAX", 2)
    event_loop.run(send_on_more_connections_than_are_kept())


async def send_on_more_connections_than_are_kept() -> None:
    async with other_node() as first, other_node() as second, other_node() as third:
        channel = new_channel()
        first.may_answer.clear()
        busy = asyncio.ensure_future(beat(channel, first, 1))
        await asyncio.sleep(0)
        for node in (second, third, second):
            await beat(channel, node, 2)
            assert len(channel._connections) == 2
        first.may_answer.set()
        assert (await busy).is_fenced
        assert [len(node.connections) for node in (first, second, third)] == [1, 2, 1]
        channel.close()


@pytest.mark.parametrize(("most", "is_read"), [(100, False), (1000, True)])
def test_a_response_above_the_size_limit_is_rejected(most: int, is_read: bool) -> None:
    async def main() -> None:
        async with other_node() as other:
            other.may_answer.set()
            channel = NodeChannel(client_id="test", software_version="1", timeout_ms=10_000, response_bytes_max=most)
            connection = channel._connection((other.destination.host, other.destination.port, int))
            connection._received += struct.pack(">i", 500) + b"x" * 500
            if is_read:
                assert connection._next_frame() == b"x" * 500
            else:
                with pytest.raises(ProtocolError, match="claims 500 bytes"):
                    connection._next_frame()
            channel.close()

    asyncio.run(main())


def test_a_connection_to_a_node_that_reads_no_more_ends_with_its_timeout() -> None:
    async def main() -> None:
        connected: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            cast("Any", writer.transport).pause_reading()
            connected.set_result(writer.transport)

        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        connection = NodeConnection(client_id="test", software_version="1")
        connection.open(host, port)
        await connected
        await until(lambda: connection._transport is not None)
        transport = connection._transport
        assert transport is not None
        transport.write(b"x" * 32 * 1024 * 1024)
        descriptor = connection._descriptor
        assert descriptor in forks._descriptors
        connection.close(TimeoutError())
        await until(lambda: descriptor not in forks._descriptors)
        connected.result().abort()
        server.close()
        await server.wait_closed()

    asyncio.run(main())


def test_a_fork_leaves_files_alone_that_got_the_number_of_a_socket(tmp_path: Path) -> None:
    program = """
import os, socket, sys
from kwire.server.network import forks
kept, gone = socket.socketpair()
forks.bound(kept.fileno())
forks.bound(gone.fileno())
number = gone.fileno()
gone.close()
file = open(sys.argv[1], "w")
assert file.fileno() == number
child = os.fork()
print(os.readlink(f"/proc/self/fd/{kept.fileno()}").partition(":")[0], file=file, flush=True)
if child:
    os.waitpid(child, 0)
"""
    path = tmp_path / "file"
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(path)], timeout=60, check=True)
    assert sorted(path.read_text().split()) == ["/dev/null", "socket"]
