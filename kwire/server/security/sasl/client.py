"""Logins of this node at other nodes, over the connections that it opens.

The credentials are the username and the password in the login module of the listener that the other nodes have: the
inter-broker listener, or the first of controller.listener.names. Kafka's nodes take them from the same place.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.repeated_messages import RepeatedMessages
from kwire.seams import Clock, Workers
from kwire.server.security.sasl.bearer_client import TokenSource
from kwire.server.security.sasl.jaas import LoginModule
from kwire.server.security.sasl.mechanism import GSSAPI, OAUTHBEARER, PLAIN, SERVED, AuthenticationError
from kwire.server.security.sasl.sasl_settings import jaas_key, read_module
from kwire.server.security.sasl.scram import MECHANISMS, ScramClient, new_nonce
from kwire.server.settings.setting_rules import RuleBrokenError

logger = logging.getLogger(__name__)

Ask = Callable[[Any], Awaitable[Any]]
"""Function that sends a request of a login and returns its response."""
MECHANISMS_OF_NODES: Final = tuple(mechanism for mechanism in SERVED if mechanism != GSSAPI)
"""Mechanisms by which a node can log in."""
SESSION_USED: Final = 0.85, 0.95
"""Part of a session's lifetime after which a node authenticates again, chosen at random as Kafka's clients do."""


class LoginError(ConnectionError):
    """Rejected login at another node; the message contains no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """User and password with which this node logs in; both are empty with OAUTHBEARER."""

    mechanism: str
    user: str
    password: str = field(repr=False)


def read_credentials(mechanism_key: str, mechanism: str, listener_name: str, texts: Mapping[str, str]) -> Credentials:
    """Return the credentials for nodes whose listener has this name. Raises RuleBrokenError.

    `mechanism_key` is the setting that names the mechanism; `texts` are the given settings with their prefixes.
    """
    if mechanism not in MECHANISMS_OF_NODES:
        raise RuleBrokenError(
            f"{mechanism_key}: {mechanism} is not served, and listener {listener_name} uses SASL; "
            f"use one of {','.join(MECHANISMS_OF_NODES)}"
        )
    if mechanism == OAUTHBEARER:
        return Credentials(mechanism=mechanism, user="", password="")
    module = read_module(listener_name, mechanism, texts)
    credentials = None if module is None else credentials_in(module, mechanism)
    if credentials is None:
        raise RuleBrokenError(
            f"{jaas_key(listener_name, mechanism)}: has no username and password, with which this node logs in at "
            "other nodes; add them"
        )
    return credentials


def credentials_in(module: LoginModule, mechanism: str) -> Credentials | None:
    """Return the user and the password that a login module contains; None if one of them is missing or empty."""
    user, password = (module.options.get(key, "") for key in ("username", "password"))
    return Credentials(mechanism=mechanism, user=user, password=password) if user and password else None


class NodeLogin:
    """Logins over any number of connections."""

    def __init__(
        self,
        credentials: Callable[[], Credentials],
        *,
        workers: Workers,
        clock: Clock,
        tokens: TokenSource | None = None,
    ) -> None:
        """`credentials` returns the current credentials, or raises RuleBrokenError.

        `tokens` has those of OAUTHBEARER; None if another mechanism was configured at start.
        """
        self._tokens = tokens
        self._credentials = credentials
        self._workers = workers
        self._messages = RepeatedMessages(logger, clock.monotonic_ms)

    async def log_in(self, ask: Ask, *, where: str) -> float | None:
        """Authenticate; return after how many seconds to do so again, None for never. Raises LoginError.

        `ask` sends a request over the connection to `where` and may raise other errors.
        """
        try:
            credentials = self._credentials()
            lifetime_ms = await self._exchange(credentials, ask)
        except RuleBrokenError as error:
            raise self._logged(where, f": {error}") from None
        except AuthenticationError as error:
            user = f" as {credentials.user}" if credentials.user else ""
            reason = f"{user} with SASL mechanism {credentials.mechanism}: {error.reason}"
            raise self._logged(where, reason) from None
        low, high = SESSION_USED
        part = low + (high - low) * secrets.randbelow(1000) / 1000
        return lifetime_ms * part / 1000 if lifetime_ms > 0 else None

    def _logged(self, where: str, why: str) -> LoginError:
        message = f"cannot log in at {where}{why}"
        self._messages.log(logging.WARNING, where, "%s", message)
        return LoginError(message)

    async def _exchange(self, credentials: Credentials, ask: Ask) -> int:
        """Return the lifetime of the session in milliseconds, 0 for no limit. Raises AuthenticationError."""
        shaken = await ask(SaslHandshakeRequest(mechanism=credentials.mechanism))
        if shaken.error_code != ErrorCode.NONE:
            raise AuthenticationError(f"error {shaken.error_code}; it enables {', '.join(shaken.mechanisms) or 'none'}")
        if credentials.mechanism == PLAIN:
            token = f"\0{credentials.user}\0{credentials.password}".encode()
            return (await _answer(ask, token))[1]
        if credentials.mechanism == OAUTHBEARER:
            return await self._show_token(ask)
        mechanism = MECHANISMS[credentials.mechanism]
        scram = ScramClient(mechanism, credentials.user, credentials.password, new_nonce())
        first, _ = await _answer(ask, scram.begin())
        final, lifetime_ms = await _answer(ask, await self._workers.run(lambda: scram.finish(first)))
        scram.verify(final)
        return lifetime_ms

    async def _show_token(self, ask: Ask) -> int:
        if self._tokens is None:
            raise AuthenticationError("it was not configured when this node started")
        token = await self._tokens.token()
        rejection, lifetime_ms = await _answer(ask, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        if rejection:
            self._tokens.reject(token)
            await _answer(ask, b"\x01")  # the standard's end of the exchange; the other node answers with its error
            raise AuthenticationError("the token was rejected")
        return lifetime_ms


async def _answer(ask: Ask, token: bytes) -> tuple[bytes, int]:
    """Return the other node's token, and the lifetime of the session. Raises AuthenticationError."""
    response = await ask(SaslAuthenticateRequest(auth_bytes=token))
    if response.error_code != ErrorCode.NONE:
        raise AuthenticationError(response.error_message or f"error {response.error_code}")
    return bytes(response.auth_bytes), response.session_lifetime_ms
