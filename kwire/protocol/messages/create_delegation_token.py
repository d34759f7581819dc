"""CreateDelegationToken: create a token with which clients authenticate as a principal (KIP-48).

2  flexible
3  a token for another principal: owner and requester may differ (KIP-373)
"""

from kwire.protocol.primitives import bytes_, int16, int32, int64, string
from kwire.protocol.schema import field, message, struct


@struct
class CreatableRenewers:
    principal_type: string = field("0+")
    principal_name: string = field("0+")


@message(key=38, kind="request", versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: string | None = field("3+", nullable="3+")
    """None if the requester is the owner."""
    owner_principal_name: string | None = field("3+", nullable="3+")
    renewers: list[CreatableRenewers] = field("0+")
    max_lifetime_ms: int64 = field("0+")
    """Values below 1 stand for the broker's delegation.token.max.lifetime.ms."""


@message(key=38, kind="response", versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: int16 = field("0+")
    principal_type: string = field("0+")
    principal_name: string = field("0+")
    token_requester_principal_type: string = field("3+")
    token_requester_principal_name: string = field("3+")
    issue_timestamp_ms: int64 = field("0+")
    expiry_timestamp_ms: int64 = field("0+")
    max_timestamp_ms: int64 = field("0+")
    """Limit for all renewals."""
    token_id: string = field("0+")
    hmac: bytes_ = field("0+", secret=True)
    """Secret of the token."""
    throttle_time_ms: int32 = field("0+")
