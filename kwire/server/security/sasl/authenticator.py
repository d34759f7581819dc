"""Authentication of one connection: which request may come next, and how it is answered (KIP-43, KIP-152, KIP-368).

    VERSIONS_OR_HANDSHAKE -- ApiVersions --> HANDSHAKE -- SaslHandshake --> TOKENS -- last token --> COMPLETE

SaslHandshake may also come first. After version 0 of it the tokens are frames of their own, after version 1 they are in
SaslAuthenticate requests. A session with a lifetime may begin again with SaslHandshake. In each state, no other request
is read beyond its header.

The object neither waits nor sends: it returns what to answer, or what to wait for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from kwire.protocol.api_keys import ApiKey
from kwire.protocol.codec import decode_prefix
from kwire.protocol.error_codes import ErrorCode, ProtocolError
from kwire.protocol.framing import ParsedRequestHeader, encode_response, parse_request_header
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.protocol.primitives import Buffer
from kwire.protocol.schema import find_message, schema_of
from kwire.server.security.sasl.listener_sasl import ListenerSasl
from kwire.server.security.sasl.mechanism import GSSAPI, AuthenticationError, ServerMechanism

HANDSHAKE_KEY: Final = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")
VERSIONS_KEY: Final = ApiKey.API_VERSIONS.to_bytes(2, "big")
REAUTHENTICATION_MS_MIN: Final = 1000
"""Shortest time between the begins of two re-authentications, in milliseconds."""
VERSIONS_BYTES_MAX: Final = 4096
"""Longest ApiVersions request before authentication: a longer one would be decoded in pieces."""


class State(Enum):
    """State of a connection's authentication, see the module."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    COMPLETE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class Answer:
    """Response that is sent at once; None for none."""

    buffers: list[Buffer] | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed authentication: the response is sent after a delay, then the connection is closed."""

    reason: str
    """Reason for the log."""
    buffers: list[Buffer] | None = None
    """The response; None for none."""


class Versions:
    """An ApiVersions request, which the listener's dispatcher answers."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """Work that must end before the same frame is received again."""

    work: Callable[[], Awaitable[None]]


VERSIONS: Final = Versions()
Step = Answer | Failure | Preparation | Versions


class SessionExpiredError(Exception):
    """A client uses a session after its lifetime."""


