"""CreateDelegationToken: create a token with which clients log in as its owner (KIP-48, KIP-373)."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.cluster.controller.plans.delegation_tokens import RENEWERS_CHARACTERS_MAX, RENEWERS_MAX, Principal
from kwire.cluster.security.acls import ResourceType
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.server.apis.security.token_requests import ANONYMOUS, NEVER, check_allowed
from kwire.server.other_nodes.forwarding import forwarded
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import ControllerContext, NodeContext

REQUESTERS_SINCE = 3


async def handle_create_delegation_token(
    request: CreateDelegationTokenRequest, context: ControllerContext
) -> CreateDelegationTokenResponse:
    requester = context.connection.principal
    owner = _owner(request, requester)
    try:
        check_allowed(context)
        owner_text = ":".join(owner)
        if owner_text != requester and not context.allows(ResourceType.USER, owner_text):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if not _are_few(request.renewers):
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        renewers = [(each.principal_type, each.principal_name) for each in request.renewers]
        token, hmac = await context.services.delegation_tokens.create(
            owner=owner, requester=requester, renewers=renewers, lifetime_ms=request.max_lifetime_ms
        )
    except KafkaError as error:
        return _rejected(request, context, error)
    response = _response(owner, requester, context)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiration_timestamp
    response.max_timestamp_ms = token.max_timestamp
    response.token_id = token.token_id
    response.hmac = hmac
    return response


def _are_few(renewers: Sequence[CreatableRenewers]) -> bool:
    return (
        len(renewers) <= RENEWERS_MAX and sum(len(each.principal_name) for each in renewers) <= RENEWERS_CHARACTERS_MAX
    )


def _owner(request: CreateDelegationTokenRequest, requester: str) -> Principal:
    if request.owner_principal_name:
        return request.owner_principal_type or "", request.owner_principal_name
    kind, _, name = requester.partition(":")
    return kind, name


def _response(owner: Principal, requester: str, context: NodeContext) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(principal_type=owner[0], principal_name=owner[1])
    if context.version >= REQUESTERS_SINCE:
        kind, _, name = requester.partition(":")
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    return response


def _rejected(
    request: CreateDelegationTokenRequest, context: NodeContext, error: KafkaError
) -> CreateDelegationTokenResponse:
    requester = context.connection.principal
    return _with_error(_response(_owner(request, requester), requester, context), error)


def _with_error(response: CreateDelegationTokenResponse, error: KafkaError) -> CreateDelegationTokenResponse:
    """Set the error; as in Apache Kafka, the times are 0 if tokens are disabled."""
    response.error_code = error.code
    time = 0 if error.code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED else NEVER
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = time
    return response


def reject(request: CreateDelegationTokenRequest, error: KafkaError) -> CreateDelegationTokenResponse:
    kind, _, name = ANONYMOUS.partition(":")
    return _with_error(CreateDelegationTokenResponse(principal_type=kind, principal_name=name), error)


API = Api(
    request=CreateDelegationTokenRequest, response=CreateDelegationTokenResponse, handle=handle_create_delegation_token
)
_FORWARDED = forwarded(API, reject)


async def handle_create_at_broker(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    """Forward a request whose connection passes the check, which only this broker can make."""
    try:
        check_allowed(context)
    except KafkaError as error:
        return _rejected(request, context, error)
    response: CreateDelegationTokenResponse = await _FORWARDED.handle(request, context)
    return response


AT_BROKER = API.served_by(handle_create_at_broker)
