"""Listeners with SASL over TLS: every mechanism, certificates of both sides, limits before the login, three nodes."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.cli import main
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.server.network import unauthenticated
from kwire.server.security.sasl.jaas import SCRAM_MODULE
from tests.server.security.sasl.frames import ALL, RIGHT, settings_of
from tests.server.security.sasl.logins import alter, log_in, send, upsertion
from tests.server.security.sasl.tokens import OTHER_KEY, RSA_KEY, TEXTS, jwks, message, signed
from tests.server.security.tls.tls_cluster import TlsCluster, peers, replicate
from tests.support.certificates import Authority, pem_settings
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, fetch, produce, unique, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

MECHANISMS = (*ALL, "OAUTHBEARER")
RECEIVE_BYTES_MAX = 2000


def secured(authority: Authority, **others: str) -> dict[str, str]:
    """Return the settings of a broker with one SASL_SSL listener; underscores in `others` stand for dots."""
    given = settings_of(sasl_server_max_receive_size=str(RECEIVE_BYTES_MAX))
    given |= pem_settings(authority.issue(), authority, **others)
    return given | {"listener.security.protocol.map": "SASL:SASL_SSL,CONTROLLER:PLAINTEXT"}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory = tmp_path_factory.mktemp("sasl-ssl")
    keys = directory / "keys.json"
    keys.write_bytes(jwks(rsa=RSA_KEY))
    tokens = TEXTS | {"sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}
    tokens["sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
    # As in Apache Kafka, ssl.client.auth without the listener's name does not hold for SASL_SSL.
    with RunningBroker(directory / "data", secured(authority, ssl_client_auth="required") | tokens) as running:
        with running.client(tls=authority.client()) as admin:
            assert log_in(admin, "PLAIN", "admin", "x") == ""
            for mechanism in (1, 2):
                assert alter(admin, [upsertion("alice", "y", mechanism=mechanism)]) == {"alice": (0, None)}
        eventually(lambda: accepts_tokens(running, authority), "a login by a token, once the keys are read")
        yield running


def accepts_tokens(broker: RunningBroker, authority: Authority) -> bool:
    with broker.client(tls=authority.client()) as client:
        return login(client, "OAUTHBEARER") == ""


@pytest.fixture
def client(broker: RunningBroker, authority: Authority) -> Iterator[RawClient]:
    with broker.client(tls=authority.client()) as connected:
        yield connected


def login(client: RawClient, mechanism: str, password: str = "y") -> str:
    """Return the broker's error message for a login of alice; empty if alice is logged in."""
    if mechanism != "OAUTHBEARER":
        return log_in(client, mechanism, "alice", password)
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    token = message(signed() if password == "y" else signed(OTHER_KEY))
    answer = send(client, token)
    return str((send(client, b"\x01") if answer.auth_bytes else answer).error_message or "")


def principals(broker: RunningBroker) -> set[str]:
    return {each.principal for each in broker.call(lambda: list(broker.server._listeners.table.connections))}


def is_alone(broker: RunningBroker) -> None:
    """Wait until no connection of an earlier test is left."""
    eventually(lambda: broker.call(lambda: broker.server._listeners.table.count) == 0, "no connections")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in_over_tls_and_is_served(broker: RunningBroker, client: RawClient, mechanism: str) -> None:
    assert len(client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3).api_keys) > 50
    eventually(lambda: principals(broker) == {"User:ANONYMOUS"}, "one connection without a login")
    assert login(client, mechanism) == ""
    assert principals(broker) == {"User:alice"}
    topic, value = unique(), bytes(900_000)  # longer than a frame may be before the login
    assert client.ask(create_request(topic), 7).topics[0].error_code == 0
    assert produce(client, topic, batch(value)).error_code == 0
    assert values_in(fetch(client, topic).records) == [value]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_secret_is_answered_counted_and_closes_the_connection(
    broker: RunningBroker, client: RawClient, mechanism: str
) -> None:
    counts = broker.server._listeners.table.unauthenticated.audit.counts
    before = counts["SASL", mechanism, False]
    assert login(client, mechanism, "wrong").startswith("Authentication failed")
    assert client.is_closed()
    assert counts["SASL", mechanism, False] == before + 1


