"""ExpireDelegationToken: change when a delegation token expires, or end it at once (KIP-48).

2  flexible
"""

from kwire.protocol.primitives import bytes_, int16, int32, int64
from kwire.protocol.schema import field, message


@message(key=40, kind="request", versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes_ = field("0+", secret=True)
    expiry_time_period_ms: int64 = field("0+")
    """Relative to now; negative ends the token at once."""


@message(key=40, kind="response", versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: int16 = field("0+")
    expiry_timestamp_ms: int64 = field("0+")
    throttle_time_ms: int32 = field("0+")
