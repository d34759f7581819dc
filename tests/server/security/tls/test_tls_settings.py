"""Settings that start, or do not start, a node with TLS; connections to other nodes and their log lines."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kwire.cli import main
from kwire.cluster.channel import Destination, Unreachable
from kwire.cluster.configs.broker import default_settings
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.server.network.outgoing.node_channel import NodeChannel
from kwire.server.network.outgoing.security import OutgoingSecurity
from kwire.server.security.sasl.jaas import PLAIN_MODULE
from kwire.server.security.tls.listener_tls import ListenerTls, open_tls
from kwire.server.security.tls.tls_settings import ListenerRole, TlsRejected, TlsSettings, settings_of_listener
from kwire.server.settings.config import SettingError, make_config
from kwire.server.settings.security_protocols import SecurityProtocol
from tests.support.certificates import PASSWORD, Authority, Identity, pem_settings
from tests.support.running import RunningBroker

SECRET = "planted secret"
QUORUM = {"process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": "1@127.0.0.1:9"}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "ssl.keystore.location of listener SSL: is not set"),
        ({"ssl.keystore.location": "/missing", "ssl.keystore.password": SECRET}, "/missing cannot be read: No such"),
        ({"ssl.keystore.password": SECRET}, "ssl.keystore.password of listener SSL: needs ssl.keystore.location"),
        ({"ssl.keystore.key": SECRET, "ssl.keystore.type": "PEM"}, "ssl.keystore.key of listener SSL: needs"),
        ({"listener.name.ssl.ssl.client.auth": "maybe"}, "listener.name.ssl.ssl.client.auth: Invalid value maybe"),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth: Invalid value maybe"),
        ({"ssl.engine.factory.class": "org.example.Mine"}, "ssl.engine.factory.class"),
        ({"ssl.provider": "BC"}, "ssl.provider: is not served yet"),
        ({"ssl.keymanager.algorithm": "PKIX"}, "ssl.keymanager.algorithm: is not served yet"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "ssl.principal.mapping.rules of listener SSL: "),
    ],
    ids=lambda value: next(iter(value), "nothing") if isinstance(value, dict) else "",
)
def test_a_half_given_setting_stops_the_start_with_one_line(
    tmp_path: Path, settings: dict[str, str], expected: str
) -> None:
    with pytest.raises(SettingError) as refused:
        RunningBroker(tmp_path / "data", {"listeners": "SSL://127.0.0.1:0", **settings})
    message = str(refused.value)
    assert expected in message
    assert "\n" not in message
    assert SECRET not in message
    assert not (tmp_path / "data").exists(), "the start left the disk untouched"


def test_the_settings_of_a_node_show_no_secret() -> None:
    config = make_config({"ssl.keystore.password": SECRET, "listener.name.x.ssl.key.password": SECRET})
    assert SECRET not in repr(config)
    with pytest.raises(SettingError, match=r"ssl\.key\.password: its value has a NUL"):
        make_config({"ssl.key.password": f"{SECRET}\0"})


def test_settings_of_a_listener_are_in_force_and_not_logged_as_ignored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    make_config({"listener.name.plaintext.ssl.client.auth": "required"})
    assert "without effect" not in caplog.text
    assert "has no effect" not in caplog.text


@pytest.mark.parametrize("protocol", [SecurityProtocol.SSL, SecurityProtocol.SASL_SSL])
def test_client_auth_without_a_prefix_holds_for_ssl_alone(protocol: SecurityProtocol) -> None:
    """As in Apache Kafka: clients of SASL_SSL have a login, and are asked for a certificate only by their listener."""
    values = default_settings() | {"ssl.client.auth": "required"}
    own = {"listener.name.x.ssl.client.auth": "requested"}
    expected = "none" if protocol.uses_sasl else "required"
    assert settings_of_listener("X", protocol, {}, values).client_auth == expected
    assert settings_of_listener("X", protocol, own, values).client_auth == "requested"


def test_a_controller_is_not_plaintext_beside_a_listener_with_tls() -> None:
    """Kafka asks for an entry too, once any listener is named after another protocol."""
    settings = {
        **QUORUM,
        "controller.listener.names": "CONTROLLER",
        "listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:9",
        "inter.broker.listener.name": "SSL",
    }
    with pytest.raises(SettingError, match="has no entry for listener CONTROLLER; add it"):
        make_config(settings)
    mapped = make_config({**settings, "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT"})
    assert mapped.security_protocols["CONTROLLER"] is SecurityProtocol.PLAINTEXT


def test_an_expired_certificate_is_named_at_start(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    settings = pem_settings(authority.issue(days=-1), authority)
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    with RunningBroker(tmp_path / "data", {**listeners, **settings}):
        assert "the certificate of listener SSL has expired" in caplog.text


def test_a_certificate_that_has_expired_while_a_node_runs_can_be_replaced(authority: Authority) -> None:
    """Kafka needs a restart: the trust store does not verify the present certificate any more."""
    at_start = ListenerRole(name="SSL", is_bound=True, is_outgoing=True, uses_sasl=False, trusts_itself=False)
    brokers = dataclasses.replace(at_start, trusts_itself=True)

    def settings_with(identity: Identity) -> TlsSettings:
        values = default_settings() | pem_settings(identity, authority)
        return settings_of_listener("SSL", SecurityProtocol.SSL, {}, values)

    running = ListenerTls(brokers, open_tls(at_start, settings_with(authority.issue(days=-1))))
    renewed = authority.issue()
    replaced = running.open_next(settings_with(renewed), is_start=False)
    assert replaced.keys is not None
    assert replaced.keys.chain[0] == renewed.certificate
    running.replace(replaced)
    with pytest.raises(TlsRejected, match="certificate has expired"):
        running.open_next(settings_with(authority.issue(days=-1)), is_start=False)


@pytest.mark.parametrize("name", ["plaintxt", "PLAINTEXT"])
def test_settings_of_a_listener_that_is_not_there_are_named(caplog: pytest.LogCaptureFixture, name: str) -> None:
    make_config({f"listener.name.{name}.ssl.client.auth": "required"})
    assert f"listener.name.{name}.ssl.client.auth has no effect: no listener has the name" in caplog.text


# --- connections to other nodes


def outgoing(authority: Authority, **more: str) -> OutgoingSecurity:
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.pem, **more}
    role = ListenerRole(name="SSL", is_bound=False, is_outgoing=True, uses_sasl=False, trusts_itself=False)
    found = settings_of_listener("SSL", SecurityProtocol.SSL, {}, default_settings() | settings)
    return OutgoingSecurity("SSL", ListenerTls(role, open_tls(role, found)))


def ask(address: str, security: OutgoingSecurity, *, times: int = 1) -> Any:
    """Send a request to a broker as another node does. Raises Unreachable."""
    host, port = address.rsplit(":", 1)

    async def send() -> Any:
        channel = NodeChannel(client_id="node", software_version="1", timeout_ms=20_000, security=security)
        try:
            for _ in range(times - 1):
                with pytest.raises(Unreachable):
                    await channel.send(Destination(1, host, int(port)), DescribeClusterRequest())
            return await channel.send(Destination(1, host, int(port)), DescribeClusterRequest())
        finally:
            channel.close()

    return asyncio.run(send())


def running(directory: Path, authority: Authority, identity: Identity, **more: str) -> RunningBroker:
    return RunningBroker(directory, {"listeners": "SSL://127.0.0.1:0", **pem_settings(identity, authority, **more)})


def test_a_node_connects_to_another_one_by_tls(tmp_path: Path, authority: Authority) -> None:
    with running(tmp_path / "data", authority, authority.issue()) as broker:
        assert ask(broker.bootstrap_server, outgoing(authority)).error_code == 0


def test_a_node_refuses_another_host_unless_names_are_not_checked(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with running(tmp_path / "data", authority, authority.issue(hosts=["elsewhere"])) as broker:
        with pytest.raises(Unreachable, match="certificate"):
            ask(broker.bootstrap_server, outgoing(authority), times=3)
        assert caplog.text.count("on listener SSL failed: the certificate is refused: IP address mismatch") == 1
        free = outgoing(authority, **{"ssl.endpoint.identification.algorithm": ""})
        assert ask(broker.bootstrap_server, free).error_code == 0


def test_a_node_refuses_another_authority(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with running(tmp_path / "data", authority, authority.issue()) as broker:
        with pytest.raises(Unreachable):
            ask(broker.bootstrap_server, outgoing(Authority("Another")))
        assert "the certificate is refused: " in caplog.text


def test_a_node_with_tls_does_not_connect_to_a_plaintext_listener(tmp_path: Path, authority: Authority) -> None:
    with RunningBroker(tmp_path / "data") as broker, pytest.raises(Unreachable):
        ask(broker.bootstrap_server, outgoing(authority))


# --- resumed sessions


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_row_36_a_resumed_session_has_the_principal_of_its_certificate(
    tmp_path: Path, authority: Authority, version: ssl.TLSVersion
) -> None:
    with running(tmp_path / "data", authority, authority.issue(), ssl_client_auth="required") as broker:
        context = authority.client(authority.issue("resumed"), tmp_path)
        context.minimum_version = context.maximum_version = version
        with broker.client(tls=context) as first:
            assert first.ask(ApiVersionsRequest(), 0).error_code == 0
            assert isinstance(first.socket, ssl.SSLSocket)
            session = first.socket.session
        with broker.client() as second:
            second.socket = context.wrap_socket(second.socket, server_hostname="127.0.0.1", session=session)
            assert second.ask(ApiVersionsRequest(), 0).error_code == 0
            table = broker.server._listeners.table
            assert broker.call(lambda: {each.principal for each in table.connections}) == {"User:CN=resumed"}


# --- the command line


def test_the_status_of_a_cluster_with_tls_is_shown(tmp_path: Path, authority: Authority) -> None:
    config = tmp_path / "client.properties"
    trust = authority.jks_file(tmp_path / "trust.jks")
    with running(tmp_path / "data", authority, authority.issue()) as broker:

        def show(text: str) -> tuple[int, str]:
            config.write_text(text)
            arguments = ["cluster", "status", "--bootstrap-server", broker.bootstrap_server, "--timeout", "5"]
            result = CliRunner().invoke(main, [*arguments, "--command-config", str(config)])
            return result.exit_code, result.output

        good = f"security.protocol=SSL\nssl.truststore.location={trust}\nssl.truststore.password={PASSWORD}\n"
        status, output = show(good)
        assert (status, "1 leads epoch" in output) == (0, True), output
        status, output = show("security.protocol=SSL\n")
        assert status == 2
        assert "the TLS handshake failed: the certificate is refused" in output
        status, output = show(good.replace(PASSWORD, SECRET))
        assert (status, SECRET in output, "\n" in output.strip()) == (2, False, False)
        assert "ssl.truststore.password" in output
        for text, reason in (
            ("security.protocol=TLS", "security.protocol: TLS is unknown; use one of PLAINTEXT, SSL"),
            ("security.protocol=SASL_SSL", "sasl.mechanism: nothing is not served; use PLAIN or SCRAM-SHA-256"),
            ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.jaas.config: JAAS config property does not"),
            (
                f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN_MODULE} required;",
                "sasl.jaas.config: has no username and password; add them",
            ),
        ):
            status, output = show(text)
            assert (status, reason in output, "\n" in output.strip()) == (2, True, False), output
        config.unlink()
        result = CliRunner().invoke(main, ["cluster", "status", "--command-config", str(config)])
        assert "cannot be read: No such file" in result.output
