"""Gate of a listener with SASL: requests of authenticated clients go to the dispatcher, all others to authentication.

Nothing is decoded beyond a header before authentication, except ApiVersions and the two SASL requests. A failure is
answered after a delay, in which no other connection waits, and then the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.server.network.connection import Connection
from kwire.server.network.connection_limits import ConnectionLimits
from kwire.server.network.listener import Handle
from kwire.server.network.pending import CloseConnection, Outcome, Pending
from kwire.server.network.principal_builder import PrincipalBuilder, same_principal
from kwire.server.network.response_queue import Response
from kwire.server.network.unauthenticated import UnauthenticatedConnections
from kwire.server.security.sasl.authenticator import Answer, Authenticator, Failure, Preparation, SessionExpiredError
from kwire.server.security.sasl.listener_sasl import ListenerSasl

_ERROR_CODE = slice(8, 10)
"""Place of the error code in a framed ApiVersions response: after its size and its correlation id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationSettings:
    """Settings of failed authentications."""

    failure_delay_ms: int = setting("connection.failed.authentication.delay.ms")


class AuthenticationGate:
    """Request handler of one listener with SASL."""

    def __init__(
        self,
        sasl: ListenerSasl,
        serve: Handle,
        *,
        settings: CurrentSettings,
        limits: ConnectionLimits,
        unauthenticated: UnauthenticatedConnections,
        now_ms: Callable[[], float],
        principal_builder: PrincipalBuilder = same_principal,
    ) -> None:
        """`serve` handles the requests of authenticated clients, and ApiVersions of all."""
        self._sasl = sasl
        self._serve = serve
        self._settings = settings
        self._limits = limits
        self._unauthenticated = unauthenticated
        self._audit = unauthenticated.audit
        self._now_ms = now_ms
        self._principal_of = principal_builder

    def handle(self, connection: Connection, frame: bytes) -> Outcome:
        """Serve one request. Raises ProtocolError or CloseConnection."""
        authenticator = connection.authentication
        if authenticator is None:
            authenticator = connection.authentication = Authenticator(self._sasl, self._now_ms)
        if authenticator.has_failed:
            raise CloseConnection("sent a request after its failed authentication")
        try:
            passes = authenticator.passes(frame)
        except SessionExpiredError:
            raise CloseConnection("its session has expired (connections.max.reauth.ms)") from None
        return self._serve(connection, frame) if passes else self._receive(connection, authenticator, frame)

    def _receive(self, connection: Connection, authenticator: Authenticator, frame: bytes) -> Outcome:
        what = authenticator.what
        step = authenticator.receive(frame)
        if isinstance(step, Answer):
            if authenticator.is_complete:
                self._admit(connection, authenticator, what)
            return step.buffers, 0
        if isinstance(step, Failure):
            return self._fail(connection, authenticator, step)
        if isinstance(step, Preparation):
            prepared = self._receive_prepared(connection, authenticator, frame, step)
            return Pending(prepared, lambda response: response, pipelined=False)
        outcome = self._serve(connection, frame)
        assert isinstance(outcome, tuple), "a short ApiVersions request is answered at once"
        buffers, _ = outcome
        if buffers is not None and buffers[0][_ERROR_CODE] == b"\0\0":
            authenticator.versions_answered()
        return outcome

    async def _receive_prepared(
        self, connection: Connection, authenticator: Authenticator, frame: bytes, preparation: Preparation
    ) -> Response:
        await preparation.work()
        outcome = self._receive(connection, authenticator, frame)
        if isinstance(outcome, Pending):
            outcome = outcome.encode(await outcome.awaitable)
        assert isinstance(outcome, tuple), "an authentication is not answered in pieces"
        return outcome

    def _admit(self, connection: Connection, authenticator: Authenticator, what: str) -> None:
        connection.principal = self._principal_of(
            f"User:{authenticator.user}", listener_name=self._sasl.name, host=connection.peer_host
        )
        connection.token_authenticated = authenticator.token_authenticated
        connection.frame_bytes_max = self._limits.request_bytes_max
        self._unauthenticated.remove(connection)
        self._audit.succeed(
            host=connection.peer_host,
            listener=self._sasl.name,
            mechanism=authenticator.mechanism,
            user=authenticator.user,
            what=what,
        )

    def _fail(self, connection: Connection, authenticator: Authenticator, failure: Failure) -> Pending:
        delay_ms = self._audit.fail(
            host=connection.peer_host,
            listener=self._sasl.name,
            mechanism=authenticator.mechanism,
            user=authenticator.claimed_user,
            what=authenticator.what,
            reason=failure.reason,
            delay_ms=self._settings.of(AuthenticationSettings).failure_delay_ms,
        )
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        loop.call_later(delay_ms / 1000, _set, over)

        def answer(_: None) -> Response:
            connection.end(f"failed {authenticator.what}: {failure.reason}")
            return failure.buffers, 0

        return Pending(over, answer, pipelined=False)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():  # a connection that has ended cancels it
        future.set_result(None)
