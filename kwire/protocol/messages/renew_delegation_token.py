"""RenewDelegationToken: extend the lifetime of a delegation token (KIP-48).

2  flexible
"""

from kwire.protocol.primitives import bytes_, int16, int32, int64
from kwire.protocol.schema import field, message


@message(key=39, kind="request", versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: bytes_ = field("0+", secret=True)
    renew_period_ms: int64 = field("0+")
    """Relative to now; values below 1 stand for the broker's delegation.token.expiry.time.ms."""


@message(key=39, kind="response", versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: int16 = field("0+")
    expiry_timestamp_ms: int64 = field("0+")
    throttle_time_ms: int32 = field("0+")
