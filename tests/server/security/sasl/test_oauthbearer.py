"""OAUTHBEARER: right tokens, every kind of wrong one, the keys of the provider, and the settings."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.configs.broker import default_settings
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.seams import ThreadWorkers
from kwire.server.security.sasl import bearer_keys
from kwire.server.security.sasl.bearer_keys import BearerKeys, keys_of, read_content
from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.security.sasl.oauthbearer import (
    INVALID_TOKEN,
    BearerTokens,
    OAuthBearerServer,
    read_bearer_settings,
)
from kwire.server.settings.config import SettingError
from tests.server.connection_harness import play
from tests.server.security.sasl.frames import settings_of
from tests.server.security.sasl.logins import send
from tests.server.security.sasl.tokens import (
    EC_KEY,
    OTHER_KEY,
    RSA_KEY,
    SETTINGS,
    TEXTS,
    claims,
    jwks,
    message,
    signed,
)
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually
from tests.virtual_loop import VirtualLoop

VALUES = default_settings() | SETTINGS


class Keys(BearerKeys):
    """Keys that were read before."""

    def __init__(self) -> None:
        super().__init__("file:///x", ThreadWorkers(), refresh_ms=1, retry_ms=1, retry_ms_max=1)
        self._keys = keys_of(jwks(rsa=RSA_KEY, ec=EC_KEY))


def server(user_claim: str = "sub") -> OAuthBearerServer:
    settings = read_bearer_settings("X", {**VALUES, "sasl.oauthbearer.sub.claim.name": user_claim})
    return OAuthBearerServer(BearerTokens(settings, Keys(), lambda: int(time.time() * 1000)))


def reason_of(token: str | bytes) -> str:
    """Return why a token is rejected, after the client has confirmed it."""
    bearer = server()
    content = token if isinstance(token, bytes) else message(token)
    assert bearer.evaluate(content) == INVALID_TOKEN
    with pytest.raises(AuthenticationError) as error:
        bearer.evaluate(b"\x01")
    assert not bearer.is_complete
    assert bearer.user == ""
    assert error.value.told == "" or "authorization id" in error.value.told
    return error.value.reason


def test_row_19_right_tokens() -> None:
    now = int(time.time())
    for token in (
        signed(),
        signed(algorithm="PS512"),
        signed(EC_KEY, "ES256", "ec"),
        signed(key_id=None),
        signed(aud=["x", "other"]),
        signed(exp=now - 20),
        signed(nbf=now + 20),
    ):
        bearer = server()
        assert bearer.evaluate(message(token)) == b""
        assert (bearer.is_complete, bearer.user) == (True, "alice")
        assert bearer.lifetime_ms is not None
        assert 1 <= bearer.lifetime_ms <= 3_600_000
    bearer = server()
    assert bearer.evaluate(b"n,a=alice,\x01a=b\x01auth=bearer  " + signed().encode() + b"\x01c=d\x01\x01") == b""
    bearer = server(user_claim="user")
    assert bearer.evaluate(message(signed(user="bob"))) == b""
    assert bearer.user == "bob"


def forged(algorithm: Any, signature: Callable[[bytes], bytes]) -> str:
    """Return a token with a header and a signature of the test's own."""

    def part(content: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=")

    begun = part({"alg": algorithm, "kid": "rsa"}) + b"." + part(claims())
    return (begun + b"." + base64.urlsafe_b64encode(signature(begun)).rstrip(b"=")).decode()


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (signed(OTHER_KEY), "Signature verification failed"),
        (signed(key_id="unknown"), "no key"),
        (signed(EC_KEY, "ES256", "rsa"), "wrong key"),
        (signed(exp=int(time.time()) - 3600), "expired"),
        (signed(nbf=int(time.time()) + 3600), "not yet valid"),
        (signed(exp=None), "exp"),
        (signed(iat=None), "iat"),
        (signed(iss=None), "iss"),
        (signed(aud=None), "aud"),
        (signed(sub=None), "sub"),
        (signed(sub=""), "names no user"),
        (signed(sub=7), "names no user"),
        (signed(iss="https://other.example"), "issuer"),
        (signed(aud="elsewhere"), "Audience"),
        (signed(aud=[]), "aud"),
        (forged("none", lambda _: b""), "algorithm"),
        (forged("None", lambda _: b""), "algorithm"),
        (forged("HS256", lambda begun: b"x" * 32), "algorithm"),
        (forged("RS256", lambda _: b""), "Signature"),
        (forged("EdDSA", lambda _: b"x" * 64), ""),
        ("a.b.c", "malformed"),
        ("a", "malformed"),
        ("..", "malformed"),
        (forged(None, lambda _: b"x"), "algorithm"),
        (forged(["RS256"], lambda _: b"x"), "algorithm"),
        (forged({"a": 1}, lambda _: b"x"), "algorithm"),
        (signed(exp="9" * 5000), "rejected"),
        (signed(exp=1e400), ""),
    ],
)
def test_row_19_wrong_tokens(token: str, why: str) -> None:
    assert why in reason_of(token)


