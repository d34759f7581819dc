"""Tokens of a node: from a file or an endpoint, kept while they last; and logins of nodes with them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.configs.broker import default_settings
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.seams import SystemClock, ThreadWorkers
from kwire.server.security.sasl.bearer_client import TokenSource, read_token_settings
from kwire.server.security.sasl.client import Credentials, LoginError, NodeLogin
from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.security.sasl.node_logins import check_node_logins
from kwire.server.security.sasl.oauthbearer import INVALID_TOKEN
from kwire.server.settings.config import SettingError, make_config
from kwire.server.settings.setting_rules import RuleBrokenError
from tests.server.security.sasl.frames import settings_of
from tests.server.security.sasl.tokens import OTHER_KEY, RSA_KEY, TEXTS, jwks, signed
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = "sasl.oauthbearer.client.credentials.client."


class Provider(BaseHTTPRequestHandler):
    """Identity provider whose answers a test sets; it records the requests."""

    answers: list[tuple[int, bytes]] = []  # noqa: RUF012 set by provider()
    asked: list[tuple[str | None, bytes]] = []  # noqa: RUF012 set by provider()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.headers["Authorization"], body))
        status, content = self.answers.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def provider(*answers: tuple[int, bytes]) -> Iterator[str]:
    """Run a provider with these answers; yield its URL."""
    Provider.answers, Provider.asked = list(answers), []
    server = HTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def source(url: str, **others: str) -> TokenSource:
    given = {URL: url, CLIENT + "id": "no:de", CLIENT + "secret": "Geheim"}
    settings = read_token_settings("X", {**default_settings(), **given, **others})
    assert "Geheim" not in repr(settings)
    return TokenSource(settings, workers=ThreadWorkers(), clock=SystemClock())


def answer(token: str) -> tuple[int, bytes]:
    return 200, f'{{"access_token": "{token}", "token_type": "bearer"}}'.encode()


def test_a_token_of_an_endpoint_is_kept_while_it_lasts() -> None:
    first, second = signed(exp=int(time.time()) + 2), signed()

    async def act(tokens: TokenSource) -> None:
        assert await asyncio.gather(*(tokens.token() for _ in range(5))) == [first] * 5
        async with asyncio.timeout(20):
            while await tokens.token() == first:
                await asyncio.sleep(0.01)
        assert await tokens.token() == second

    with provider(answer(first), answer(second)) as url:
        asyncio.run(act(source(url, **{"sasl.oauthbearer.scope": "a b"})))
    assert Provider.asked == [("Basic bm8lM0FkZTpHZWhlaW0=", b"grant_type=client_credentials&scope=a+b")] * 2


@pytest.mark.parametrize(
    ("status", "content", "why"),
    [
        (401, b"Geheim", "HTTP Error 401"),
        (200, b"no", "Expecting value"),
        (200, b"[]", "no access_token"),
        (200, b'{"access_token": 7}', "no access_token"),
        (200, b'{"access_token": "a"}', "no signed JSON web token"),
        (200, b'{"access_token": "a.e30.c"}', "no expiry time"),
        (200, b'{"access_token": "a.!!!.c"}', ""),
    ],
)
def test_an_endpoint_without_a_usable_token(status: int, content: bytes, why: str) -> None:
    with provider((status, content)) as url, pytest.raises(AuthenticationError) as error:
        asyncio.run(source(url).token())
    assert error.value.reason.startswith(f"no token from {url}: ")
    assert why in error.value.reason
    assert "Geheim" not in error.value.reason


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match=r"token\.jwt"):
        asyncio.run(source((tmp_path / "token.jwt").as_uri()).token())


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({URL: None}, URL),
        ({URL: "ftp://x"}, URL),
        ({CLIENT + "id": None}, CLIENT + "id"),
        ({CLIENT + "secret": ""}, CLIENT + "secret"),
    ],
)
def test_incomplete_settings_are_named(changed: dict[str, str | None], key: str) -> None:
    given = {URL: "https://x/token", CLIENT + "id": "node", CLIENT + "secret": "Geheim", **changed}
    with pytest.raises(RuleBrokenError, match=f"^{key}: ") as error:
        read_token_settings("X", {**default_settings(), **given})
    assert "Geheim" not in str(error.value)
    values = {
        "process.roles": "broker",
        "node.id": "1",
        "controller.quorum.voters": "2@127.0.0.1:1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        **{name: value for name, value in given.items() if value is not None},
    }
    with pytest.raises(SettingError, match=f"^{key}: "):
        check_node_logins(make_config(values))


def test_row_19_a_node_logs_in_with_a_token(tmp_path: Path) -> None:
    keys, token = tmp_path / "keys.json", tmp_path / "token.jwt"
    keys.write_bytes(jwks(rsa=RSA_KEY))
    values = settings_of(mechanisms=("OAUTHBEARER", "PLAIN")) | TEXTS
    values["sasl.oauthbearer.jwks.endpoint.url"] = keys.as_uri()

    def log_in(broker: RunningBroker) -> float | None:
        async def main() -> float | None:
            login = NodeLogin(
                lambda: Credentials(mechanism="OAUTHBEARER", user="", password=""),
                workers=ThreadWorkers(),
                clock=SystemClock(),
                tokens=source(token.as_uri()),
            )
            with broker.client() as client:

                async def ask(request: Any) -> Any:
                    return client.ask(request, 1)

                return await login.log_in(ask, where="other:9092")

        return asyncio.run(main())

    def logs_in(broker: RunningBroker) -> bool:
        try:
            return log_in(broker) is not None
        except LoginError:
            return False

    with RunningBroker(tmp_path / "data", values) as broker:
        token.write_text(signed() + "\n")
        eventually(lambda: logs_in(broker), "a login, once the keys are read")
        token.write_text(signed(OTHER_KEY))
        with pytest.raises(LoginError, match=r"other:9092 with SASL mechanism OAUTHBEARER: Auth.* invalid"):
            log_in(broker)


def test_a_rejected_token_is_not_used_again() -> None:
    """The expiry time may be far away: the provider has revoked the token, or its keys are new."""
    revoked, renewed = signed(), signed(jti="renewed")
    shown: list[bytes] = []

    async def ask(request: Any) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["OAUTHBEARER"])
        shown.append(request.auth_bytes)
        if renewed.encode() in request.auth_bytes:
            return SaslAuthenticateResponse(session_lifetime_ms=1000)
        error = ErrorCode.SASL_AUTHENTICATION_FAILED if request.auth_bytes == b"\x01" else ErrorCode.NONE
        return SaslAuthenticateResponse(error_code=error, auth_bytes=INVALID_TOKEN)

    async def act(tokens: TokenSource) -> None:
        credentials = Credentials(mechanism="OAUTHBEARER", user="", password="")
        login = NodeLogin(lambda: credentials, workers=ThreadWorkers(), clock=SystemClock(), tokens=tokens)
        with pytest.raises(LoginError):
            await login.log_in(ask, where="other:9092")
        assert await login.log_in(ask, where="other:9092") is not None

    with provider(answer(revoked), answer(renewed)) as url:
        asyncio.run(act(source(url)))
    assert [revoked.encode() in shown[0], shown[1], renewed.encode() in shown[2]] == [True, b"\x01", True]
