"""Interface of SASL mechanisms on the server side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
SERVED: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER, GSSAPI)
"""Mechanisms that a listener may enable."""
RULES_KEY: Final = "sasl.kerberos.principal.to.local.rules"
SERVICE_KEY: Final = "sasl.kerberos.service.name"


class AuthenticationError(Exception):
    """A client failed to authenticate.

    `reason` is for the audit log only. `told` is the message for the client; empty for the message that all wrong
    credentials have in common, so that a client cannot learn which part was wrong.
    """

    def __init__(self, reason: str, *, told: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.told = told


class ServerMechanism(Protocol):
    """Exchange of a SASL mechanism, from the first token of a client to its success or failure."""

    @property
    def is_complete(self) -> bool:
        """True if the client is authenticated."""

    @property
    def user(self) -> str:
        """User name that the client claims; empty before it has named one. It is proven only if is_complete."""

    @property
    def lifetime_ms(self) -> float | None:
        """Milliseconds until the credential expires, counted from the end of the exchange; None if it does not."""

    @property
    def token_authenticated(self) -> bool:
        """True if the credential is a delegation token."""

    @property
    def preparation(self) -> Callable[[], Awaitable[None]] | None:
        """Work that must end before a token of the client is evaluated, the next or the same one; None without any."""

    def evaluate(self, token: bytes) -> bytes | None:
        """Return the challenge for a client's token; None if the preparation must end and the same token come again.

        Raises AuthenticationError, after which the exchange is over.
        """
