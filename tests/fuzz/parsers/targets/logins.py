"""Targets of SASL: messages of each mechanism, tokens, key sets and login modules."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, Final, cast

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.formatting.initial_scram import InvalidScramError, parse_scram
from kwire.cluster.metadata.scram import ScramMechanism
from kwire.server.security.sasl import bearer_client
from kwire.server.security.sasl.bearer_keys import keys_of
from kwire.server.security.sasl.jaas import PLAIN_MODULE, JaasError, parse_jaas
from kwire.server.security.sasl.mechanism import AuthenticationError, ServerMechanism
from kwire.server.security.sasl.oauthbearer import BearerTokens, OAuthBearerServer, read_bearer_settings
from kwire.server.security.sasl.plain import PlainServer
from kwire.server.security.sasl.scram import ScramClient, ScramServer, UnknownUsers
from tests.fuzz.parsers.target import Target
from tests.log.support import FixedChance
from tests.server.security.sasl.frames import SCRAM_PASSWORD, token_logins, user_with
from tests.server.security.sasl.tokens import AUDIENCE, ISSUER, SETTINGS, message

_USER: Final = user_with()
_NONCE: Final = "client-nonce"
_SEPARATOR: Final = b"\0"
"""Byte between the messages of one exchange; no message contains it."""


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# --- PLAIN and SCRAM


def _exchange(server: ServerMechanism, messages: list[bytes], users: frozenset[str]) -> None:
    for each in messages:
        server.evaluate(each)
    assert not server.is_complete or server.user in users, f"{server.user!r} is logged in"


def _read_plain(data: bytes) -> None:
    _exchange(PlainServer({"user_alice": "secret"}), [data], frozenset({"alice"} if b"secret" in data else ()))


def _scram_server() -> ScramServer:
    users = cast("Any", SimpleNamespace(scram={"alice": _USER}, delegation_tokens={}))
    return ScramServer(ScramMechanism.SCRAM_SHA_256, lambda: users, UnknownUsers(), token_logins(), lambda: "server")


def _read_scram(data: bytes) -> None:
    _exchange(_scram_server(), data.split(_SEPARATOR), frozenset({"alice"}))


def _scram_seeds() -> list[bytes]:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", SCRAM_PASSWORD, _NONCE)
    first = client.begin()
    final = client.finish(_scram_server().evaluate(first))
    others = (b"n,a=alice,n=alice,r=abc", b"n,,n=a=2Cb,r=abc,x=y", b"y,,n=alice,r=abc", b"n,,n=bob,r=a,tokenauth=true")
    return [first + _SEPARATOR + final, first, *others]


def _read_server_messages(data: bytes) -> None:
    """Let a node log in at a server with these two messages."""
    first, _, final = data.partition(_SEPARATOR)
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", SCRAM_PASSWORD, _NONCE)
    client.begin()
    client.finish(first)
    client.verify(final)


def _server_seeds() -> list[bytes]:
    server = _scram_server()
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", SCRAM_PASSWORD, _NONCE)
    first = server.evaluate(client.begin())
    final = server.evaluate(client.finish(first))
    return [first + _SEPARATOR + final, first, b"r=client-nonceX,s=c2FsdA==,i=999999999\0v="]


# --- tokens

_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
"""Fixed key, whose signatures are always the same: kept inputs stay valid."""
_KEY_SET: Final = json.dumps({"keys": [{**json.loads(OKPAlgorithm.to_jwk(_KEY.public_key())), "kid": "a"}]}).encode()
_CLAIMS: Final = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": 1_700_000_000, "exp": 4_000_000_000}


class _Keys:
    """Keys of a provider, read before."""

    def __init__(self) -> None:
        self._keys = keys_of(_KEY_SET)

    def find(self, key_id: str | None) -> list[Any]:
        return [key for key in self._keys if key_id in (None, key.key_id)]


_TOKENS: Final = BearerTokens(
    read_bearer_settings("sasl", default_settings() | SETTINGS), cast("Any", _Keys()), lambda: 0
)


def _signed(payload: bytes) -> str:
    return jwt.PyJWS().encode(payload, _KEY, algorithm="EdDSA", headers={"kid": "a"})


def _read_bearer(data: bytes) -> None:
    _exchange(OAuthBearerServer(_TOKENS), [data], frozenset({"alice"}))


def _bearer_seeds() -> list[bytes]:
    token = _signed(json.dumps(_CLAIMS).encode())
    return [message(token), message(token, header="n,a=alice,"), message(token, header="n,a=bob,"), message("a.b.c")]


def _read_token(data: bytes) -> None:
    _TOKENS.verify(text_of(data))


def _read_claims(data: bytes) -> None:
    """Verify a token with these claims and a right signature, as a careless provider may issue."""
    user, lifetime_ms = _TOKENS.verify(_signed(data))
    assert user.strip()
    assert lifetime_ms >= 1


def _claims_seeds() -> list[bytes]:
    changes: list[dict[str, Any]] = [
        {},
        {"exp": 1},
        {"exp": 1e300},
        {"exp": "4000000000"},
        {"iat": 5e9},
        {"nbf": 5e9},
        {"aud": ["x", AUDIENCE]},
        {"aud": {"x": 1}},
        {"iss": [ISSUER]},
        {"sub": 7},
        {"sub": ""},
    ]
    return [json.dumps(_CLAIMS | each).encode() for each in changes]


def _key_set_seeds() -> list[bytes]:
    rsa = {"kty": "RSA", "kid": "r", "use": "sig", "n": "u1W8", "e": "AQAB"}
    curve = {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"}
    return [_KEY_SET, *(json.dumps({"keys": [each]}).encode() for each in (rsa, curve, {"kty": "oct", "k": "AAAA"}, 7))]


def _read_expiry(data: bytes) -> None:
    bearer_client._expiry_ms(text_of(data))


# --- texts of operators


def _jaas_seeds() -> list[bytes]:
    texts = (
        f'{PLAIN_MODULE} required username="admin" password="a\\"b" user_admin=\'x\';',
        "org.Module optional a=b /* c */ d=e; // end",
        'M sufficient a="\\101\\t\\q";',
        "A required; B required;",
    )
    return [text.encode() for text in texts]


def _scram_argument_seeds() -> list[bytes]:
    texts = (
        "SCRAM-SHA-256=[name=alice,iterations=4096,password=secret]",
        'SCRAM-SHA-512=[name="alice",salt="c2FsdA==",saltedpassword="AAAA"]',
        "SCRAM-SHA-256=[name=a,iterations=+00000004096,salt=,password=x,,]",
    )
    return [text.encode() for text in texts]


LOGINS: Final = [
    Target("plain", _read_plain, (AuthenticationError,), lambda: [b"\0alice\0secret", b"bob\0alice\0secret", b"\0\0"]),
    Target("scram", _read_scram, (AuthenticationError,), _scram_seeds),
    Target("scram server", _read_server_messages, (AuthenticationError,), _server_seeds),
    Target("oauthbearer", _read_bearer, (AuthenticationError,), _bearer_seeds),
    Target("token", _read_token, (AuthenticationError,), lambda: [_signed(each).encode() for each in _claims_seeds()]),
    Target("claims", _read_claims, (AuthenticationError,), _claims_seeds),
    Target("key set", keys_of, (ValueError,), _key_set_seeds),
    Target(
        "own token",
        _read_expiry,
        (ValueError, ArithmeticError, RecursionError),  # those that its only caller expects
        lambda: [_signed(each).encode() for each in _claims_seeds()],
    ),
    Target("jaas", lambda data: parse_jaas(text_of(data)), (JaasError,), _jaas_seeds),
    Target(
        "add-scram",
        lambda data: parse_scram([text_of(data)], FixedChance()),
        (InvalidScramError,),
        _scram_argument_seeds,
    ),
]
