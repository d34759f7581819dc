"""GSSAPI on the server side: Kerberos without a security layer (RFC 4752).

The client's tokens establish a context. Then the server offers its security layers, wrapped: only "none". The client
returns its choice and, optionally, an authorization id, wrapped as well. The user is the client's principal, mapped by
rules; an authorization id never chooses another one.

Every call of the Kerberos library may read the key tab or write the replay cache, so each token is evaluated in a
worker. The package gssapi is the extra `kerberos`; it is imported only if a listener enables GSSAPI.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kwire.seams import Workers
from kwire.server.security.sasl.kerberos_settings import KerberosSettings, check_key_tab
from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.security.sasl.plain import check_authorization_id
from kwire.server.settings.setting_rules import RuleBrokenError

MESSAGE_BYTES_MAX: Final = 64 * 1024
"""Longest message of a client, in bytes. A ticket of Active Directory has at most 65,535."""
CONTEXT_TOKENS_MAX: Final = 4
"""Most tokens by which a client establishes its context; Kerberos needs one."""
LAYER_NONE: Final = 1
"""Bit of "no security layer" in an offer and in a choice."""
OFFER: Final = bytes([LAYER_NONE, 0, 0, 0])
"""No security layer, and so messages of size 0."""
CHOICE_BYTES: Final = 4
"""Bytes before the authorization id: the chosen layer, and the client's largest message."""
REASON_CHARACTERS_MAX: Final = 300


class KerberosAcceptor:
    """Keys of this node at one listener, with which it accepts clients.

    The library reads the key tab at each login: a file with new keys needs no restart.
    """

    def __init__(self, listener_name: str, settings: KerberosSettings) -> None:
        """Find the principal's keys. Raises RuleBrokenError, also if the extra is not installed."""
        self.gssapi: Final = _imported(listener_name)
        check_key_tab(settings)
        gssapi = self.gssapi
        try:
            name = gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal)
            self.credentials: Final = gssapi.Credentials(
                name=name,
                mechs=[gssapi.MechType.kerberos],
                usage="accept",
                store={"keytab": f"FILE:{settings.key_tab}"},
            )
            default = gssapi.Name("none", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
        except gssapi.exceptions.GSSError as error:
            raise RuleBrokenError(
                f"{settings.module_key}: {settings.principal} cannot be used with {settings.key_tab}: {_text(error)}"
            ) from None
        self.default_realm: Final = str(default).rpartition("@")[2]

    def new_context(self) -> Any:
        """Return a context that no token has established yet."""
        context = self.gssapi.SecurityContext(creds=self.credentials, usage="accept")
        context.__DEFER_STEP_ERRORS__ = False  # a failure is raised, and no token about it goes to the client
        return context


def _imported(listener_name: str) -> Any:
    try:
        import gssapi  # noqa: PLC0415 an optional package
    except ImportError:
        raise RuleBrokenError(
            f"sasl.enabled.mechanisms: GSSAPI on listener {listener_name} needs the extra kerberos; "
            "install it: pip install 'kwire[kerberos]'"
        ) from None
    return gssapi


class Exchange:
    """Exchange with one client. `evaluate` may wait for a disk: it is called in a worker, once at a time."""

    def __init__(self, acceptor: KerberosAcceptor, settings: KerberosSettings) -> None:
        """`settings` are the current ones; the keys are those of the acceptor."""
        self._acceptor = acceptor
        self._settings = settings
        self._context = acceptor.new_context()
        self._evaluate = self._establish
        self._tokens = 0
        self._principal = ""
        self.user = ""
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        """Return the challenge for a client's token. Raises AuthenticationError."""
        if len(token) > MESSAGE_BYTES_MAX:
            raise AuthenticationError("a message is too long")
        try:
            return self._evaluate(token)
        except self._acceptor.gssapi.exceptions.GSSError as error:
            raise AuthenticationError(f"Kerberos rejects a message: {_text(error)}") from None
        except UnicodeDecodeError:
            raise AuthenticationError("a principal or an authorization id is not UTF-8") from None

    def _establish(self, token: bytes) -> bytes:
        self._tokens += 1
        answer: bytes | None = self._context.step(token)
        if not self._context.complete:
            if not answer or self._tokens >= CONTEXT_TOKENS_MAX:
                raise AuthenticationError("the context is not established")
            return answer
        self._find_user()
        if not answer:  # without mutual authentication the client has nothing to verify
            return self._offer(b"")
        self._evaluate = self._offer
        return answer

    def _find_user(self) -> None:
        self._principal = str(self._context.initiator_name)
        user = self._settings.names.user_of(self._principal, self._acceptor.default_realm)
        if user is None:
            raise AuthenticationError(f"no rule gives the principal {_shown(self._principal)} a user name")
        self.user = user

    def _offer(self, token: bytes) -> bytes:
        if token:
            raise AuthenticationError("a message instead of an empty one before the offer of layers")
        self._evaluate = self._choose
        return bytes(self._context.wrap(OFFER, False).message)

    def _choose(self, token: bytes) -> bytes:
        choice = bytes(self._context.unwrap(token).message)
        if len(choice) < CHOICE_BYTES or choice[0] != LAYER_NONE:
            raise AuthenticationError("the client chooses a security layer that was not offered")
        self._check_authorization_id(choice[CHOICE_BYTES:])
        self._evaluate = self._reject
        self.is_complete = True
        return b""

    def _check_authorization_id(self, encoded: bytes) -> None:
        """Raise AuthenticationError if a client wants to act as another user.

        kafka-python and aiokafka send the name of the service that they log in at, SERVICE@HOST.
        """
        authorization_id = encoded.decode()
        if authorization_id == self._principal or authorization_id.startswith(f"{self._settings.service_name}@"):
            return
        check_authorization_id(authorization_id, self.user)

    def _reject(self, token: bytes) -> bytes:
        raise AuthenticationError("a message after the end of the exchange")


class GssapiServer:
    """Exchange with one client, whose tokens a worker evaluates."""

    def __init__(self, exchange: Exchange, workers: Workers) -> None:
        self._exchange = exchange
        self._workers = workers
        self._token = b""
        self._result: bytes | AuthenticationError | None = None
        """Result for the token; None before it is evaluated."""
        self.lifetime_ms: float | None = None
        self.token_authenticated = False
        self.preparation: Callable[[], Awaitable[None]] | None = None

    @property
    def user(self) -> str:
        """User of the client's principal; empty before the context is established."""
        return self._exchange.user

    @property
    def is_complete(self) -> bool:
        """True if the client is authenticated."""
        return self._exchange.is_complete

    def evaluate(self, token: bytes) -> bytes | None:
        """Return the challenge; None if a worker has to evaluate the token first. Raises AuthenticationError."""
        result, self._result = self._result, None
        if result is None:
            self._token, self.preparation = token, self._prepare
            return None
        if isinstance(result, AuthenticationError):
            raise result
        return result

    async def _prepare(self) -> None:
        try:
            self._result = await self._workers.run(lambda: self._exchange.evaluate(self._token))
        except AuthenticationError as error:
            self._result = error
        self.preparation = None


def _text(error: Exception) -> str:
    """Return an error of the Kerberos library as one line; it may contain names that a client has sent."""
    return _shown(" ".join(str(error).split()))


def _shown(text: str) -> str:
    return ascii(text[:REASON_CHARACTERS_MAX])
