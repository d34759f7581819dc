"""Clients that use SASL or TLS on a plaintext listener: logged once, for any number of reconnects."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kwire import loop_monitor
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

SASL = (
    "a client at 127.0.0.1 asks for SASL mechanism PLAIN, but listener PLAINTEXT has no SASL: "
    "set its security.protocol=PLAINTEXT"
)
TLS = "a client at 127.0.0.1 speaks TLS, but listener PLAINTEXT is plaintext: set its security.protocol=PLAINTEXT"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings about clients; on a loaded machine the monitor of the event loop warns, too."""
    about_clients = [record for record in caplog.records if record.name != loop_monitor.__name__]
    return [record.getMessage() for record in about_clients if record.levelname == "WARNING"]


def test_a_sasl_client_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RunningBroker(tmp_path) as broker:
        for _ in range(20):
            with RawClient(broker.bootstrap_server) as client:
                answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert warnings(caplog) == [SASL]


def test_a_tls_client_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RunningBroker(tmp_path) as broker:
        context = ssl.create_default_context()
        for _ in range(20):
            with RawClient(broker.bootstrap_server) as client, pytest.raises((ssl.SSLError, OSError)):
                context.wrap_socket(client.socket, server_hostname="localhost")
        eventually(lambda: TLS in warnings(caplog), "the warning")
    assert warnings(caplog) == [TLS]
