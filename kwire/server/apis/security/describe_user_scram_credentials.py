"""DescribeUserScramCredentials: return users with SCRAM credentials, by mechanism; never their keys (KIP-554)."""

from __future__ import annotations

from collections import Counter
from functools import partial

from kwire.chunks import Pieces, mapped
from kwire.cluster.metadata.scram import ScramCredentials
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext


def handle_describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: NodeContext
) -> Pieces[DescribeUserScramCredentialsResponse]:
    if not context.allows_cluster():
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(error_code=code, error_message=code.meaning)
    users = context.services.image.scram
    counts = Counter([user.name for user in request.users or ()] or list(users))
    results = yield from mapped(counts.items(), partial(_result, users))
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _result(users: ScramCredentials, named: tuple[str, int]) -> DescribeUserScramCredentialsResult:
    """Return the result for (name, number of times that it was requested)."""
    name, count = named
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if name not in users:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    return DescribeUserScramCredentialsResult(
        user=name,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            for mechanism, credential in sorted(users[name].items(), key=lambda item: item[0])
        ],
    )


API = Api(
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    handle=handle_describe_user_scram_credentials,
)
