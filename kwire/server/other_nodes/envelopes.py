"""Encoding of an Envelope request: a client's request with its header, and its principal (KIP-590)."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final

from kwire.protocol.codec import decode_prefix, encode
from kwire.protocol.error_codes import ErrorCode, ProtocolError
from kwire.protocol.messages.default_principal_data import DefaultPrincipalData
from kwire.protocol.schema import Array, Schema, schema_of

_VERSION: Final = struct.Struct(">h")


def encode_principal(principal: str, *, token_authenticated: bool = False) -> bytes:
    """Return the bytes of a principal such as User:alice, after the version of their format."""
    kind, _, name = principal.partition(":")
    version = schema_of(DefaultPrincipalData).versions.high
    out = bytearray(_VERSION.pack(version))
    encode(DefaultPrincipalData(type=kind, name=name, token_authenticated=token_authenticated), version, out)
    return bytes(out)


def decode_principal(data: bytes | None) -> tuple[str, bool]:
    """Return the principal as it is written in ACLs, and True if a delegation token proved it. Raises ProtocolError."""
    if data is None or len(data) < _VERSION.size:
        raise ProtocolError("an envelope without a principal")
    (version,) = _VERSION.unpack_from(data)
    if version not in schema_of(DefaultPrincipalData).versions:
        raise ProtocolError(f"a principal in version {version}")
    principal, _ = decode_prefix(DefaultPrincipalData, version, bytes(data), _VERSION.size)
    return f"{principal.type}:{principal.name}", principal.token_authenticated


def says_not_controller(response: Any) -> bool:
    """Return True if the response is NOT_CONTROLLER: another node is the active controller.

    A controller sets the code for the whole request: at the top, or in each element. The
    first element of a list is enough.
    """
    kind: Any = type(response)
    has_code, lists = _codes(kind)
    if has_code and response.error_code == ErrorCode.NOT_CONTROLLER:
        return True
    return any(says_not_controller(each) for name in lists for each in (getattr(response, name) or ())[:1])


@cache
def _codes(message: type) -> tuple[bool, tuple[str, ...]]:
    """Return True if a message has an error code, and the names of its lists whose elements have one.

    The other lists are not searched; they may be long.
    """
    fields = schema_of(message).fields
    lists = [(each.name, each.type.element) for each in fields if isinstance(each.type, Array)]
    coded = [name for name, element in lists if isinstance(element, Schema) and any(_codes(element.cls))]
    return any(each.name == "error_code" for each in fields), tuple(coded)
