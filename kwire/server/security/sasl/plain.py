"""PLAIN on the server side (RFC 4616): the users and passwords of a JAAS login module."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from kwire.server.security.sasl.mechanism import AuthenticationError

USER_PREFIX: Final = "user_"
"""Prefix of an option of the login module: user_NAME="password"."""
_KEY: Final = secrets.token_bytes(32)
"""Passwords are compared by their digests under this key: the time does not depend on their lengths."""


class PlainServer:
    """Exchange with one client: a token with authorization id, user and password."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options` are those of the login module."""
        self._options = options
        self.user = ""
        self.is_complete = False
        self.lifetime_ms: float | None = None
        self.token_authenticated = False
        self.preparation = None

    def evaluate(self, token: bytes) -> bytes:
        """Return the empty challenge if the password is right. Raises AuthenticationError."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationError("the token is not UTF-8") from None
        if len(parts) != 3:
            raise AuthenticationError(f"the token has {len(parts)} parts instead of 3")
        authorization_id, self.user, password = parts
        expected = self._options.get(USER_PREFIX + self.user)
        is_equal = hmac.compare_digest(_digest(password), _digest(expected or ""))
        if not (is_equal and expected and self.user):
            raise AuthenticationError("wrong user or password")
        check_authorization_id(authorization_id, self.user)
        self.is_complete = True
        return b""


def check_authorization_id(authorization_id: str, user: str) -> None:
    """Raise AuthenticationError if a client wants to act as another user."""
    if authorization_id not in ("", user):
        raise AuthenticationError(
            "the authorization id is not the user",
            told="Authentication failed: Client requested an authorization id that is different from username",
        )


def _digest(password: str) -> bytes:
    return hmac.digest(_KEY, password.encode(), "sha256")
