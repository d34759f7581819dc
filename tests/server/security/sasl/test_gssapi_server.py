"""GSSAPI on the server side, step by step and at a running broker, with a stand-in for the Kerberos library."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from kwire.protocol.messages.describe_acls import DescribeAclsRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.seams import ThreadWorkers
from kwire.server.security.sasl.gssapi_server import (
    CONTEXT_TOKENS_MAX,
    MESSAGE_BYTES_MAX,
    Exchange,
    GssapiServer,
    KerberosAcceptor,
)
from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.security.sasl.sasl_settings import read_sasl_settings
from kwire.server.settings.config import make_config
from tests.server.security.sasl.kerberos import OFFER, install, kerberos_settings, key_tab, module_of
from tests.server.security.sasl.logins import send
from tests.support.raw_client import RawClient, sized
from tests.support.running import RunningBroker

GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
OTHER_USER = "Authentication failed: Client requested an authorization id that is different from username"
ALICE = b"ticket:alice@EXAMPLE.COM"
NO_LAYER = b"wrapped:\x01\0\0\0"
EVERY_ENTRY = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    config = make_config(kerberos_settings(module_of(key_tab(tmp_path))))
    settings = read_sasl_settings("SASL", config.values, config.parsed).kerberos
    assert settings is not None
    return Exchange(KerberosAcceptor("SASL", settings), settings)


def test_a_client_that_authenticates_the_server_as_well(exchange: Exchange) -> None:
    assert exchange.evaluate(ALICE) == b"mutual"
    assert exchange.evaluate(b"") == OFFER
    assert (exchange.user, exchange.is_complete) == ("alice", False)
    assert exchange.evaluate(NO_LAYER) == b""
    assert exchange.is_complete


def test_without_an_answer_to_the_ticket_the_offer_comes_at_once(exchange: Exchange) -> None:
    assert exchange.evaluate(b"ticket-without-answer:kafka/client@EXAMPLE.COM") == OFFER
    assert exchange.evaluate(NO_LAYER) == b""
    assert (exchange.user, exchange.is_complete) == ("kafka", True)


@pytest.mark.parametrize("authorization_id", ["alice", "alice@EXAMPLE.COM", "kafka@broker"])
def test_an_authorization_id_that_names_the_client_or_the_service(exchange: Exchange, authorization_id: str) -> None:
    exchange.evaluate(ALICE)
    exchange.evaluate(b"")
    exchange.evaluate(NO_LAYER + authorization_id.encode())
    assert (exchange.user, exchange.is_complete) == ("alice", True)


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([b"junk"], "Kerberos rejects a message: 'A token was invalid'"),
        ([b"ticket:alice@OTHER.COM"], "no rule gives the principal 'alice@OTHER.COM' a user name"),
        ([b"ticket:a\n@OTHER.COM"], "no rule gives the principal 'a\\n@OTHER.COM' a user name"),
        ([bytes(MESSAGE_BYTES_MAX + 1)], "a message is too long"),
        ([b"more"] * CONTEXT_TOKENS_MAX, "the context is not established"),
        ([ALICE, b"x"], "a message instead of an empty one before the offer of layers"),
        ([ALICE, b"", b"\x01\0\0\0"], "Kerberos rejects a message: 'A token had an invalid MIC'"),
        ([ALICE, b"", b"wrapped:\x01\0\0"], "the client chooses a security layer that was not offered"),
        ([ALICE, b"", b"wrapped:\x02\0\0\0"], "the client chooses a security layer that was not offered"),
        ([ALICE, b"", b"wrapped:\x05\0\0\0"], "the client chooses a security layer that was not offered"),
        ([ALICE, b"", NO_LAYER + b"\xff"], "a principal or an authorization id is not UTF-8"),
        ([b"ticket:\xff@EXAMPLE.COM"], "a principal or an authorization id is not UTF-8"),
        ([ALICE, b"", NO_LAYER + b"admin"], "the authorization id is not the user"),
        ([ALICE, b"", NO_LAYER, b""], "a message after the end of the exchange"),
    ],
)
def test_an_exchange_is_refused(exchange: Exchange, tokens: list[bytes], reason: str) -> None:
    for token in tokens[:-1]:
        exchange.evaluate(token)
    with pytest.raises(AuthenticationError) as error:
        exchange.evaluate(tokens[-1])
    assert error.value.reason == reason
    assert error.value.told == (OTHER_USER if reason == "the authorization id is not the user" else "")


async def evaluated(server: GssapiServer, token: bytes) -> bytes:
    assert server.evaluate(token) is None
    assert server.preparation is not None
    await server.preparation()
    challenge = server.evaluate(token)
    assert challenge is not None
    return challenge


def test_row_49_a_worker_evaluates_each_token(exchange: Exchange) -> None:
    async def play() -> None:
        workers = ThreadWorkers(1)
        server = GssapiServer(exchange, workers)
        assert [await evaluated(server, token) for token in (ALICE, b"", NO_LAYER)] == [b"mutual", OFFER, b""]
        assert (server.user, server.is_complete, server.lifetime_ms) == ("alice", True, None)
        with pytest.raises(AuthenticationError):
            await evaluated(server, b"")
        workers.close()

    asyncio.run(play())


def begin(broker: RunningBroker, version: int = 1) -> RawClient:
    client = broker.client()
    shaken = client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), version)
    assert (shaken.error_code, shaken.mechanisms) == (0, ["GSSAPI"])
    return client


def test_a_client_is_served_after_its_login(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kwire.server.security.sasl.login_audit")
    others = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    module = module_of(key_tab(tmp_path))
    settings = kerberos_settings(module, **others) | {"super.users": "User:kafka"}
    with RunningBroker(tmp_path / "data", settings) as broker:
        for principal, code in ((b"kafka/client@EXAMPLE.COM", 0), (b"alice@EXAMPLE.COM", 31)):
            with begin(broker) as client:
                assert send(client, b"ticket:" + principal).auth_bytes == b"mutual"
                assert send(client, b"").auth_bytes == OFFER
                assert send(client, NO_LAYER).error_code == 0
                assert client.ask(EVERY_ENTRY, 3).error_code == code
        with begin(broker, version=0) as client:
            for token, answer in ((ALICE, b"mutual"), (b"", OFFER)):
                client.send_bytes(sized(token))
                assert client.receive_frame() == answer
            client.send_bytes(sized(NO_LAYER))  # a client expects no answer to its choice
            assert client.ask(EVERY_ENTRY, 3).error_code == 31
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if line.startswith("successful authentication of 'alice'")]


def test_row_07_every_failure_has_one_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kwire.server.security.sasl.login_audit")
    settings = kerberos_settings(module_of(key_tab(tmp_path)), connection_failed_authentication_delay_ms="0")
    with RunningBroker(tmp_path / "data", settings) as broker:
        for token in (b"junk", b"ticket:alice@OTHER.COM"):
            with begin(broker) as client:
                answer = send(client, token)
                assert (answer.error_code, answer.error_message) == (58, GENERIC)
                assert client.is_closed()
    assert "Kerberos rejects a message: 'A token was invalid'" in caplog.text
