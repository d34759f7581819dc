"""The gate of a listener with SASL: delays, limits and the end of connections, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, cast

import pytest

from kwire.cluster.configs.settings import CurrentSettings, read_settings
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.server.network.connection import Connection
from kwire.server.network.connection_limits import ListenerSettings, limits_of
from kwire.server.network.flow.turns import Turns
from kwire.server.network.listener import ConnectionTable, Listener, sweep_connections
from kwire.server.network.memory.output_memory import OutputMemory
from kwire.server.network.memory.receive_buffer import ReceiveBuffer
from kwire.server.network.memory.request_memory import RequestMemory
from kwire.server.network.unauthenticated import PER_ADDRESS_MAX, SECONDS_MAX
from kwire.server.requests.authentication_gate import AuthenticationGate
from kwire.server.security.sasl import login_audit
from kwire.server.settings.config import make_config
from tests.server.connection_harness import Transport, play
from tests.server.security.sasl.frames import (
    RIGHT,
    WRONG,
    Sasl,
    framed,
    handshake,
    settings_of,
    token,
    token_answer,
    versions,
)
from tests.server.security.sasl.logins import log_in
from tests.server.test_client_quotas import alter, entry
from tests.support.raw_client import decoded, sized
from tests.support.running import RunningBroker
from tests.support.waiting import eventually
from tests.virtual_loop import VirtualLoop

RECEIVE_BYTES_MAX = 2000
METADATA = framed(MetadataRequest(), 12)
ANSWERED = [bytes(8) + b"\0\0 answered"]
"""Response of the dispatcher in these tests: one without an error code."""


class Client:
    """A connection of the gate's listener."""

    def __init__(self, gate: Gate, host: str) -> None:
        self._gate = gate
        self.transport = Transport((host, 99))
        self.connection = Connection(gate.listener)
        self.connection.connection_made(cast("Any", self.transport))

    def send(self, *frames: bytes) -> None:
        self.receive(b"".join(sized(frame) for frame in frames))

    def receive(self, data: bytes) -> None:
        buffer = self.connection.get_buffer(len(data))
        assert len(data) <= len(buffer)
        buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def log_in(self) -> None:
        self.send(handshake())
        self.send(token(RIGHT))

    def is_closed(self) -> bool:
        return "close" in self.transport.calls or "abort" in self.transport.calls

    def lose(self) -> None:
        self.connection.connection_lost(None)


class Gate:
    """A listener with SASL, in front of a dispatcher that answers everything."""

    def __init__(self, **others: str) -> None:
        values = {"sasl_server_max_receive_size": str(RECEIVE_BYTES_MAX), **others}
        sasl = Sasl(settings_of(**values))
        config = make_config(sasl.settings)
        self.served: list[tuple[str, bytes]] = []
        self.answer = ANSWERED
        self.table = ConnectionTable()
        self.limits = limits_of(read_settings(ListenerSettings, config.parsed))
        loop = asyncio.get_running_loop()
        self.listener = Listener(
            name="SASL",
            limits=self.limits,
            memory=RequestMemory(1 << 20),
            output=OutputMemory(1 << 20),
            turns=Turns(lambda: 0.0),
            table=self.table,
            receive_buffer=ReceiveBuffer(loop.call_soon),
            on_request_error=lambda error: pytest.fail(repr(error)),
            sasl_bytes_max=RECEIVE_BYTES_MAX,
        )
        gate = AuthenticationGate(
            sasl.listener(),
            self._serve,
            settings=CurrentSettings(config.parsed),
            limits=self.limits,
            unauthenticated=self.table.unauthenticated,
            now_ms=lambda: loop.time() * 1000,
        )
        self.listener.handle = gate.handle

    def _serve(self, connection: Connection, frame: bytes) -> Any:
        self.served.append((connection.principal, frame))
        return self.answer, 0

    def client(self, host: str = "10.0.0.1") -> Client:
        return Client(self, host)

    @property
    def failures(self) -> int:
        counts = self.table.unauthenticated.audit.counts
        return sum(count for (_, _, succeeded), count in counts.items() if not succeeded)


def test_requests_after_the_login_are_served_as_the_user() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        client = gate.client()
        client.send(versions())
        client.send(handshake(), token(RIGHT), METADATA, METADATA)  # all in one read
        await asyncio.sleep(0.1)
        assert gate.served == [("User:ANONYMOUS", versions()), ("User:alice", METADATA), ("User:alice", METADATA)]
        assert len(gate.table.unauthenticated) == 0
        assert not client.is_closed()

    play(act)


