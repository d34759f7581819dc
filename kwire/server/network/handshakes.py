"""TLS listener: accepted sockets and their handshakes, until a connection is made.

An event loop reports a TLS connection only after its handshake. Sockets are accepted here, so that connections count
from then on (max.connections and others), and so that handshakes are limited in number and time. Few sockets are
accepted in one iteration of the loop, and one handshake begins: its asymmetric cryptography takes a millisecond.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from kwire.chunks import turn
from kwire.server.network import connection_limits as limits
from kwire.server.network import forks
from kwire.server.network.connection import Connection
from kwire.server.network.first_record import FirstRecord
from kwire.server.network.outgoing.security import reason_of
from kwire.server.network.stream_protocol import StreamProtocol
from kwire.server.network.tls_transport import TlsTransport
from kwire.server.security.tls.alerts import send_alert
from kwire.server.security.tls.tls_settings import PrincipalRefusedError

if TYPE_CHECKING:
    from kwire.server.network.listener import Listener
    from kwire.server.security.tls.listener_tls import ListenerTls

HANDSHAKE_SECONDS: Final = 10.0
"""Longest TLS handshake."""
SECONDS_LEFT_MIN: Final = 0.001
"""Least time that is left after the first record; an event loop accepts no zero."""
SHUTDOWN_SECONDS: Final = 2.0
"""Longest wait for the client's part of the end of a TLS connection."""
ACCEPTED_AT_ONCE: Final = 4
"""Sockets that are accepted in one iteration of the event loop."""
ACCEPT_RETRY_SECONDS: Final = 1.0
"""Pause after an error of accept, such as no file descriptors; the event loops use the same."""
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "HTTPS_PROXY_REQUEST"})
"""OpenSSL's errors for bytes that are no TLS."""


class Handshake:
    """Accepted socket whose connection is not made yet. It counts as a connection of its address."""

    def __init__(self, acceptor: TlsAcceptor, accepted: socket.socket, host: str) -> None:
        self._acceptor = acceptor
        self.socket = accepted
        self.host = host
        self.descriptor = accepted.fileno()
        self.first_record = FirstRecord(accepted)
        self.task: asyncio.Task[None] | None = None
        forks.bound(self.descriptor)

    def send_alert(self, alert: bytes) -> None:
        """Send the alert of a failed handshake; it is short, so that it fits unless the client reads nothing."""
        with suppress(OSError):
            self.socket.send(alert)

    def succeed(self) -> None:
        """Let the connection count in place of the handshake."""
        self._acceptor.ended(self)

    def end(self) -> None:
        """Close the socket, unless the connection was made."""
        if self._acceptor.ended(self):
            self.first_record.stop()
            forks.closing(self.descriptor)
            self.socket.close()


class TlsProtocol(StreamProtocol):
    """Protocol of a connection over TLS; it is connected when the handshake has ended."""

    def __init__(self, listener: Listener, tls: ListenerTls, handshake: Handshake) -> None:
        super().__init__(Connection(listener))
        self._listener = listener
        self._tls = tls
        self._handshake = handshake
        self._output: TlsTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._handshake.succeed()
        self._output = TlsTransport(cast("asyncio.Transport", transport), self._connection)
        super().connection_made(cast("Any", self._output))
        try:
            subject = self._tls.principal_of(transport.get_extra_info("ssl_object"))
        except PrincipalRefusedError as reason:
            self._connection.close_now(str(reason))
        else:
            self._listener.name_client(self._connection, subject)

    def eof_received(self) -> bool:
        """Return False: TLS has no half-closed connections, so that nothing can be sent any more."""
        super().eof_received()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._output.end()
        super().connection_lost(error)

    def pause_writing(self) -> None:
        self._output.pause_writing()

    def resume_writing(self) -> None:
        self._output.resume_writing()


