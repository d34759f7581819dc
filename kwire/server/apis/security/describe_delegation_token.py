"""DescribeDelegationToken: the tokens that the client owns, may renew, or has the right to see (KIP-48, KIP-373)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial

from kwire.chunks import CHUNK, Pieces, chunks, mapped
from kwire.cluster.metadata.delegation_tokens import TokenSettings, owns_or_renews, token_hmac
from kwire.cluster.security.acls import ResourceType
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.protocol.messages.metadata_records import DelegationTokenRecord
from kwire.server.apis.security.token_requests import check_allowed
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext

REQUESTERS_SINCE = 3


def handle_describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: NodeContext
) -> Pieces[DescribeDelegationTokenResponse]:
    try:
        check_allowed(context)
        key = context.services.settings.of(TokenSettings).key
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    owners = None
    if request.owners is not None:
        owners = set((yield from mapped(request.owners, lambda each: f"{each.principal_type}:{each.principal_name}")))
    found = yield from _visible(owners, context)
    return DescribeDelegationTokenResponse(
        tokens=(yield from mapped(found, partial(_description, key=key, version=context.version)))
    )


def _visible(owners: AbstractSet[str] | None, context: NodeContext) -> Pieces[list[DelegationTokenRecord]]:
    """Return the requested tokens that the client may see; `owners` of None requests all."""
    found: list[DelegationTokenRecord] = []
    if owners is not None and not owners:
        return found
    for some in chunks(context.services.image.delegation_tokens.values()):
        found += [token for token in some if _is_requested(token, owners) and _is_visible(token, context)]
        if len(some) == CHUNK:
            yield
    return found


def _is_requested(token: DelegationTokenRecord, owners: AbstractSet[str] | None) -> bool:
    return owners is None or token.owner in owners or not owners.isdisjoint(token.renewers)


def _is_visible(token: DelegationTokenRecord, context: NodeContext) -> bool:
    return (
        owns_or_renews(context.connection.principal, token)
        or context.allows(ResourceType.DELEGATION_TOKEN, token.token_id, is_requested=False)
        or context.allows(ResourceType.USER, token.owner, is_requested=False)
    )


def _description(token: DelegationTokenRecord, *, key: bytes, version: int) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    described = DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(key, token.token_id),
        renewers=[_renewer(*renewer.partition(":")) for renewer in token.renewers],
    )
    if version >= REQUESTERS_SINCE:
        described.token_requester_principal_type, _, described.token_requester_principal_name = (
            token.requester.partition(":")
        )
    return described


def _renewer(kind: str, _: str, name: str) -> DescribedDelegationTokenRenewer:
    return DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)


API = Api(
    request=DescribeDelegationTokenRequest,
    response=DescribeDelegationTokenResponse,
    handle=handle_describe_delegation_token,
    elements_of=lambda response: len(response.tokens),
)