def test_plaintext_on_the_port_is_closed_and_reaches_no_login(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with broker.client() as client, pytest.raises(ConnectionError):
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        while client.socket.recv(1):  # the alert of TLS
            pass
        raise ConnectionError
    eventually(lambda: "it sends no TLS" in caplog.text, "the reason in the log")
    is_alone(broker)


# --- certificates


def test_an_expired_server_certificate_is_refused_by_clients(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = secured(authority) | pem_settings(authority.issue(days=-1), authority)
    settings |= {  # on the listener of brokers, it would stop the start
        "listeners": "SASL://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    with RunningBroker(tmp_path, settings) as broker:
        assert "the certificate of listener SASL has expired" in caplog.text
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            broker.client(tls=authority.client())


def test_client_certificates_are_required_by_the_setting_of_the_listener(authority: Authority, tmp_path: Path) -> None:
    own = {"listener.name.sasl.ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^matches-none$/x/"}
    with RunningBroker(tmp_path / "data", secured(authority, ssl_client_auth="none") | own) as broker:
        identities = None, authority.issue("expired", days=-1), Authority("Other").issue("stranger")
        for identity in identities:
            with pytest.raises(OSError), broker.client(tls=authority.client(identity, tmp_path)) as refused:
                log_in(refused, "PLAIN", "alice", "y")
        with broker.client(tls=authority.client(authority.issue("machine"), tmp_path)) as client:
            assert log_in(client, "PLAIN", "alice", "y") == ""
            eventually(lambda: principals(broker) == {"User:alice"}, "the principal of the login")


# --- limits before the login


def test_row_01_frames_are_limited_before_the_login_over_tls(broker: RunningBroker, authority: Authority) -> None:
    for size in (-1, RECEIVE_BYTES_MAX + 1, 2**31 - 1):
        with broker.client(tls=authority.client()) as client:
            client.send_bytes(size.to_bytes(4, "big", signed=True))
            assert client.is_closed()


def test_row_03_no_other_request_is_served_before_the_login_over_tls(broker: RunningBroker, client: RawClient) -> None:
    client.send(MetadataRequest(), 12)
    assert client.is_closed()


def test_row_12_a_login_over_tls_has_a_time_limit(
    broker: RunningBroker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unauthenticated, "SECONDS_MAX", 0.5)
    with broker.client(tls=authority.client()) as silent, broker.client(tls=authority.client()) as begun:
        assert begun.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        assert silent.is_closed()
        assert begun.is_closed()
    is_alone(broker)


def test_row_12_logins_over_tls_are_limited_by_address(
    broker: RunningBroker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_alone(broker)
    monkeypatch.setattr(unauthenticated, "PER_ADDRESS_MAX", 2)
    table = broker.server._listeners.table
    with ExitStack() as stack:
        clients = [stack.enter_context(broker.client(tls=authority.client())) for _ in range(2)]
        eventually(lambda: broker.call(lambda: len(table.unauthenticated)) == 2, "two without a login")
        with broker.client(tls=authority.client()) as further:
            assert further.is_closed()
        assert log_in(clients[0], "PLAIN", "alice", "y") == ""
        with broker.client(tls=authority.client()) as further:
            assert log_in(further, "PLAIN", "alice", "y") == ""
    is_alone(broker)
    assert broker.call(lambda: len(table.unauthenticated)) == 0


def test_connections_without_a_handshake_and_without_a_login_both_count(
    broker: RunningBroker, authority: Authority
) -> None:
    is_alone(broker)
    host, port = broker.bootstrap_server.split(":")
    table = broker.server._listeners.table
    with socket.create_connection((host, int(port))), broker.client(tls=authority.client()) as client:
        expected = (1, 1, 2)
        eventually(
            lambda: broker.call(lambda: (table.handshakes, len(table.unauthenticated), table.count)) == expected,
            "a handshake and a login",
        )
        assert log_in(client, "PLAIN", "alice", "y") == ""
        assert broker.call(lambda: len(table.unauthenticated)) == 0
    is_alone(broker)


def test_row_20_an_expired_session_is_closed_over_tls(authority: Authority, tmp_path: Path) -> None:
    with (
        RunningBroker(tmp_path, secured(authority, connections_max_reauth_ms="1")) as broker,
        broker.client(tls=authority.client()) as client,
    ):
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        assert send(client, RIGHT).session_lifetime_ms == 1
        loop = broker.server._listeners.first.now
        ends = broker.call(loop) + 0.01
        eventually(lambda: broker.call(loop) > ends, "the end of the session")
        client.send(MetadataRequest(), 12)
        assert client.is_closed()


# --- nodes


class SecuredCluster(TlsCluster):
    """Three nodes over SASL_SSL that have client certificates and log in by SCRAM."""

    protocol = "SASL_SSL"
    listener = "INTERNAL"
    users = ("--add-scram", "SCRAM-SHA-512=[name=node,password=node-secret]")

    def settings(self, node: int) -> dict[str, str]:
        jaas = f'{SCRAM_MODULE} required username="node" password="node-secret";'
        return super().settings(node) | {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
            "listener.name.internal.scram-sha-512.sasl.jaas.config": jaas,
            "listener.name.controller.scram-sha-512.sasl.jaas.config": jaas,
            "listener.name.internal.connections.max.reauth.ms": "2000",
            "listener.name.controller.connections.max.reauth.ms": "2000",
        }

    def client(self, node: int) -> RawClient:
        client = super().client(node)
        assert log_in(client, "SCRAM-SHA-512", "node", "node-secret") == ""
        return client


def test_three_nodes_replicate_over_sasl_ssl(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kwire.server.security")
    cluster = SecuredCluster(tmp_path)
    try:
        cluster.start()
        for node in cluster.nodes:
            with ExitStack() as stack:  # sessions are short
                clients = {each: stack.enter_context(cluster.client(each)) for each in cluster.nodes}
                replicate(cluster, clients, node, f"topic-{node}")
        again = "successful re-authentication of 'node' from 127.0.0.1 at listener "
        for listener in ("INTERNAL", "CONTROLLER"):
            eventually(lambda name=listener: again + name in caplog.text, f"a login at {listener} again")  # type: ignore[misc]
        for running in cluster.nodes.values():
            assert peers(running) <= {"User:node", "User:ANONYMOUS"}  # anonymous while a login is going on
            assert "User:node" in peers(running)
        assert "failed authentication" not in caplog.text
        assert "node-secret" not in caplog.text
        status, output = shown_status(cluster, tmp_path, "node-secret")
        assert (status, "leads epoch" in output) == (0, True), output
        status, output = shown_status(cluster, tmp_path, "other-secret")
        assert (status, "node-secret" in output, "other-secret" in output) == (2, False, False)
        assert "Authentication failed during authentication due to invalid credentials" in output
    finally:
        cluster.stop()


def shown_status(cluster: SecuredCluster, directory: Path, password: str) -> tuple[int, str]:
    """Return exit status and output of `kwire cluster status` as the user node."""
    identity = cluster.authority.issue("status").pem_file(directory / "status.pem")
    config = directory / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="node" password="{password}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={cluster.authority.pem_file(directory / 'ca.pem')}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={identity}\n"
    )
    arguments = ["cluster", "status", "--bootstrap-server", f"127.0.0.1:{cluster.ports[1]}"]
    ended = CliRunner().invoke(main, [*arguments, "--command-config", str(config)])
    return ended.exit_code, ended.output
