"""SaslHandshake: select the SASL mechanism of a connection (KIP-43).

0  followed by bare SASL tokens
1  followed by SaslAuthenticate requests (KIP-152)
"""

from kwire.protocol.primitives import int16, string
from kwire.protocol.schema import field, message
from kwire.protocol.wire import EARLY_TAGS_MAX


@message(key=17, kind="request", versions="0-1", tags_max=EARLY_TAGS_MAX)
class SaslHandshakeRequest:
    mechanism: string = field("0+")


@message(key=17, kind="response", versions="0-1")
class SaslHandshakeResponse:
    error_code: int16 = field("0+")
    mechanisms: list[string] = field("0+")
    """Mechanisms that the listener has enabled."""
