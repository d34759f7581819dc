"""The frame around each request and response on a connection.

    size        int32: bytes that follow. The connection cuts frames by it; parse_request_header sees what follows.
    request     header: int16 api key, int16 api version, int32 correlation id, nullable string client id with an int16
                length, then a tag section when the request is flexible (header version 2, else 1); then the body
    response    header: int32 correlation id, then a tag section when the response is flexible (header version 1,
                else 0); then the body

An ApiVersions response always has header version 0: its reader cannot know yet what the broker speaks (KIP-511).
"""

import struct
from dataclasses import dataclass
from typing import Any

from kwire.protocol import wire
from kwire.protocol.codec import Detached, Encoder, encoder
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.primitives import Buffer
from kwire.protocol.schema import find_message, schema_of

_API_VERSIONS_KEY = 18
_REQUEST_HEADER = struct.Struct(">hhih")
_RESPONSE_HEADER = struct.Struct(">ii")


@dataclass(slots=True)
class ParsedRequestHeader:
    """A request's header, and where its body starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def parse_request_header(frame: bytes | bytearray) -> ParsedRequestHeader:
    """Parse the header of a frame without its size. An API key that is not declared is a ProtocolError, as in Kafka.

    The header's version depends on the request's alone, so a version newer than any known one is still parsed:
    ApiVersions must answer it.
    """
    try:
        api_key, api_version, correlation_id, size = _REQUEST_HEADER.unpack_from(frame)
        position = 10
        client_id = None
        if size >= 0:
            position += size
            client_id = frame[10:position].decode()
        elif size != -1:
            raise ProtocolError(f"client_id has length {size}")
        if api_version in _flexible_versions(api_key):
            tags = frame[position]
            position += 1
            if tags:
                position = wire.skip_tags(frame, position, tags)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"request header: {error}") from error
    if position > len(frame):
        raise ProtocolError("request header: client_id is longer than the frame")
    return ParsedRequestHeader(api_key, api_version, correlation_id, client_id, position)


def _flexible_versions(api_key: int) -> range:
    known = _flexible.get(api_key)
    if known is None:
        schema = find_message("request", api_key)
        if schema is None:
            raise ProtocolError(f"unknown API key {api_key}")
        known = _flexible[api_key] = range(schema.flexible.low, schema.flexible.high + 1)
    return known


_flexible: dict[int, range] = {}


def encode_response(correlation_id: int, response: object, version: int) -> list[Buffer]:
    """The buffers to write in order; record batches among them are those of the response, not copies."""
    known = _responses.get((type(response), version))
    if known is None:
        known = _prepare_response(type(response), version)
    header_size, encode_body = known
    out = bytearray(header_size)
    detached: Detached = []
    encode_body(response, out, detached)
    if not detached:
        _RESPONSE_HEADER.pack_into(out, 0, len(out) - 4, correlation_id)
        return [out]
    size = len(out) - 4 + sum([len(buffer) for _, buffer in detached])
    _RESPONSE_HEADER.pack_into(out, 0, size, correlation_id)
    return _interleave(out, detached)


def _prepare_response(cls: type, version: int) -> tuple[int, Encoder[Any]]:
    """The size of the header, whose tag section is empty if there is one, and the encoder of the body."""
    schema = schema_of(cls)
    has_tags = version in schema.flexible and schema.key != _API_VERSIONS_KEY
    known = _responses[cls, version] = (9 if has_tags else 8, encoder(cls, version))
    return known


_responses: dict[tuple[type, int], tuple[int, Encoder[Any]]] = {}


def _interleave(out: bytearray, detached: Detached) -> list[Buffer]:
    view = memoryview(out)
    buffers: list[Buffer] = []
    start = 0
    for position, records in detached:
        if len(records):
            buffers.append(view[start:position])
            buffers.append(records)
            start = position
    if start < len(out):
        buffers.append(view[start:])
    return buffers
