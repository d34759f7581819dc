"""Alerts of TLS: they name the reason of a failed handshake to the client.

An event loop drops the alert that OpenSSL writes when a handshake fails. The client sees a closed connection, takes it
for a fault of the network, and connects again and again. A context of this module sends the alert.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

SendAlert = Callable[[bytes], object]
"""Function that sends an alert to the client, or drops it; it must not block and raises nothing."""

send_alert: Final[ContextVar[SendAlert | None]] = ContextVar("send_alert", default=None)
"""Function for the handshake that begins in this context."""


class AlertingContext(ssl.SSLContext):
    """Context of a listener. It passes the alert of a failed handshake to `send_alert`."""

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *args, **kwargs)
        send = send_alert.get()
        if send is None:
            return made
        shake_hands = made.do_handshake

        def do_handshake() -> None:
            try:
                shake_hands()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError:
                send(outgoing.read())
                raise
            del made.do_handshake  # it refers to its object, which would outlive its connection until a full collection

        made.do_handshake = do_handshake  # type: ignore[method-assign]
        return made