class Authenticator:
    """State of one connection's authentication, see the module."""

    def __init__(self, sasl: ListenerSasl, now_ms: Callable[[], float]) -> None:
        self._sasl = sasl
        self._now_ms = now_ms
        self._state = State.VERSIONS_OR_HANDSHAKE
        self._in_requests = True
        """True if tokens are in SaslAuthenticate requests."""
        self._exchange: ServerMechanism | None = None
        self._expires_at: float | None = None
        """Time at which the session expires; None if it does not."""
        self._lifetime_ms = 0
        """Lifetime of the session, from its begin; 0 for no limit."""
        self._began_again_at: float | None = None
        self._is_other_mechanism = False
        """True if a re-authentication has chosen another mechanism."""
        self.mechanism = ""
        """Mechanism that the client has chosen; empty before."""
        self.user = ""
        """User that was authenticated; empty before."""
        self.token_authenticated = False
        """True if the user was last authenticated by a delegation token."""

    @property
    def is_complete(self) -> bool:
        """True if the client is authenticated, and not authenticating again."""
        return self._state is State.COMPLETE

    @property
    def has_failed(self) -> bool:
        """True if the connection is about to be closed."""
        return self._state is State.FAILED

    @property
    def claimed_user(self) -> str:
        """User that the client claims to be in its current exchange."""
        return self.user if self._exchange is None else self._exchange.user

    @property
    def what(self) -> str:
        """Name of the current exchange in messages."""
        return "re-authentication" if self.user else "authentication"

    def passes(self, frame: bytes) -> bool:
        """Return True if a request is an ordinary one of an authenticated client. Raises SessionExpiredError."""
        if self._state is not State.COMPLETE:
            return False
        if self._expires_at is None:
            return True
        key = frame[:2]
        now = self._now_ms()
        began = self._began_again_at
        if key == HANDSHAKE_KEY and (began is None or now - began >= REAUTHENTICATION_MS_MIN):
            return False
        if now > self._expires_at and key != VERSIONS_KEY:
            raise SessionExpiredError
        return True

    def receive(self, frame: bytes) -> Step:
        """Return how to answer a frame that does not pass. There must be no further frame after a Failure."""
        try:
            return self._receive(frame)
        except ProtocolError as error:
            return self._fail(f"a request cannot be read: {error}")

    def _receive(self, frame: bytes) -> Step:
        assert self._state is not State.FAILED, "a failed authentication ends its connection"
        if self._state is State.TOKENS:
            if self._exchange is not None and self._exchange.preparation is not None:
                return Preparation(self._exchange.preparation)
            return self._token_in_request(frame) if self._in_requests else self._bare_token(frame)
        header = parse_request_header(frame)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(frame, header)
        if header.api_key != ApiKey.API_VERSIONS:
            return self._fail(f"a request of API {header.api_key} before the SASL handshake")
        if self._state is not State.VERSIONS_OR_HANDSHAKE:
            return self._fail("a second ApiVersions request before the SASL handshake")
        if len(frame) > VERSIONS_BYTES_MAX:
            return self._fail(f"an ApiVersions request of {len(frame)} bytes")
        return VERSIONS

    def versions_answered(self) -> None:
        """Expect SaslHandshake next; called if ApiVersions was answered without an error."""
        self._state = State.HANDSHAKE

    # --- SaslHandshake

    def _handshake(self, frame: bytes, header: ParsedRequestHeader) -> Step:
        request = _body(SaslHandshakeRequest, frame, header)
        if self._state is State.COMPLETE:
            self._began_again_at = self._now_ms()
        mechanisms = list(self._sasl.mechanisms)
        exchange = self._sasl.begin(request.mechanism)
        if exchange is None:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            response = SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)
            return self._fail("its SASL mechanism is not enabled", _framed(header, response))
        self._is_other_mechanism = bool(self.user) and request.mechanism != self.mechanism
        if not self._is_other_mechanism:
            self.mechanism = request.mechanism
        self._exchange = exchange
        self._in_requests = header.api_version > 0
        self._state = State.TOKENS
        return Answer(_framed(header, SaslHandshakeResponse(mechanisms=mechanisms)))

    # --- tokens

    def _bare_token(self, token: bytes) -> Step:
        try:
            challenge = self._evaluate(token)
        except AuthenticationError as error:
            return self._fail(error.reason)
        if challenge is None:
            return self._prepare()
        if self.is_complete and self.mechanism == GSSAPI:  # its client expects no answer, as its exchange is over
            return Answer(None)
        return Answer([len(challenge).to_bytes(4, "big") + challenge])

    def _token_in_request(self, frame: bytes) -> Step:
        header = parse_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return self._fail(f"a request of API {header.api_key} during authentication", _illegal_state(header))
        request = _body(SaslAuthenticateRequest, frame, header)
        try:
            challenge = self._evaluate(request.auth_bytes)
        except AuthenticationError as error:
            told = error.told or (
                f"Authentication failed during {self.what} due to invalid credentials "
                f"with SASL mechanism {self.mechanism}"
            )
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            response = SaslAuthenticateResponse(error_code=code, error_message=told)
            return self._fail(error.reason, _framed(header, response))
        if challenge is None:
            return self._prepare()
        lifetime_ms = self._lifetime_ms if self.is_complete else 0
        response = SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=lifetime_ms)
        return Answer(_framed(header, response))

    def _prepare(self) -> Preparation:
        assert self._exchange is not None, "a token was evaluated"
        assert self._exchange.preparation is not None, "the mechanism waits for it"
        return Preparation(self._exchange.preparation)

    def _evaluate(self, token: bytes) -> bytes | None:
        """Return the challenge, and complete the authentication if it was the last one; None to prepare it first.

        Raises AuthenticationError.
        """
        exchange = self._exchange
        assert exchange is not None, "the handshake has begun an exchange"
        if self._is_other_mechanism:
            raise AuthenticationError(
                "another mechanism in a re-authentication",
                told=f"The SASL mechanism of a session cannot be changed by re-authentication from {self.mechanism}",
            )
        challenge = exchange.evaluate(token)
        if challenge is not None and exchange.is_complete:
            self._complete(exchange)
        return challenge

    def _complete(self, exchange: ServerMechanism) -> None:
        user = exchange.user
        if self.user not in ("", user):
            raise AuthenticationError(
                "another user in a re-authentication",
                told=f"Cannot change principals during re-authentication from User.{self.user}: User.{user}",
            )
        lifetimes = [self._sasl.reauthentication_ms(self.mechanism), exchange.lifetime_ms or 0]
        self._lifetime_ms = int(min((lifetime for lifetime in lifetimes if lifetime > 0), default=0))
        self._expires_at = self._now_ms() + self._lifetime_ms if self._lifetime_ms else None
        self.user = user
        self.token_authenticated = exchange.token_authenticated
        self._exchange = None
        self._state = State.COMPLETE

    def _fail(self, reason: str, buffers: list[Buffer] | None = None) -> Failure:
        self._state = State.FAILED
        return Failure(reason, buffers)


def _body(kind: type, frame: bytes, header: ParsedRequestHeader) -> Any:
    """Return the decoded body of a request. Raises ProtocolError, also for a version that is not served."""
    versions = schema_of(kind).versions
    if not versions.low <= header.api_version <= versions.high:
        raise ProtocolError(f"version {header.api_version} of API {header.api_key} is not served")
    return decode_prefix(kind, header.api_version, frame, header.body_position)[0]


def _framed(header: ParsedRequestHeader, response: object) -> list[Buffer]:
    return encode_response(header.correlation_id, response, header.api_version)


def _illegal_state(header: ParsedRequestHeader) -> list[Buffer] | None:
    """Return the response of another API with ILLEGAL_SASL_STATE; None if it has no error code of its own."""
    schema = find_message("response", header.api_key)
    if schema is None or header.api_version not in schema.versions:
        return None
    found = next((spec for spec in schema.fields if spec.name == "error_code"), None)
    if found is None or header.api_version not in found.versions:
        return None
    return _framed(header, schema.cls(error_code=ErrorCode.ILLEGAL_SASL_STATE))
