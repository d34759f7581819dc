"""Listeners with TLS: handshakes, versions, client certificates, limits, and large responses."""

from __future__ import annotations

import asyncio
import errno
import gc
import itertools
import socket
import ssl
import struct
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import NameOID

from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.server.network import connection_limits, handshakes
from kwire.server.network.handshakes import TlsAcceptor
from tests.server.connection_harness import ConnectionHarness
from tests.support.certificates import Authority, name_of, pem_settings
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, fetch, fetch_request, produce, unique, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

LISTENERS = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    settings = {
        **LISTENERS,
        **pem_settings(authority.issue(), authority, ssl_client_auth="requested"),
        "ssl.principal.mapping.rules": r"RULE:^CN=([a-z]+),O=Example$/$1/U,RULE:^CN=.*,O=Other$/other/",
    }
    with RunningBroker(tmp_path_factory.mktemp("tls"), settings) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker, authority: Authority) -> Iterator[RawClient]:
    with broker.client(tls=authority.client()) as connected:
        yield connected


def principals(broker: RunningBroker) -> set[str]:
    table = broker.server._listeners.table
    return broker.call(lambda: {connection.principal for connection in table.connections})


def is_served(client: RawClient) -> bool:
    return bool(client.ask(ApiVersionsRequest(), 0).error_code == 0)


def plain_socket(broker: RunningBroker) -> socket.socket:
    host, port = broker.bootstrap_server.split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def test_records_are_produced_and_fetched_over_tls(client: RawClient, broker: RunningBroker) -> None:
    topic = unique()
    assert client.ask(create_request(topic), 7).topics[0].error_code == 0
    assert produce(client, topic, batch(b"a", b"b")).error_code == 0
    assert values_in(fetch(client, topic).records) == [b"a", b"b"]


def test_a_large_produce_and_a_large_fetch_pass_over_tls_with_many_requests(
    client: RawClient, broker: RunningBroker
) -> None:
    topic = unique()
    client.ask(create_request(topic, max_message_bytes=8 << 20), 7)
    value = bytes(range(256)) * (4 << 12)
    for _ in range(4):
        assert produce(client, topic, batch(value)).error_code == 0
    found = values_in(fetch(client, topic, partition_max_bytes=1 << 30).records)  # as many as one response may have
    assert found == [value] * max(2, len(found))
    for _ in range(50):
        client.send(ApiVersionsRequest(), 0)
    assert [client.receive_frame()[4:6] for _ in range(50)] == [bytes(2)] * 50


def test_unread_responses_of_a_tls_client_are_bounded_and_counted(broker: RunningBroker, authority: Authority) -> None:
    """The transports below the connection hold only little of what the client does not read."""
    topic = unique()
    with (
        broker.client(tls=authority.client()) as client,
        broker.client(tls=authority.client(), receive_buffer=4096) as slow,
    ):
        client.ask(create_request(topic, max_message_bytes=8 << 20), 7)
        value = bytes(6 << 20)
        produce(client, topic, batch(value))
        fetch(slow, topic, partition_max_bytes=1)
        connection = broker.call(lambda: list(broker.server._listeners.table.connections)[-1])
        slow.send(fetch_all(topic), 12)
        eventually(lambda: broker.call(lambda: connection.unsent_bytes) > 1 << 20, "unsent bytes")
        eventually(lambda: not broker.call(lambda: connection._writable), "a paused connection")
        assert is_served(client)
        assert values_in(slow.receive(fetch_all(topic), 12).responses[0].partitions[0].records) == [value]
        eventually(lambda: broker.call(lambda: connection.unsent_bytes) == 0, "everything is sent")
        assert is_served(slow)


def fetch_all(topic: str) -> FetchRequest:
    return fetch_request(topic, partition_max_bytes=1 << 30)


# --- handshakes


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_row_11_tls_1_2_and_1_3_are_served(
    broker: RunningBroker, authority: Authority, version: ssl.TLSVersion
) -> None:
    context = authority.client()
    context.minimum_version = context.maximum_version = version
    with broker.client(tls=context) as client:
        assert is_served(client)
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.version() == version.name.replace("_", ".")
        assert client.socket.compression() is None


def test_row_11_older_versions_are_refused(broker: RunningBroker, authority: Authority) -> None:
    context = authority.client()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.deprecated_call():
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol|version"):
        broker.client(tls=context)


