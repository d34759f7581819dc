"""Headers of requests and responses, as messages; kwire.protocol.framing parses and writes them on connections.

A header's version depends on whether the request's version is flexible.
"""

from kwire.protocol.primitives import int16, int32, string
from kwire.protocol.schema import field, message


@message(kind="header", versions="1-2", flexible="2+")
class RequestHeader:
    request_api_key: int16 = field("0+")
    request_api_version: int16 = field("0+")
    correlation_id: int32 = field("0+")
    client_id: string | None = field("1+", nullable="1+", flexible="none")


@message(kind="header", versions="0-1", flexible="1+")
class ResponseHeader:
    correlation_id: int32 = field("0+")
