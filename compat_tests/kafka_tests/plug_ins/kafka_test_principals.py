"""Principal builders that Kafka's tests bring as Java classes, for the kwire nodes that take the place of Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

CLIENTS = "CLIENT"


def by_listener(_: Mapping[str, str]) -> Callable[..., str]:
    """Return the builder of AbstractAuthorizerIntegrationTest: clients and nodes differ by their listener."""

    def named(principal: str, *, listener_name: str, **_: str) -> str:
        if listener_name == CLIENTS:
            return "User:client"
        return "User:broker" if listener_name in ("BROKER", "CONTROLLER") else principal

    return named