def test_row_11_plaintext_on_a_tls_port_is_closed_and_logged_once(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with RawClient(broker.bootstrap_server) as client:
            client.send(ApiVersionsRequest(), 0)
            assert ends(client.socket)
    eventually(lambda: broker.connection_count == 0, "no connections")
    assert caplog.text.count("failed: it sends no TLS") == 1


def test_row_11_renegotiation_and_compression_are_off(broker: RunningBroker) -> None:
    tls = broker.server._listeners.first._tls
    assert tls is not None
    assert tls.server_context.options & ssl.OP_NO_RENEGOTIATION
    assert tls.server_context.options & ssl.OP_NO_COMPRESSION


def ends(connection: socket.socket) -> bool:
    """Return True if the other side closes the connection, after bytes such as a TLS alert."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def test_row_11_a_handshake_has_a_time_limit(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_SECONDS", 0.05)
    with plain_socket(broker) as silent, plain_socket(broker) as half:
        half.sendall(bytes.fromhex("1603010100"))  # the beginning of a ClientHello
        assert ends(silent)
        assert ends(half)
    eventually(lambda: broker.call(lambda: broker.server._listeners.table.count) == 0, "no connections")


def first_message(authority: Authority) -> bytes:
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        authority.client().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


def test_row_11_one_handshake_begins_in_each_iteration_of_the_loop(
    broker: RunningBroker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients whose first messages arrive together do not block the others: each signature takes a millisecond."""
    iteration = itertools.count()
    begun: list[str] = []
    loop = broker.call(asyncio.get_running_loop)

    def count() -> None:
        next(iteration)
        if len(begun) < clients:
            loop.call_soon(count)

    class Protocol(handshakes.TlsProtocol):
        def __init__(self, *arguments: Any) -> None:
            begun.append(repr(iteration))
            super().__init__(*arguments)

    monkeypatch.setattr(handshakes, "TlsProtocol", Protocol)
    clients, hello = 30, first_message(authority)
    with ExitStack() as opened:
        sockets = [opened.enter_context(plain_socket(broker)) for _ in range(clients)]
        for each in sockets:
            each.sendall(hello[:-1])
        eventually(lambda: broker.call(lambda: broker.server._listeners.table.handshakes) == clients, "handshakes")
        assert begun == [], "no handshake begins before the first message is whole"
        broker.call(lambda: send_all(sockets, hello[-1:], count))
        eventually(lambda: len(begun) == clients, "the begin of all handshakes")
        assert all(each.recv(1) for each in sockets), "each client gets an answer"
    assert len(set(begun)) == clients


def send_all(sockets: list[socket.socket], data: bytes, then: Callable[[], None]) -> None:
    """Send from inside the broker's loop, so that everything has arrived when it looks next."""
    for each in sockets:
        each.sendall(data)
    then()


def test_a_client_that_ends_within_its_first_message_is_gone(broker: RunningBroker, authority: Authority) -> None:
    for size in (0, 3, 5, 100):
        with plain_socket(broker) as client:
            client.sendall(first_message(authority)[:size])
            client.shutdown(socket.SHUT_WR)
            assert b"" in (client.recv(100), client.recv(100)), "closed, perhaps after an alert"
    eventually(lambda: broker.call(lambda: broker.server._listeners.table.handshakes) == 0, "all handshakes to end")


def test_row_38_handshakes_count_as_connections_of_their_address(broker: RunningBroker, authority: Authority) -> None:
    table = broker.server._listeners.table
    with ExitStack() as stack:
        silent = [stack.enter_context(plain_socket(broker)) for _ in range(3)]
        eventually(lambda: broker.call(lambda: table.handshakes) == 3, "handshakes")
        assert broker.call(lambda: (table.per_host["127.0.0.1"], table.count)) == (3, 3)
        broker.call(lambda: setattr(broker.server._listeners.limits, "connections_max_per_ip", 3))
        try:
            with plain_socket(broker) as further:
                assert ends(further)
            silent[0].close()
            eventually(lambda: broker.call(lambda: table.handshakes) == 2, "one ends")
            with broker.client(tls=authority.client()) as client:
                assert is_served(client)
                assert broker.call(lambda: (table.per_host["127.0.0.1"], table.count)) == (3, 3)
        finally:
            broker.call(lambda: setattr(broker.server._listeners.limits, "connections_max_per_ip", 1 << 30))
    eventually(lambda: broker.call(lambda: (table.handshakes, len(table.per_host))) == (0, 0), "all end")


def test_row_12_unfinished_handshakes_are_limited_per_address_and_in_all(
    broker: RunningBroker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = broker.server._listeners.table
    monkeypatch.setattr(connection_limits, "HANDSHAKES_PER_HOST_MAX", 5)
    with ExitStack() as stack:
        silent = [stack.enter_context(plain_socket(broker)) for _ in range(5)]
        eventually(lambda: broker.call(lambda: table.handshakes) == 5, "handshakes")
        with plain_socket(broker) as further:
            assert ends(further)
        monkeypatch.setattr(connection_limits, "HANDSHAKES_PER_HOST_MAX", 100)
        monkeypatch.setattr(connection_limits, "HANDSHAKES_MAX", 5)
        with broker.client(tls=authority.client()) as client:  # in place of the oldest one
            assert is_served(client)
            assert ends(silent[0])
    eventually(lambda: broker.call(lambda: table.count) == 0, "all end")


# --- client certificates


@pytest.mark.parametrize(
    ("organization", "principal"), [("Example", "User:ALICE"), ("Other", "User:other")], ids=["rule 1", "rule 2"]
)
def test_row_36_a_client_certificate_leads_to_a_principal(
    broker: RunningBroker, authority: Authority, tmp_path: Path, organization: str, principal: str
) -> None:
    subject = name_of([(NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, "alice")])
    with broker.client(tls=authority.client(authority.issue(subject), tmp_path)) as client:
        assert is_served(client)
        assert principals(broker) == {principal}
    eventually(lambda: broker.connection_count == 0, "no connections")


def test_row_36_a_certificate_that_no_rule_matches_is_refused(
    broker: RunningBroker, authority: Authority, tmp_path: Path
) -> None:
    identity = authority.issue("nobody")
    with broker.client(tls=authority.client(identity, tmp_path)) as client, pytest.raises(OSError):
        client.ask(ApiVersionsRequest(), 0)


def test_row_36_a_client_without_certificate_is_anonymous(broker: RunningBroker, client: RawClient) -> None:
    assert is_served(client)
    assert principals(broker) == {"User:ANONYMOUS"}


def test_a_certificate_of_another_authority_is_refused(
    broker: RunningBroker, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority("Another authority").issue("stranger")
    with pytest.raises(OSError), broker.client(tls=authority.client(stranger, tmp_path)) as client:
        client.ask(ApiVersionsRequest(), 0)
    eventually(lambda: "the certificate is refused" in caplog.text, "a log line")


@pytest.mark.parametrize("days", [30, -1], ids=["no certificate", "expired"])
def test_client_certificates_are_required(authority: Authority, tmp_path: Path, days: int) -> None:
    settings = {**LISTENERS, **pem_settings(authority.issue(), authority, ssl_client_auth="required")}
    identity = authority.issue("expired", days=days) if days < 0 else None
    with RunningBroker(tmp_path / "data", settings) as broker:
        alert = "expired" if identity else "certificate required"
        for _ in range(3):  # the client learns why, whatever it does next
            with (
                broker.client(tls=authority.client(identity, tmp_path)) as client,
                pytest.raises(ssl.SSLError) as error,
            ):
                client.socket.recv(1)
            assert alert in str(error.value)
        with broker.client(tls=authority.client(authority.issue("valid"), tmp_path)) as client:
            assert is_served(client)
            assert principals(broker) == {"User:CN=valid"}


def test_a_listener_without_tls_serves_beside_one_with_tls(authority: Authority, tmp_path: Path) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL",
        **{f"listener.name.secure.{key}": value for key, value in pem_settings(authority.issue(), authority).items()},
    }
    with RunningBroker(tmp_path / "data", settings) as broker:
        ports = broker.server._listeners.ports()
        with broker.client() as plain, RawClient(f"127.0.0.1:{ports['SECURE']}", tls=authority.client()) as secure:
            assert is_served(plain)
            assert is_served(secure)
            assert secure.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) is not None


def test_a_size_that_is_too_large_closes_a_tls_connection(broker: RunningBroker, authority: Authority) -> None:
    with broker.client(tls=authority.client()) as client:
        client.send_bytes(struct.pack(">i", 2**31 - 1))
        assert ends(client.socket)


def test_a_stop_ends_the_retries_of_all_sockets() -> None:
    async def act() -> None:
        bound = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        tls: Any = None
        acceptor = TlsAcceptor(ConnectionHarness().listener, tls, bound)
        acceptor.start()
        for each in acceptor._sockets:
            acceptor._retry(each, OSError(errno.EMFILE, "no file descriptors"))
        retries = list(acceptor._retries.values())
        acceptor.stop()
        assert [retry.cancelled() for retry in retries] == [True, True]
        for each in bound:
            each.close()

    asyncio.run(act())


def test_a_closed_connection_needs_no_garbage_collection(broker: RunningBroker, authority: Authority) -> None:
    """Full collections leave out old objects: those of a connection that is a cycle would stay for hours."""
    table = broker.server._listeners.table

    def newest() -> weakref.ref[Any]:
        transport: Any = list(table.connections)[-1]._transport
        return weakref.ref(transport.get_extra_info("ssl_object"))

    gc.disable()
    try:
        with broker.client(tls=authority.client()) as client:
            assert is_served(client)
            of_connection = broker.call(newest)
            assert of_connection() is not None
        eventually(lambda: of_connection() is None, "the objects of the connection to be freed")
    finally:
        gc.enable()
