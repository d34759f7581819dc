"""Logins of the tests' own client at a running broker."""

from __future__ import annotations

from typing import Any

from kwire.cluster.metadata.scram import ScramMechanism, salt_password
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.server.security.sasl.scram import MECHANISMS, ScramClient
from tests.support.raw_client import RawClient


def log_in(client: RawClient, mechanism: str, user: str, password: str) -> str:
    """Return the broker's error message; empty if the user is logged in."""
    shaken = client.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
    assert shaken.error_code == 0
    if mechanism == "PLAIN":
        return str(send(client, f"\0{user}\0{password}".encode()).error_message or "")
    scram = ScramClient(MECHANISMS[mechanism], user, password, "a-nonce")
    first = send(client, scram.begin())
    if first.error_code:
        return str(first.error_message)
    final = send(client, scram.finish(first.auth_bytes))
    if final.error_code:
        return str(final.error_message)
    scram.verify(final.auth_bytes)
    return ""


def send(client: RawClient, content: bytes) -> Any:
    return client.ask(SaslAuthenticateRequest(auth_bytes=content), 2)


def upsertion(
    user: str, password: str = "secret", *, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"some-salt"
) -> ScramCredentialUpsertion:
    """Return a new credential, as Kafka's admin client computes it."""
    known = ScramMechanism(mechanism) if mechanism in (1, 2) else ScramMechanism.SCRAM_SHA_256
    salted = salt_password(known, password, salt=salt, iterations=max(1, iterations))
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def alter(
    client: RawClient,
    upsertions: list[ScramCredentialUpsertion] = [],  # noqa: B006 not changed
    deletions: list[tuple[str, int]] = [],  # noqa: B006 not changed
) -> dict[str, tuple[int, str | None]]:
    """Return error codes and messages by user."""
    response = client.ask(
        AlterUserScramCredentialsRequest(
            upsertions=upsertions,
            deletions=[ScramCredentialDeletion(name=user, mechanism=mechanism) for user, mechanism in deletions],
        ),
        0,
    )
    return {each.user: (each.error_code, each.error_message) for each in response.results}
