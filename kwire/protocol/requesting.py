"""The asker's side of the frames of kwire.protocol.framing: requests out, responses in."""

from __future__ import annotations

import struct
from typing import Any, Final

from kwire.protocol.codec import decode_prefix, encode
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.schema import find_message, schema_of

_API_VERSIONS_KEY: Final = 18
_HEADER: Final = struct.Struct(">ihhih")
_CORRELATION_ID: Final = struct.Struct(">i")


def frame_request(request: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The whole frame, with its size. Raises EncodeError for what the version cannot say."""
    schema = schema_of(type(request))
    assert schema.key is not None
    name = b"" if client_id is None else client_id.encode()
    out = bytearray(_HEADER.size)
    out += name
    if version in schema.flexible:
        out.append(0)  # no tags
    encode(request, version, out)
    _HEADER.pack_into(out, 0, len(out) - 4, schema.key, version, correlation_id, -1 if client_id is None else len(name))
    return bytes(out)


def parse_response(request: type, version: int, frame: bytes) -> tuple[int, Any]:
    """(correlation id, response) of a frame without its size. Raises ProtocolError."""
    schema = schema_of(request)
    assert schema.key is not None
    described = find_message("response", schema.key)
    assert described is not None
    if len(frame) < _CORRELATION_ID.size:
        raise ProtocolError("a response without a header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    # An ApiVersions response has header version 0 whatever its body is: its reader cannot know yet (KIP-511).
    has_tags = version in schema.flexible and schema.key != _API_VERSIONS_KEY
    response: Any
    response, _ = decode_prefix(described.cls, version, frame, 5 if has_tags else 4)
    return correlation_id, response
