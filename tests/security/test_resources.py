"""Resources that clients may take: connections, memory of slow readers, the event loop (RELIABILITY.md, 4.4)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kwire.chunks import CHUNK
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.seams import ThreadWorkers
from kwire.server.network import listener
from kwire.server.network.connection_limits import ConnectionLimits
from kwire.server.network.listener import SWEEP_SECONDS, sweep_connections
from kwire.server.settings.config import SettingError, make_config
from tests.server.connection_harness import ConnectionHarness, play
from tests.server.test_configs import BROKER, DELETE, SET, alter
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch_request, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually
from tests.virtual_loop import VirtualLoop

T = TypeVar("T")
VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
MIB = 1024 * 1024
TWO_LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:0,NODES://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "NODES",
}


def connect(broker: RunningBroker, name: str) -> RawClient:
    return RawClient(f"127.0.0.1:{broker.server._listeners.ports()[name]}")


def is_served(client: RawClient) -> bool:
    try:
        return bool(client.ask(VERSIONS, 3).error_code == 0)
    except ConnectionError:
        return False


# --- row 38


@pytest.fixture
def clients() -> Iterator[list[RawClient]]:
    opened: list[RawClient] = []
    yield opened
    for client in opened:
        client.close()


def test_row_38_clients_never_take_the_connections_of_nodes(tmp_path: Path, clients: list[RawClient]) -> None:
    """At max.connections clients make room for nodes, and for each other; no node makes room for a client."""
    with RunningBroker(tmp_path, TWO_LISTENERS | {"max.connections": "3"}) as broker:
        node = connect(broker, "NODES")
        clients.append(node)
        assert is_served(node)
        for _ in range(6):
            clients.append(connect(broker, "CLIENTS"))
            assert is_served(clients[-1])
        assert is_served(node), "the node was idle longest, and stays"
        others = [connect(broker, "NODES") for _ in range(2)]
        clients += others
        assert all(map(is_served, others))
        assert not is_served(clients[6]), "the client that was idle longest made room"
        full = [connect(broker, "NODES") for _ in range(3)]
        clients += full
        assert all(map(is_served, (node, *others, *full))), "nodes are served above the limit, too"
        eventually(lambda: broker.connection_count == 6, "no client to be left")
        late = connect(broker, "CLIENTS")
        clients.append(late)
        assert not is_served(late), "no node makes room for a client"


def test_row_38_a_listener_has_its_own_limit(tmp_path: Path, clients: list[RawClient]) -> None:
    settings = TWO_LISTENERS | {"listener.name.clients.max.connections": "2"}
    with RunningBroker(tmp_path, settings) as broker:
        clients += [connect(broker, "CLIENTS") for _ in range(3)]
        assert [is_served(client) for client in clients] == [True, True, False]
        clients.append(connect(broker, "NODES"))
        assert is_served(clients[-1]), "the other listener has no such limit"
        clients[0].close()
        eventually(lambda: broker.connection_count == 2, "a place to be free")
        clients.append(connect(broker, "CLIENTS"))
        assert is_served(clients[-1])


def test_row_38_the_limit_of_a_listener_changes_while_the_broker_runs(tmp_path: Path, clients: list[RawClient]) -> None:
    name = "listener.name.clients.max.connections"
    with RunningBroker(tmp_path, TWO_LISTENERS) as broker:
        clients.append(connect(broker, "CLIENTS"))
        assert alter(clients[0], BROKER, "", (name, SET, "1")) == ErrorCode.NONE
        clients.append(connect(broker, "CLIENTS"))
        assert not is_served(clients[1])
        assert alter(clients[0], BROKER, "", (name, SET, "many")) == ErrorCode.INVALID_REQUEST
        assert alter(clients[0], BROKER, "", (name, DELETE, None)) == ErrorCode.NONE
        clients.append(connect(broker, "CLIENTS"))
        assert is_served(clients[2])


def test_row_38_a_wrong_limit_of_a_listener_is_named() -> None:
    name = "listener.name.clients.max.connections"
    with pytest.raises(SettingError, match=f"^{name}: Invalid value many for configuration"):
        make_config(TWO_LISTENERS | {name: "many"})


def test_row_38_the_rate_of_a_listener_does_not_delay_nodes(tmp_path: Path, clients: list[RawClient]) -> None:
    """Rates of the broker and of the clients' listener delay clients alone."""
    for name in ("max.connection.creation.rate", "listener.name.clients.max.connection.creation.rate"):
        with RunningBroker(tmp_path / name, TWO_LISTENERS | {name: "1"}) as broker:
            burst = [connect(broker, "CLIENTS") for _ in range(4)]
            nodes = [connect(broker, "NODES") for _ in range(4)]
            clients += burst + nodes
            assert all(map(is_served, nodes))

            def delayed(running: RunningBroker = broker) -> int:
                connections = running.server._listeners.table.connections
                return running.call(lambda: sum("quota" in each._read_pauses for each in connections))

            assert delayed() >= 2, name


# --- row 39


def test_row_39_connections_are_idle_after_ten_minutes() -> None:
    assert make_config({}).parsed["connections.max.idle.ms"] == 600_000


def swept(harness: ConnectionHarness, idle_ms_max: int) -> asyncio.Task[None]:
    limits = ConnectionLimits(request_bytes_max=1, connections_max=1, connections_max_per_ip=1, idle_ms_max=idle_ms_max)
    harness.table.add(harness.connection)
    return asyncio.ensure_future(sweep_connections(harness.table, limits))


