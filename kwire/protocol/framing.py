"""Frames of requests and responses on a connection.

    size        int32: bytes that follow. The connection splits frames by it; parse_request_header gets what follows.
    request     header: int16 api key, int16 api version, int32 correlation id, nullable string client id with an int16
                length, then a tag section when the request is flexible (header version 2, else 1); then the body
    response    header: int32 correlation id, then a tag section when the response is flexible (header version 1,
                else 0); then the body

An ApiVersions response always has header version 0: its reader does not know the broker's versions yet (KIP-511).
"""

import struct
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from librt.strings import read_i16_be, read_i32_be

from kwire.protocol import wire
from kwire.protocol.codec import Detached, Encoder, PiecesEncoder, encoder, pieces_encoder
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.primitives import Buffer
from kwire.protocol.schema import find_message, schema_of

_API_VERSIONS_KEY: Final = 18
_RESPONSE_HEADER: Final = struct.Struct(">ii")
_NEVER: Final = 2**15

Framer = Callable[[int, Any], list[Buffer]]
"""Function from (correlation id, response) to the buffers to write, in order."""
PiecesFramer = Callable[[int, Any], Generator[None, None, list[Buffer]]]
"""Framer in pieces, for a response that may be large."""


class ParsedRequestHeader:
    """Header of a request, and the position of its body in the frame."""

    __slots__ = ("api_key", "api_version", "body_position", "client_id", "correlation_id")

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None, body_position: int
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body_position = body_position


def parse_request_header(frame: bytes) -> ParsedRequestHeader:
    """Parse the header of a frame without its size. Raises ProtocolError for an unknown API key, as in Kafka.

    The header's version depends only on the request's version, so even an unknown newer version is parsed: ApiVersions
    must answer it.
    """
    try:
        api_key: int = read_i16_be(frame, 0)
        api_version: int = read_i16_be(frame, 2)
        correlation_id: int = read_i32_be(frame, 4)
        size: int = read_i16_be(frame, 8)
        position = 10
        client_id = None
        if size >= 0:
            position += size
            client_id = frame[10:position].decode()
        elif size != -1:
            raise ProtocolError(f"client_id has length {size}")
        flexible_since = _flexible_since.get(api_key, -1)
        if flexible_since < 0:
            flexible_since = _find_flexible_since(api_key)
        if api_version >= flexible_since:
            tags = frame[position]
            position += 1
            if tags:
                position = wire.skip_tags(frame, position, tags, _tags_max(api_key))
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"request header: {error}") from error
    if position > len(frame):
        raise ProtocolError("request header: client_id is longer than the frame")
    return ParsedRequestHeader(api_key, api_version, correlation_id, client_id, position)


def _find_flexible_since(api_key: int) -> int:
    """Return the API's first flexible version; a number above all versions if it has none."""
    schema = find_message("request", api_key)
    if schema is None:
        raise ProtocolError(f"unknown API key {api_key}")
    since = schema.flexible.low if schema.flexible.low <= schema.flexible.high else _NEVER
    _flexible_since[api_key] = since
    return since


def _tags_max(api_key: int) -> int:
    schema = find_message("request", api_key)
    assert schema is not None, "the API is known"
    return schema.tags_max


_flexible_since: Final[dict[int, int]] = {}


def encode_response(correlation_id: int, response: object, version: int) -> list[Buffer]:
    """Return the buffers to write, in order; record batches are those of the response, not copies."""
    return framer(type(response), version)(correlation_id, response)


def framer(cls: type, version: int) -> Framer:
    """Return encode_response for one type and version. The header's tag section, if any, is empty."""
    header_size = _header_size(cls, version)
    encode_body: Encoder[Any] = encoder(cls, version)

    def frame(correlation_id: int, response: Any) -> list[Buffer]:
        out = bytearray(header_size)
        detached: Detached = []
        encode_body(response, out, detached)
        return _framed(out, detached, correlation_id)

    return frame


def pieces_framer(cls: type, version: int) -> PiecesFramer:
    """Return a framer in pieces."""
    return partial(_frame_in_pieces, _header_size(cls, version), pieces_encoder(cls, version))


def _frame_in_pieces(
    header_size: int, encode_body: PiecesEncoder[Any], correlation_id: int, response: Any
) -> Generator[None, None, list[Buffer]]:
    out = bytearray(header_size)
    detached: Detached = []
    yield from encode_body(response, out, detached)
    return _framed(out, detached, correlation_id)


def _header_size(cls: type, version: int) -> int:
    schema = schema_of(cls)
    has_tags = version in schema.flexible and schema.key != _API_VERSIONS_KEY
    return 9 if has_tags else 8


def _framed(out: bytearray, detached: Detached, correlation_id: int) -> list[Buffer]:
    """Return the buffers of a response, whose header is written last."""
    if not detached:
        _RESPONSE_HEADER.pack_into(out, 0, len(out) - 4, correlation_id)
        return [out]
    size = len(out) - 4 + sum([len(buffer) for _, buffer in detached])
    _RESPONSE_HEADER.pack_into(out, 0, size, correlation_id)
    return _interleave(out, detached)


def _interleave(out: bytearray, detached: Detached) -> list[Buffer]:
    view = memoryview(out)
    buffers: list[Buffer] = []
    start = 0
    for position, records in detached:
        buffers.append(view[start:position])
        buffers.append(records)
        start = position
    if start < len(out):
        buffers.append(view[start:])
    return buffers
