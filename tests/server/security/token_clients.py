"""Clients that create, renew, expire and describe delegation tokens, and that log in with them, for tests."""

from __future__ import annotations

import base64
from typing import Any

from kwire.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kwire.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kwire.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.server.security.sasl.scram import MECHANISMS, ScramClient
from tests.server.security.sasl.logins import send
from tests.support.raw_client import RawClient

KEY = "key-of-all-nodes"


def create(
    client: RawClient,
    *,
    renewers: tuple[tuple[str, str], ...] = (),
    owner: tuple[str | None, str | None] = (None, None),
    lifetime_ms: int = -1,
    version: int = 3,
) -> Any:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    if version >= 3:
        request.owner_principal_type, request.owner_principal_name = owner
    return client.ask(request, version)


def renew(client: RawClient, hmac: bytes, period_ms: int = -1, *, version: int = 2) -> tuple[int, int]:
    """Return the error code and the time of expiry."""
    answer = client.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), version)
    return answer.error_code, answer.expiry_timestamp_ms


def expire(client: RawClient, hmac: bytes, period_ms: int = -1, *, version: int = 2) -> tuple[int, int]:
    """Return the error code and the time of expiry."""
    answer = client.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), version)
    return answer.error_code, answer.expiry_timestamp_ms


def describe(client: RawClient, *owners: str, every: bool = True, version: int = 3) -> Any:
    """Return the response for all tokens, or with `owners` (or without `every`) for those of the owners."""
    asked = [DescribeDelegationTokenOwner(principal_type="User", principal_name=owner) for owner in owners]
    request = DescribeDelegationTokenRequest(owners=None if every and not owners else asked)
    return client.ask(request, version)


class TokenClient(ScramClient):
    """Client side of an exchange with a token."""

    def __init__(self, mechanism: str, token_id: str, hmac: bytes) -> None:
        super().__init__(MECHANISMS[mechanism], token_id, base64.b64encode(hmac).decode(), "a-nonce")
        self._bare += ",tokenauth=true"


def log_in_by_token(
    client: RawClient, token_id: str, hmac: bytes, *, mechanism: str = "SCRAM-SHA-256"
) -> SaslAuthenticateResponse:
    """Return the broker's last response; its error message says why the login has failed."""
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    scram = TokenClient(mechanism, token_id, hmac)
    first = send(client, scram.begin())
    if first.error_code:
        return first  # type: ignore[no-any-return]
    final = send(client, scram.finish(first.auth_bytes))
    if not final.error_code:
        scram.verify(final.auth_bytes)
    return final  # type: ignore[no-any-return]