class TlsAcceptor:
    """Accepted sockets of one listener."""

    def __init__(self, listener: Listener, tls: ListenerTls, bound: Iterable[Any]) -> None:
        """`bound` are the sockets of the listener's server, which does not accept connections itself."""
        self._listener = listener
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._sockets = [socket.socket(fileno=os.dup(each.fileno())) for each in bound]
        self._handshakes: dict[Handshake, None] = {}
        """Handshakes, the oldest first."""
        self._per_host: Counter[str] = Counter()
        self._retries: dict[socket.socket, asyncio.TimerHandle] = {}
        """Next attempts of sockets that could not accept a connection."""

    def start(self) -> None:
        """Accept connections from now on. Raises OSError if another process listens there now."""
        for each in self._sockets:
            forks.bound(each.fileno())
            each.setblocking(False)
            each.listen(self._listener.limits.backlog)
            self._loop.add_reader(each.fileno(), self._accept, each)

    def stop(self) -> None:
        """Accept no more, and end all handshakes."""
        for retry in self._retries.values():
            retry.cancel()
        for each in self._sockets:
            self._loop.remove_reader(each.fileno())
            forks.closing(each.fileno())
            each.close()
        self._sockets = []
        for handshake in list(self._handshakes):
            self._cancel(handshake)

    # --- accept

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._retry(listening, error)
                return
            self._begin(accepted, address[0])

    def _retry(self, listening: socket.socket, error: OSError) -> None:
        """Accept again after a pause: there are no file descriptors, or there is no memory."""
        self._listener.messages.log(
            logging.ERROR,
            "accept",
            "listener %s cannot accept connections: %s",
            self._listener.name,
            error.strerror or error,
        )
        self._loop.remove_reader(listening.fileno())
        retry = partial(self._loop.add_reader, listening.fileno(), self._accept, listening)
        self._retries[listening] = self._loop.call_later(ACCEPT_RETRY_SECONDS, retry)

    def _begin(self, accepted: socket.socket, host: str) -> None:
        handshake = Handshake(self, accepted, host)
        self._handshakes[handshake] = None
        self._per_host[host] += 1
        self._listener.table.handshake_began(host)
        reason = self._listener.refusal(host)
        if not reason and self._per_host[host] > limits.HANDSHAKES_PER_HOST_MAX:
            reason = "too many TLS handshakes from this address"
        if reason:
            self._log(host, reason, logging.INFO)
            handshake.end()
            return
        if len(self._handshakes) > limits.HANDSHAKES_MAX:
            self._cancel(next(iter(self._handshakes)))
        handshake.task = self._loop.create_task(self._shake_hands(handshake))

    def ended(self, handshake: Handshake) -> bool:
        """Remove a handshake; return False if it was removed before."""
        if handshake not in self._handshakes:
            return False
        del self._handshakes[handshake]
        host = handshake.host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        self._listener.table.handshake_ended(host)
        return True

    def _cancel(self, handshake: Handshake) -> None:
        if handshake.task is not None:
            handshake.task.cancel()
        handshake.end()

    # --- handshakes

    async def _shake_hands(self, handshake: Handshake) -> None:
        listener, host = self._listener, handshake.host
        try:
            if rejected_ms := listener.limits.rejected_ms(host):
                await asyncio.sleep(rejected_ms / 1000)
                self._log(host, "it connects too often (connection_creation_rate)", logging.INFO)
                return
            if delay_ms := listener.delay_ms(listener.now()):
                await asyncio.sleep(delay_ms / 1000)
            deadline = self._loop.time() + HANDSHAKE_SECONDS
            async with asyncio.timeout_at(deadline):
                await handshake.first_record.wait()
                await turn()
            send_alert.set(handshake.send_alert)
            await self._loop.connect_accepted_socket(
                lambda: TlsProtocol(listener, self._tls, handshake),
                handshake.socket,
                ssl=self._tls.server_context,
                ssl_handshake_timeout=max(SECONDS_LEFT_MIN, deadline - self._loop.time()),
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except ssl.SSLError as error:
            is_plaintext = error.reason in _NO_TLS
            self._log(host, "it sends no TLS" if is_plaintext else reason_of(error), logging.WARNING)
        except (ConnectionAbortedError, TimeoutError):
            self._log(host, f"it took longer than {HANDSHAKE_SECONDS:g} s", logging.INFO)
        except OSError:
            self._log(host, "it closed the connection", logging.INFO)
        finally:
            handshake.end()

    def _log(self, host: str, reason: str, level: int) -> None:
        self._listener.messages.log(
            level,
            ("handshake", host, reason),
            "the TLS handshake of a client at %s on listener %s failed: %s",
            host,
            self._listener.name,
            reason,
        )
