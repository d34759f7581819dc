"""OAUTHBEARER on the server side (RFC 7628): signed JSON web tokens (RFC 7519) of an identity provider.

A token needs a signature by one of the provider's public keys, an issuer, an audience and a lifetime. Keys, issuer and
audience must be configured: a broker without them does not start. A rejected client receives an error in JSON and then
has to end the exchange itself, as the standard demands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from kwire.cluster.configs.settings import read_settings, setting
from kwire.server.security.sasl.bearer_keys import SCHEMES, BearerKeys
from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.security.sasl.plain import check_authorization_id
from kwire.server.security.sasl.scram import plain_name
from kwire.server.settings.setting_rules import RuleBrokenError

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Signature algorithms that a token may use: those with public keys."""
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""Longest message of a client, in bytes."""
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
_KEY: Final = "sasl.oauthbearer."
_HEADER: Final = re.compile(r"n,(?:a=(?P<authorization_id>(?:[^=,\0]|=2C|=3D)+))?,")
_TOKEN: Final = re.compile(r"[Bb]earer +(?P<token>[A-Za-z0-9_.\-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerSettings:
    """Settings of tokens at one listener."""

    keys_url: str | None = setting("sasl.oauthbearer.jwks.endpoint.url")
    refresh_ms: int = setting("sasl.oauthbearer.jwks.endpoint.refresh.ms")
    retry_ms: int = setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")
    retry_ms_max: int = setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")
    audiences: list[str] = setting("sasl.oauthbearer.expected.audience")
    issuer: str | None = setting("sasl.oauthbearer.expected.issuer")
    skew_seconds: int = setting("sasl.oauthbearer.clock.skew.seconds")
    user_claim: str = setting("sasl.oauthbearer.sub.claim.name")


def read_bearer_settings(listener_name: str, values: Mapping[str, Any]) -> BearerSettings:
    """Return the settings from a listener's values. Raises RuleBrokenError if any would be missing."""
    settings = read_settings(BearerSettings, values)
    for key, value in (
        ("jwks.endpoint.url", settings.keys_url),
        ("expected.issuer", settings.issuer),
        ("expected.audience", settings.audiences),
    ):
        if not value:
            raise RuleBrokenError(
                f"{_KEY}{key}: is missing for listener {listener_name} with OAUTHBEARER; without it any token would do"
            )
    if urlsplit(settings.keys_url or "").scheme not in SCHEMES:
        raise RuleBrokenError(f"{_KEY}jwks.endpoint.url: is no URL; use one of {', '.join(SCHEMES)}")
    return settings


class BearerTokens:
    """Verifier of the tokens of one listener."""

    def __init__(self, settings: BearerSettings, keys: BearerKeys, wall_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._keys = keys
        self._wall_ms = wall_ms

    def verify(self, token: str) -> tuple[str, float]:
        """Return the user of a token, and the milliseconds until it expires. Raises AuthenticationError."""
        import jwt  # noqa: PLC0415 see bearer_keys.keys_of

        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise AuthenticationError("the token is malformed") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise AuthenticationError("the token has no signature of an accepted algorithm")
        reason = "no key of the identity provider has the key id of the token"
        for key in self._keys.find(key_id if isinstance(key_id, str) else None):
            try:
                return self._accepted(self._claims(token, key.key, algorithm))
            except (jwt.PyJWTError, ArithmeticError, ValueError, TypeError, RecursionError) as error:
                reason = f"the token is rejected: {error}" if isinstance(error, jwt.PyJWTError) else "a wrong key"
        raise AuthenticationError(reason)

    def _claims(self, token: str, key: Any, algorithm: str) -> dict[str, Any]:
        import jwt  # noqa: PLC0415 see bearer_keys.keys_of

        settings = self._settings
        claims: dict[str, Any] = jwt.decode(
            token,
            key=key,
            algorithms=[algorithm],
            audience=settings.audiences,
            issuer=settings.issuer,
            leeway=settings.skew_seconds,
            options={"require": ["exp", "iat", "iss", "aud", settings.user_claim], "verify_sub": False},
        )
        return claims

    def _accepted(self, claims: Mapping[str, Any]) -> tuple[str, float]:
        user = claims[self._settings.user_claim]
        if not isinstance(user, str) or not user.strip():
            raise AuthenticationError("the token names no user")
        return user, max(1.0, int(claims["exp"]) * 1000 - self._wall_ms())


class OAuthBearerServer:
    """Exchange with one client: a token, or a rejected token and the client's end of the exchange."""

    def __init__(self, tokens: BearerTokens) -> None:
        self._tokens = tokens
        self._rejection: AuthenticationError | None = None
        self.user = ""
        self.is_complete = False
        self.lifetime_ms: float | None = None
        self.token_authenticated = False
        self.preparation = None

    def evaluate(self, token: bytes) -> bytes:
        """Return the empty challenge, or the error that the client has to confirm. Raises AuthenticationError."""
        if self._rejection is not None:
            raise self._rejection
        authorization_id, signed_token = _parsed(token)
        try:
            user, lifetime_ms = self._tokens.verify(signed_token)
            check_authorization_id(authorization_id, user)
        except AuthenticationError as error:
            self._rejection = error
            return INVALID_TOKEN
        self.user, self.lifetime_ms, self.is_complete = user, lifetime_ms, True
        return b""


def _parsed(message: bytes) -> tuple[str, str]:
    """Return the authorization id and the token of a client's first message. Raises AuthenticationError."""
    header, *pairs = message[: MESSAGE_BYTES_MAX + 1].decode(errors="replace").split("\x01")
    found = _HEADER.fullmatch(header)
    values = [text for key, _, text in (pair.partition("=") for pair in pairs) if key == "auth"]
    token = _TOKEN.fullmatch(values[0]) if len(values) == 1 else None
    if len(message) > MESSAGE_BYTES_MAX or found is None or token is None or pairs[-2:] != ["", ""]:
        raise AuthenticationError("the client's message is malformed")
    return plain_name(found["authorization_id"] or ""), token["token"]