def test_row_01_frames_are_limited_before_the_login() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        for size in (-1, RECEIVE_BYTES_MAX + 1, 2**31 - 1):
            client = gate.client()
            client.receive(size.to_bytes(4, "big", signed=True))
            assert client.is_closed()
            assert client.transport.written == []
            client.lose()
        assert gate.failures == 3
        client = gate.client()
        client.log_in()
        long_frame = METADATA + bytes(RECEIVE_BYTES_MAX)
        client.send(long_frame)
        assert gate.served == [("User:alice", long_frame)]
        client.lose()

    play(act)


def test_row_02_a_slow_frame_takes_the_memory_of_what_has_arrived() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        client = gate.client()
        client.receive(RECEIVE_BYTES_MAX.to_bytes(4, "big") + b"\0")
        assert gate.listener.memory.used_bytes == 5
        client.lose()

    play(act)


def test_row_03_another_request_closes_the_connection_after_the_delay() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        client = gate.client()
        client.send(METADATA, METADATA)
        await asyncio.sleep(0.09)
        assert not client.is_closed()
        await asyncio.sleep(0.02)
        assert client.is_closed()
        assert client.transport.written == []
        assert gate.served == []
        assert gate.failures == 1

    play(act)


def test_row_07_a_failure_is_answered_after_the_delay_and_blocks_nobody() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate(connection_failed_authentication_delay_ms="3000")
        client, other = gate.client(), gate.client("10.0.0.2")
        client.send(handshake())
        await asyncio.sleep(0.01)
        client.transport.written.clear()
        client.send(token(WRONG), METADATA)
        await asyncio.sleep(2.9)
        assert client.transport.written == []
        other.log_in()
        other.send(METADATA)
        assert gate.served == [("User:alice", METADATA)]
        await asyncio.sleep(0.2)
        assert token_answer(client.transport.written).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()
        assert gate.served == [("User:alice", METADATA)]

    play(act)


def test_a_client_that_leaves_during_the_delay() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        client = gate.client()
        client.send(METADATA)
        client.lose()
        await asyncio.sleep(1)
        assert gate.listener.memory.used_bytes == 0
        assert len(gate.table.unauthenticated) == 0

    play(act)


