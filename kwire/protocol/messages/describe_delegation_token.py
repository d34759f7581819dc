"""DescribeDelegationToken: the delegation tokens of owners that the client may see (KIP-48).

2  flexible
3  requester of the token (KIP-373)
"""

from kwire.protocol.primitives import bytes_, int16, int32, int64, string
from kwire.protocol.schema import field, message, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: string = field("0+")
    principal_name: string = field("0+")


@message(key=41, kind="request", versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = field("0+", nullable="0+")
    """None describes all."""


@struct
class DescribedDelegationTokenRenewer:
    principal_type: string = field("0+")
    principal_name: string = field("0+")


@struct
class DescribedDelegationToken:
    principal_type: string = field("0+")
    principal_name: string = field("0+")
    token_requester_principal_type: string = field("3+")
    token_requester_principal_name: string = field("3+")
    issue_timestamp: int64 = field("0+")
    """In ms, like the other two."""
    expiry_timestamp: int64 = field("0+")
    max_timestamp: int64 = field("0+")
    """Limit for all renewals."""
    token_id: string = field("0+")
    hmac: bytes_ = field("0+", secret=True)
    renewers: list[DescribedDelegationTokenRenewer] = field("0+")


@message(key=41, kind="response", versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: int16 = field("0+")
    tokens: list[DescribedDelegationToken] = field("0+")
    throttle_time_ms: int32 = field("0+")
