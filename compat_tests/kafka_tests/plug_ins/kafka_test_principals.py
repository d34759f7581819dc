"""Principal builders that Kafka's tests bring as Java classes, for the kwire nodes that take the place of Kafka's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

BUILDERS = "kwire.tests.principals"
"""Setting of Security.java: LISTENER=CLASS for each listener, with an empty class for principals of logins."""
OWN_LISTENER = "KWIRE_TESTS"
OWN_PRINCIPAL = "User:kwire-tests"


def by_listener(settings: Mapping[str, str]) -> Callable[..., str]:
    """Return a builder that does for each listener what its Java class does."""
    pairs = (each.partition("=") for each in settings[BUILDERS].split(","))
    builders = {listener: BY_CLASS[name] for listener, _, name in pairs}

    def named(principal: str, *, listener_name: str, **_: str) -> str:
        if listener_name == OWN_LISTENER:
            return OWN_PRINCIPAL
        return builders[listener_name](principal, listener_name)

    return named


def _clients_and_nodes(principal: str, listener_name: str) -> str:
    if listener_name == "CLIENT":
        return "User:client"
    return "User:broker" if listener_name in ("BROKER", "CONTROLLER") else principal


def _group_clients_and_nodes(principal: str, listener_name: str) -> str:
    return "Group:broker" if listener_name in ("BROKER", "CONTROLLER") else "Group:client"


def _common_name(principal: str, _: str) -> str:
    """Return the user of a certificate in SslAdminIntegrationTest."""
    found = re.fullmatch(r"User:O=A (?P<name>.*?),CN=(?P<common>.*)", principal)
    if found is None:
        return "User:ANONYMOUS"
    if found["name"] == "server" or found["common"] == "super-user":
        return "User:server"
    return "User:client" if found["common"] == "client" else "User:ANONYMOUS"


def _organization(principal: str, _: str) -> str:
    """Return User:server for certificates of servers and of the super user, the subject for others."""
    found = re.fullmatch(r"User:O=A (?P<name>.*?),CN=(?P<common>.*)", principal)
    if found is None:
        return "User:ANONYMOUS"
    return "User:server" if found["name"] == "server" or found["common"] == "super-user" else principal


def _groups(principal: str, _: str) -> str:
    user = principal.removeprefix("User:")
    return "Group:testGroup" if user == "scram-user" else f"Group:{user}"


BY_CLASS: dict[str, Callable[[str, str], str]] = {
    "": lambda principal, _: principal,
    "kafka.api.AbstractAuthorizerIntegrationTest$PrincipalBuilder": _clients_and_nodes,
    "kafka.api.PlaintextEndToEndAuthorizationTest$TestClientPrincipalBuilder": lambda *_: "User:client",
    "kafka.api.PlaintextEndToEndAuthorizationTest$TestServerPrincipalBuilder": lambda *_: "User:server",
    "kafka.api.GroupEndToEndAuthorizationTest$GroupPrincipalBuilder": _groups,
    "kafka.api.SslEndToEndAuthorizationTest$TestPrincipalBuilder": _organization,
    "kafka.api.SslAdminIntegrationTest$TestPrincipalBuilder": _common_name,
    "kafka.server.AlterCredentialsTest$TestPrincipalBuilderReturningAuthorized": lambda *_: "User:ANONYMOUS",
    "kafka.server.AlterCredentialsTest$TestPrincipalBuilderReturningUnauthorized": lambda *_: "User:Unauthorized",
    "kafka.server.DescribeCredentialsTest$TestPrincipalBuilderReturningAuthorized": lambda *_: "User:ANONYMOUS",
    "kafka.server.DescribeCredentialsTest$TestPrincipalBuilderReturningUnauthorized": lambda *_: "User:Unauthorized",
    "org.apache.kafka.clients.security.GroupAuthorizerIntegrationTest$GroupPrincipalBuilder": _group_clients_and_nodes,
    "kafka.api.SaslPlainSslEndToEndAuthorizationTest$TestPrincipalBuilder": lambda principal, _: {
        "User:plain-admin": "User:admin",
        "User:plain-user": "User:user",
    }.get(principal, "User:ANONYMOUS"),
}