def test_row_05_an_unsupported_api_versions_request_may_be_followed_by_another() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        gate.answer = [bytes(8) + ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")]
        client = gate.client()
        client.send(versions())
        client.send(versions())
        assert len(gate.served) == 2
        gate.answer = ANSWERED
        client.send(versions())
        client.send(versions())
        assert len(gate.served) == 3
        await asyncio.sleep(0.2)
        assert client.is_closed()

    play(act)


def test_row_05_api_versions_before_the_login(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, settings_of()) as broker, broker.client() as client:
        newer = client.header(ApiKey.API_VERSIONS, 99, flexible=False)
        client.send_bytes(sized(newer + b"\0"))
        answer = decoded(client.receive_frame(), ApiVersionsRequest(), 0)
        assert (answer.error_code, [each.api_key for each in answer.api_keys]) == (ErrorCode.UNSUPPORTED_VERSION, [18])
        bad = client.ask(ApiVersionsRequest(client_software_name="a b", client_software_version="1"), 3)
        assert bad.error_code == ErrorCode.INVALID_REQUEST
        good = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        assert (good.error_code, len(good.api_keys) > 50) == (0, True)
        client.send(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        assert client.is_closed()


def test_row_41_clients_without_a_login_do_not_slow_down_the_logins_of_others(tmp_path: Path) -> None:
    quota = entry((("user", None),), ("request_percentage", 0.001))
    anonymous = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    with RunningBroker(tmp_path, settings_of()) as broker, broker.client() as admin:
        assert log_in(admin, "PLAIN", "alice", "y") == ""
        assert alter(admin, quota) == [(0, "")]
        eventually(lambda: admin.ask(anonymous, 3).throttle_time_ms > 0, "the quota of a client with a login")
        for _ in range(20):
            with broker.client() as client:
                assert client.ask(anonymous, 3).throttle_time_ms == 0


def test_row_12_the_login_takes_30_seconds_at_most() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        sweeping = asyncio.create_task(sweep_connections(gate.table, gate.limits))
        client, other = gate.client(), gate.client()
        other.log_in()
        client.send(versions())
        await asyncio.sleep(SECONDS_MAX - 1)
        client.send(handshake())
        assert not client.is_closed()
        await asyncio.sleep(2.5)
        assert client.is_closed()
        assert not other.is_closed()
        assert gate.failures == 1
        sweeping.cancel()

    play(act)


def test_row_12_unauthenticated_connections_are_limited_by_address() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        clients = [gate.client() for _ in range(PER_ADDRESS_MAX + 1)]
        assert [client.is_closed() for client in clients] == [False] * PER_ADDRESS_MAX + [True]
        clients[-1].lose()
        assert not gate.client("10.0.0.2").is_closed()
        clients[0].log_in()
        assert not gate.client().is_closed()
        clients[1].lose()
        assert not gate.client().is_closed()
        assert gate.client().is_closed()

    play(act)


def test_row_12_unauthenticated_connections_are_limited_in_all() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate(max_connections="50")
        clients = [gate.client(f"10.0.0.{number}") for number in range(10)]
        assert not any(client.is_closed() for client in clients)
        assert gate.client("10.0.1.1").is_closed()
        for client in clients:
            client.log_in()
        assert not gate.client("10.0.1.1").is_closed()

    play(act)


def test_row_12_clients_do_not_take_the_logins_of_nodes() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate(max_connections="50")
        clients = [gate.client() for _ in range(11)]
        assert clients[-1].is_closed()
        gate.listener.excludes_clients = True
        nodes = [gate.client() for _ in range(PER_ADDRESS_MAX + 1)]
        assert [node.is_closed() for node in nodes] == [False] * PER_ADDRESS_MAX + [True]
        for each in (*clients, *nodes):
            each.lose()
        gate.listener.excludes_clients = False
        assert not gate.client().is_closed()

    play(act)


def test_row_20_an_expired_session_is_closed_by_its_next_request() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate(connections_max_reauth_ms="5000")
        client = gate.client()
        client.log_in()
        await asyncio.sleep(4)
        client.send(METADATA)
        client.log_in()
        await asyncio.sleep(4)
        client.send(METADATA)
        await asyncio.sleep(2)
        assert not client.is_closed()
        client.send(METADATA)
        assert client.is_closed()
        assert gate.served == [("User:alice", METADATA)] * 2

    play(act)


def test_row_22_failures_of_an_address_are_delayed_more_and_more() -> None:
    async def act(loop: VirtualLoop) -> None:
        gate = Gate()

        async def seconds(host: str) -> float:
            client, begun = gate.client(host), loop.time()
            client.send(handshake())
            client.send(token(WRONG))
            while not client.is_closed():
                await asyncio.sleep(0.01)
            client.lose()
            return round(loop.time() - begun, 1)

        taken = [await seconds("10.0.0.1") for _ in range(login_audit.FAILURES_WITHOUT_BACKOFF + 7)]
        assert taken[: login_audit.FAILURES_WITHOUT_BACKOFF] == [0.1] * login_audit.FAILURES_WITHOUT_BACKOFF
        assert taken[login_audit.FAILURES_WITHOUT_BACKOFF :] == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
        assert await seconds("10.0.0.2") == 0.1
        await asyncio.sleep(login_audit.FORGET_MS / 1000)
        assert await seconds("10.0.0.1") == 0.1
        assert gate.table.unauthenticated.audit.counts == {
            ("SASL", "PLAIN", False): login_audit.FAILURES_WITHOUT_BACKOFF + 9
        }

    play(act)


def test_row_22_logins_are_audited_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        for content in (b"\0alice\0y-secret", b"\0evil\r\nINFO \xc3\xa9\x1b[0m\0y-secret", b"\0alice\0y-secret"):
            client = gate.client(f"10.0.0.{len(content)}")
            client.send(handshake())
            client.send(token(content))
        gate.client().log_in()
        await asyncio.sleep(0.2)

    play(act)
    lines = [record for record in caplog.records if record.name == login_audit.__name__]
    said = [(record.levelname, record.getMessage()) for record in lines]
    reason = "at listener SASL with PLAIN: wrong user or password"
    assert said == [
        ("INFO", f"failed authentication of 'alice' from 10.0.0.15 {reason}"),
        ("INFO", f"failed authentication of 'evil\\r\\nINFO \\xe9\\x1b[0m' from 10.0.0.27 {reason}"),
        ("DEBUG", "successful authentication of 'alice' from 10.0.0.1 at listener SASL with PLAIN"),
    ]
    assert not any("secret" in record.getMessage() for record in caplog.records)


def test_row_22_closed_connections_of_an_address_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def act(loop: VirtualLoop) -> None:
        gate = Gate()
        for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
            client = gate.client(host)
            client.send(handshake())
            client.send(token(WRONG))
        gate.client("10.0.0.2").send(METADATA)
        await asyncio.sleep(0.2)

    play(act)
    closings = [record.getMessage() for record in caplog.records if "closing connection" in record.getMessage()]
    failed = "failed authentication: wrong user or password"
    assert closings == [f"closing connection from 10.0.0.{number}:99: {failed}" for number in (1, 2)]
