"""Principal builder: what a client is called by the authorizer, quotas and logs, given what its login says."""

from __future__ import annotations

from typing import Protocol


class PrincipalBuilder(Protocol):
    """Function that returns the principal of a client, such as User:alice.

    `principal` is that of its login, User:ANONYMOUS before and without one; `host` is its IP address. It is called on
    the event loop once for each connection and login: it must not block. An error closes the connection.
    """

    def __call__(self, principal: str, *, listener_name: str, host: str) -> str: ...


def same_principal(principal: str, **_: str) -> str:
    """Return the principal of the login."""
    return principal
