"""DescribeUserScramCredentials: which users have SCRAM credentials. Nobody has any (KIP-554)."""

from __future__ import annotations

from collections import Counter

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    names = Counter(user.name for user in request.users or ())
    if not context.allows_cluster():
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(error_code=code, error_message=code.meaning)
    return DescribeUserScramCredentialsResponse(
        error_message="", results=[_nobody(name, is_repeated=names[name] > 1) for name in names]
    )


def _nobody(name: str, *, is_repeated: bool) -> DescribeUserScramCredentialsResult:
    if is_repeated:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"Attempt to describe a user credential that does not exist: {name}",
    )


API = Api(request=DescribeUserScramCredentialsRequest, response=DescribeUserScramCredentialsResponse, handle=handle)