def test_row_19_the_authorization_id_is_the_user() -> None:
    assert "authorization id" in reason_of(message(signed(), "n,a=bob,"))


LONG = [
    b"n,,\x01" + b"auth=Bearer a\x01" * 30_000,
    b"n,,\x01" + b"a=b\x01" * 100_000 + b"auth=Bearer a\x01\x01",
    b"n,a=" + b"=2C" * 100_000 + b"\x01auth=Bearer a\x01\x01",
    message("a" * 70_000),
]
MALFORMED = [b"", b"\x01", b"n,,", b"n,,\x01\x01", b"y,,\x01auth=Bearer a\x01\x01", b"\xff", *LONG]


@pytest.mark.parametrize("content", MALFORMED)
def test_row_19_malformed_messages(content: bytes) -> None:
    with pytest.raises(AuthenticationError, match="malformed"):
        server().evaluate(content)


@given(st.one_of(st.binary(max_size=300), st.text(alphabet="abcXYZ019_-.=", max_size=300).map(message)))
def test_any_message_is_rejected_without_another_error(content: bytes) -> None:
    bearer = server()
    for token in (content, b"\x01"):
        with suppress(AuthenticationError):
            bearer.evaluate(token)
    assert not bearer.is_complete


@pytest.mark.parametrize("missing", SETTINGS)
def test_row_19_a_broker_needs_keys_issuer_and_audience(missing: str, tmp_path: Path) -> None:
    given_ = {
        name: value if isinstance(value, str) else value[0] for name, value in SETTINGS.items() if name != missing
    }
    values = settings_of(mechanisms=("OAUTHBEARER",)) | given_
    with pytest.raises(SettingError) as error:
        RunningBroker(tmp_path, values)
    assert (
        str(error.value) == f"{missing}: is missing for listener SASL with OAUTHBEARER; without it any token would do"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": 1}',
        b'{"keys": [1, {"kty": "oct", "k": "AAAA"}, {"kty": "RSA"}, {"kty": "EC", "crv": "x"}]}',
        b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "alg": "none"}]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_key_sets_without_public_keys(content: bytes) -> None:
    with pytest.raises(ValueError):
        keys_of(content)


def test_a_content_that_arrives_slowly_ends_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    drip = SimpleNamespace(read1=lambda count: b" ")
    with pytest.raises(TimeoutError, match="takes longer than 20 s"):
        read_content(drip)
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        read_content(SimpleNamespace(read1=bytes))


def test_keys_are_read_again_at_intervals_and_after_unknown_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    contents: list[bytes | None] = [None, None, jwks(rsa=RSA_KEY), jwks(other=OTHER_KEY), None, jwks(rsa=RSA_KEY)]
    read_at: list[float] = []

    async def act(loop: VirtualLoop) -> None:
        class Now:
            async def run(self, call: Callable[[], Any]) -> Any:
                return call()

            def close(self) -> None:
                pass

        def fetched(url: str) -> bytes:
            read_at.append(round(loop.time(), 1))
            content = contents.pop(0)
            if content is None:
                raise OSError("no answer")
            return content

        monkeypatch.setattr(bearer_keys, "_fetched", fetched)
        keys = BearerKeys("https://x", Now(), refresh_ms=3_600_000, retry_ms=100, retry_ms_max=10_000)
        running = asyncio.create_task(keys.run())
        await asyncio.sleep(1)
        assert len(keys.find("rsa")) == len(keys.find(None)) == 1
        await asyncio.sleep(20)
        assert len(read_at) == 3
        assert keys.find("other") == []
        await asyncio.sleep(0.1)
        assert len(keys.find("other")) == 1
        assert keys.find("rsa") == []
        await asyncio.sleep(10)
        assert len(keys.find("other")) == 1, "a failed read keeps the keys"
        await asyncio.sleep(1)
        assert len(keys.find("rsa")) == 1
        running.cancel()

    play(act)
    begun = read_at[0]
    assert [round(each - begun, 1) for each in read_at] == [0.0, 0.1, 0.3, 21.0, 31.0, 31.1]


def test_row_19_a_login_by_a_token_lasts_as_long_as_the_token(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(jwks(rsa=RSA_KEY))
    data = tmp_path / "data"
    values = settings_of(mechanisms=("OAUTHBEARER", "PLAIN")) | TEXTS
    values["sasl.oauthbearer.jwks.endpoint.url"] = keys.as_uri()

    def answer(client: RawClient, content: bytes) -> Any:
        assert client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
        return send(client, content)

    with RunningBroker(data, values) as broker:

        def logs_in() -> int:
            with broker.client() as client:
                return int(answer(client, message(signed())).session_lifetime_ms)

        assert 3_500_000 < eventually(logs_in, "a login, once the keys are read") <= 3_600_000
        with broker.client() as client:
            rejected = answer(client, message(signed(OTHER_KEY)))
            assert (rejected.error_code, rejected.auth_bytes) == (0, INVALID_TOKEN)
            ended = send(client, b"\x01")
            assert ended.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert ended.error_message.endswith("due to invalid credentials with SASL mechanism OAUTHBEARER")
            assert client.is_closed()
