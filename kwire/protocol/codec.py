"""Encoding of messages to bytes, and decoding.

Each (class, version) has one decoder and one encoder, compiled on first use: see decoder_source and encoder_source.
Dispatch keeps the compiled functions; all other callers use decode and encode.

A decoder raises ProtocolError for any invalid input from the peer; its time and memory are proportional to its input.
An encoder raises EncodeError for a value that the version cannot express, which is an error of the caller.
"""

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

from kwire.protocol.decoder_source import compile_decoder
from kwire.protocol.encoder_source import compile_encoder
from kwire.protocol.error_codes import EncodeError, ProtocolError
from kwire.protocol.primitives import Buffer
from kwire.protocol.schema import schema_of

__all__ = [
    "Decoder",
    "Detached",
    "EncodeError",
    "Encoder",
    "PiecesDecoder",
    "PiecesEncoder",
    "decode",
    "decode_prefix",
    "decoder",
    "encode",
    "encoder",
    "pieces_decoder",
    "pieces_encoder",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
Detached = list[tuple[int, Buffer]]
"""Record buffers that are not part of the encoded bytes, each with its position in them."""


class Decoder(Protocol[T_co]):
    def __call__(self, buffer: bytes | bytearray, position: int, /) -> tuple[T_co, int]: ...


class PiecesDecoder(Protocol[T_co]):
    """Decoder for large messages that yields after every source.STEPS elements."""

    def __call__(self, buffer: bytes | bytearray, position: int, /) -> Generator[None, None, tuple[T_co, int]]: ...


class Encoder(Protocol[T_contra]):
    def __call__(self, message: T_contra, out: bytearray, detached: Detached | None, /) -> None: ...


class PiecesEncoder(Protocol[T_contra]):
    """Generator that encodes, and yields after every source.STEPS elements; the caller must not write to `out`."""

    def __call__(
        self, message: T_contra, out: bytearray, detached: Detached | None, /
    ) -> Generator[None, None, None]: ...


_decoders: dict[tuple[type, int], Callable[..., Any]] = {}
_encoders: dict[tuple[type, int], Callable[..., Any]] = {}
_pieces_decoders: dict[tuple[type, int], Callable[..., Any]] = {}
_pieces_encoders: dict[tuple[type, int], Callable[..., Any]] = {}


def decoder(cls: type[T], version: int) -> Decoder[T]:
    """Return the compiled decoder: (buffer, position) -> (message, position after it)."""
    compiled = _decoders.get((cls, version))
    if compiled is None:
        schema = schema_of(cls)
        if version not in schema.versions:
            raise ProtocolError(f"{schema.name} has no version {version}")
        compiled = _decoders[cls, version] = compile_decoder(schema, version)
    return compiled


def encoder(cls: type[T], version: int) -> Encoder[T]:
    """Return the compiled encoder, which appends a message to a bytearray; see `encode`."""
    compiled = _encoders.get((cls, version))
    if compiled is None:
        schema = schema_of(cls)
        if version not in schema.versions:
            raise EncodeError(f"{schema.name} has no version {version}")
        compiled = _encoders[cls, version] = compile_encoder(schema, version)
    return compiled


def pieces_decoder(cls: type[T], version: int) -> PiecesDecoder[T]:
    """Return the decoder in pieces, compiled on first use."""
    compiled = _pieces_decoders.get((cls, version))
    if compiled is None:
        compiled = _pieces_decoders[cls, version] = compile_decoder(schema_of(cls), version, in_pieces=True)
    return compiled


def pieces_encoder(cls: type[T], version: int) -> PiecesEncoder[T]:
    """Return the encoder in pieces, compiled on first use."""
    compiled = _pieces_encoders.get((cls, version))
    if compiled is None:
        compiled = _pieces_encoders[cls, version] = compile_encoder(schema_of(cls), version, in_pieces=True)
    return compiled


def decode(cls: type[T], version: int, buffer: bytes | bytearray, position: int = 0) -> T:
    """Return the message at `position`. Bytes after it are ignored, as Kafka does in requests."""
    return decoder(cls, version)(buffer, position)[0]


def decode_prefix(cls: type[T], version: int, buffer: bytes | bytearray, position: int = 0) -> tuple[T, int]:
    """Return the message at `position`, and the position after it."""
    return decoder(cls, version)(buffer, position)


def encode(value: object, version: int, out: bytearray, detached: Detached | None = None) -> None:
    """Append a message to `out`.

    With `detached`, record batches are not copied: their length prefix is written, and (len(out), buffer) is added to
    `detached`, for a caller that passes the pieces to the socket one by one.
    """
    encoder(type(value), version)(value, out, detached)
