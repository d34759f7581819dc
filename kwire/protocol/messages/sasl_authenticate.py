"""SaslAuthenticate: one step of a SASL exchange (KIP-152).

1  lifetime of the session, after which the client must authenticate again (KIP-368)
2  flexible
"""

from kwire.protocol.primitives import bytes_, int16, int64, string
from kwire.protocol.schema import field, message
from kwire.protocol.wire import EARLY_TAGS_MAX


@message(key=36, kind="request", versions="0-2", flexible="2+", tags_max=EARLY_TAGS_MAX)
class SaslAuthenticateRequest:
    auth_bytes: bytes_ = field("0+")
    """A token of the chosen mechanism."""


@message(key=36, kind="response", versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    auth_bytes: bytes_ = field("0+")
    """A token of the chosen mechanism."""
    session_lifetime_ms: int64 = field("1+", ignorable=True)
    """0 means no limit."""
