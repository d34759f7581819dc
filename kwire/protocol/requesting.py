"""Client side of the frames in kwire.protocol.framing: encodes requests, decodes responses."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any, Final

from kwire.protocol.codec import decode_prefix, encode, pieces_decoder, pieces_encoder
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.schema import find_message, schema_of

_API_VERSIONS_KEY: Final = 18
_HEADER: Final = struct.Struct(">ihhih")
_CORRELATION_ID: Final = struct.Struct(">i")


def frame_request(request: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the whole frame, with its size. Raises EncodeError for a value that the version cannot express."""
    out = _begun(request, version, client_id)
    encode(request, version, out)
    return _ended(out, request, version, correlation_id, client_id)


def frame_request_in_pieces(
    request: Any, version: int, correlation_id: int, client_id: str | None
) -> Generator[None, None, bytes]:
    """Do what frame_request does; yield after some elements, for a request that may be large."""
    out = _begun(request, version, client_id)
    yield from pieces_encoder(type(request), version)(request, out, None)
    return _ended(out, request, version, correlation_id, client_id)


def _begun(request: Any, version: int, client_id: str | None) -> bytearray:
    out = bytearray(_HEADER.size)
    if client_id is not None:
        out += client_id.encode()
    if version in schema_of(type(request)).flexible:
        out.append(0)  # no tags
    return out


def _ended(out: bytearray, request: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    key = schema_of(type(request)).key
    name_size = -1 if client_id is None else len(client_id.encode())
    _HEADER.pack_into(out, 0, len(out) - 4, key, version, correlation_id, name_size)
    return bytes(out)


def parse_response(request: type, version: int, frame: bytes) -> tuple[int, Any]:
    """Return (correlation id, response) of a frame without its size. Raises ProtocolError."""
    correlation_id, described, position = _parsed(request, version, frame)
    response, _ = decode_prefix(described, version, frame, position)
    return correlation_id, response


def parse_response_in_pieces(request: type, version: int, frame: bytes) -> Generator[None, None, tuple[int, Any]]:
    """Do what parse_response does; yield after some elements, for a response that may be large."""
    correlation_id, described, position = _parsed(request, version, frame)
    response, _ = yield from pieces_decoder(described, version)(frame, position)
    return correlation_id, response


def _parsed(request: type, version: int, frame: bytes) -> tuple[int, Any, int]:
    """Return (correlation id, class of the response, where its body begins)."""
    schema = schema_of(request)
    assert schema.key is not None
    described = find_message("response", schema.key)
    assert described is not None
    if len(frame) < _CORRELATION_ID.size:
        raise ProtocolError("a response is too short for a header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    # An ApiVersions response has header version 0 whatever its body is: its reader does not know the version yet
    # (KIP-511).
    has_tags = version in schema.flexible and schema.key != _API_VERSIONS_KEY
    return correlation_id, described.cls, 5 if has_tags else 4