def test_row_39_an_idle_connection_is_closed() -> None:
    async def act(loop: VirtualLoop) -> None:
        harness = ConnectionHarness()
        task = swept(harness, 600_000)
        await asyncio.sleep(600 - SWEEP_SECONDS)
        assert harness.count_calls("close") == 0
        await asyncio.sleep(3 * SWEEP_SECONDS)
        assert harness.count_calls("close") == 1
        task.cancel()

    play(act)


def test_row_39_a_throttled_connection_counts_as_active_until_its_throttle_ends() -> None:
    async def act(loop: VirtualLoop) -> None:
        harness = ConnectionHarness()
        task = swept(harness, 600_000)
        await asyncio.sleep(590)
        harness.connection.mute(5000)
        await asyncio.sleep(590)
        assert harness.count_calls("close") == 0, "it has been idle for 585 seconds since the end of its throttle"
        await asyncio.sleep(20)
        assert harness.count_calls("close") == 1
        task.cancel()

    play(act)


# --- row 40


def test_row_40_a_client_that_reads_nothing_holds_one_response_and_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above 256 KiB of unsent bytes no further request of it is served or read, and after 30 s it is disconnected."""
    assert listener.STALLED_WRITE_SECONDS == 30.0
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        size = 400_000
        produce(client, topic, batch(bytes(size)))
        with broker.client(receive_buffer=4096) as reader:
            poll = fetch_request(topic)
            reader.send_bytes(b"".join(reader.frame(poll, 12) for _ in range(500)))
            table = broker.server._listeners.table

            def blocked() -> Any:
                blocked_now = [each for each in table.connections if each.blocked_output.since is not None]
                return blocked_now[0] if blocked_now else None

            connection = eventually(lambda: broker.call(blocked), "the output to be full")
            buffer_bytes = broker.server._listeners.limits.output_buffer_bytes
            assert buffer_bytes == 256 * 1024
            assert broker.call(lambda: connection.unsent_bytes) <= buffer_bytes + size + 1000
            assert broker.call(lambda: "output" in connection._read_pauses)
            monkeypatch.setattr(listener, "STALLED_WRITE_SECONDS", 0.5)
            eventually(lambda: broker.connection_count == 1, "the connection to be closed")
        eventually(lambda: broker.memory_used == 0, "its requests to be released")


# --- row 44: test_many_elements.py of tests/hostile; a Fetch is also bounded by its own max_bytes


def test_row_44_a_fetch_of_many_partitions_is_bounded_in_bytes(client: RawClient) -> None:
    """Each partition alone would fit into its own limit; together they are far above max_bytes."""
    topic, _ = create_topic(client, 20)
    for partition in range(20):
        produce(client, topic, batch(bytes(500_000)), partition=partition)
    request = fetch_request(topic, max_bytes=MIB, partition_max_bytes=MIB)
    (asked,) = request.topics[0].partitions
    request.topics[0].partitions = [
        type(asked)(partition=index % 20, fetch_offset=0, partition_max_bytes=MIB, current_leader_epoch=-1)
        for index in range(10_000)
    ]
    client.send_bytes(client.frame(request, 12))
    assert len(client.receive_frame()) < 2 * MIB


# --- row 49


class RecordingWorkers:
    """Workers that record the names of the functions that run in them."""

    def __init__(self) -> None:
        self._threads = ThreadWorkers()
        self.called: set[str] = set()

    async def run(self, call: Callable[[], T]) -> T:
        with suppress(AttributeError):
            self.called.add(getattr(call, "func", call).__name__)
        return await self._threads.run(call)

    def close(self) -> None:
        self._threads.close()


def test_row_49_large_batches_are_decompressed_and_compressed_off_the_loop(tmp_path: Path) -> None:
    workers = RecordingWorkers()
    with RunningBroker(tmp_path, workers=workers) as broker, broker.client() as client:
        topic, _ = create_topic(client, cleanup_policy="compact", compression_type="gzip")
        large = batch(*(bytes(10_000) for _ in range(300)), codec=Codec.ZSTD)
        assert produce(client, topic, large).error_code == ErrorCode.NONE
        assert {"_body", "pack"} <= workers.called


def test_row_49_a_sweep_of_many_connections_leaves_time_to_others() -> None:
    async def act(loop: VirtualLoop) -> None:
        harnesses = [ConnectionHarness() for _ in range(10 * CHUNK)]
        for harness in harnesses[1:]:
            harnesses[0].table.add(harness.connection)
        task = swept(harnesses[0], idle_ms_max=0)
        await asyncio.sleep(SWEEP_SECONDS)
        closed = [0]
        while closed[-1] < len(harnesses):
            await asyncio.sleep(0)
            closed.append(sum(harness.count_calls("close") for harness in harnesses))
        assert max(after - before for before, after in pairwise(closed)) <= CHUNK
        task.cancel()

    play(act)


def test_row_49_a_request_that_takes_long_leaves_time_to_others(broker: RunningBroker) -> None:
    """Requests of other clients are served while a list of 100,000 elements is decoded, handled and answered."""
    with broker.client() as hostile, broker.client() as other:
        body = struct.pack(">i", 99_000) + b"".join(struct.pack(">h", 6) + b"t%05d" % n for n in range(99_000))
        body += b"\0"  # no topic is created
        hostile.send_bytes(struct.pack(">i", 10 + len(body)) + struct.pack(">hhih", 3, 4, 1, -1) + body)
        served = 0
        hostile.socket.setblocking(False)

        def is_answered() -> bool:
            with suppress(BlockingIOError):
                assert hostile.socket.recv(1), "the connection is closed"
                return True
            return False

        while not is_answered():
            served += is_served(other)
        assert served > 5
