"""Logins of a node at another one, step by step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.seams import SystemClock
from kwire.server.security.sasl.client import Credentials, LoginError, NodeLogin
from kwire.server.security.sasl.mechanism import AuthenticationError, ServerMechanism
from tests.server.security.sasl.frames import ALL, SCRAM_PASSWORD, Sasl

T = TypeVar("T")
LIFETIME_MS = 100_000


class CountingWorkers:
    """Workers that count the calls, which run at once."""

    def __init__(self) -> None:
        self.calls = 0

    async def run(self, call: Callable[[], T]) -> T:
        self.calls += 1
        return call()

    def close(self) -> None:
        pass


class Peer:
    """Other node with a SASL listener."""

    def __init__(self, lie: Callable[[bytes], bytes] = lambda token: token) -> None:
        """`lie` changes the tokens that it sends."""
        self._sasl = Sasl().listener()
        self._lie = lie
        self._exchange: ServerMechanism | None = None

    async def ask(self, request: Any) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            self._exchange = self._sasl.begin(request.mechanism)
            return SaslHandshakeResponse(error_code=0 if self._exchange else 33, mechanisms=list(ALL))
        assert isinstance(request, SaslAuthenticateRequest)
        assert self._exchange is not None
        try:
            challenge = self._exchange.evaluate(bytes(request.auth_bytes))
        except AuthenticationError:
            return SaslAuthenticateResponse(error_code=58, error_message="no")
        assert challenge is not None
        return SaslAuthenticateResponse(auth_bytes=self._lie(challenge), session_lifetime_ms=LIFETIME_MS)


def log_in(peer: Peer, mechanism: str, password: str, workers: CountingWorkers | None = None) -> float | None:
    credentials = Credentials(mechanism=mechanism, user="alice", password=password)
    assert password not in repr(credentials)
    login = NodeLogin(lambda: credentials, workers=workers or CountingWorkers(), clock=SystemClock())
    return asyncio.run(login.log_in(peer.ask, where="other:9092"))


@pytest.mark.parametrize("mechanism", ALL)
def test_row_17_a_node_logs_in_and_derives_keys_in_a_worker(mechanism: str) -> None:
    workers = CountingWorkers()
    seconds = log_in(Peer(), mechanism, "y" if mechanism == "PLAIN" else SCRAM_PASSWORD, workers)
    assert seconds is not None
    assert 85 <= seconds <= 95, "it logs in again before its session ends"
    assert workers.calls == (0 if mechanism == "PLAIN" else 1)


@pytest.mark.parametrize(
    ("mechanism", "lie", "why"),
    [
        ("PLAIN", lambda token: token, "no"),
        ("GSSAPI", lambda token: token, "error 33; it enables PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("SCRAM-SHA-256", lambda token: token, "no"),
        ("SCRAM-SHA-256", lambda token: token.replace(b"i=4096", b"i=1"), "the server requests 1 iterations"),
        ("SCRAM-SHA-512", lambda token: b"v=AAAA", "the server's first message is malformed"),
    ],
)
def test_row_17_a_failed_login_is_logged_without_the_password(
    mechanism: str, lie: Callable[[bytes], bytes], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LoginError) as error:
        log_in(Peer(lie), mechanism, "Geheim")
    assert str(error.value).startswith(f"cannot log in at other:9092 as alice with SASL mechanism {mechanism}: {why}")
    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert line.getMessage() == str(error.value)
    assert "Geheim" not in line.getMessage()


def test_row_17_a_server_that_does_not_know_the_user_is_refused() -> None:
    def lie(token: bytes) -> bytes:
        return b"v=AAAA" if token.startswith(b"v=") else token

    with pytest.raises(LoginError, match="the server's signature is wrong"):
        log_in(Peer(lie), "SCRAM-SHA-256", SCRAM_PASSWORD)
