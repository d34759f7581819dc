"""Messages to bytes and back.

Each (class, version) has one decoder and one encoder, compiled on first use: see decoder_source and encoder_source.
Dispatch keeps the compiled functions; everybody else calls decode and encode.

A decoder raises ProtocolError for whatever the peer got wrong, and takes time and memory in proportion to its input. An
encoder raises EncodeError for a value that the version cannot express: that is our mistake, not the peer's.
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
"""Record buffers that were left out of the encoded bytes, each with the position where it belongs."""


class Decoder(Protocol[T_co]):
    def __call__(self, buffer: bytes | bytearray, position: int, /) -> tuple[T_co, int]: ...


class PiecesDecoder(Protocol[T_co]):
    """A decoder that stops now and then (source.STEPS), for a message of which there may be much."""

    def __call__(self, buffer: bytes | bytearray, position: int, /) -> Generator[None, None, tuple[T_co, int]]: ...


class Encoder(Protocol[T_contra]):
    def __call__(self, message: T_contra, out: bytearray, detached: Detached | None, /) -> None: ...


class PiecesEncoder(Protocol[T_contra]):
    """A generator that encodes and yields every source.STEPS elements; only it may write to `out` until its end."""

    def __call__(
        self, message: T_contra, out: bytearray, detached: Detached | None, /
    ) -> Generator[None, None, None]: ...


_decoders: dict[tuple[type, int], Callable[..., Any]] = {}
_encoders: dict[tuple[type, int], Callable[..., Any]] = {}
_pieces_decoders: dict[tuple[type, int], Callable[..., Any]] = {}
_pieces_encoders: dict[tuple[type, int], Callable[..., Any]] = {}


def decoder(cls: type[T], version: int) -> Decoder[T]:
    """The compiled decoder: (buffer, position) -> (message, position behind it)."""
    compiled = _decoders.get((cls, version))
    if compiled is None:
        schema = schema_of(cls)
        if version not in schema.versions:
            raise ProtocolError(f"{schema.name} has no version {version}")
        compiled = _decoders[cls, version] = compile_decoder(schema, version)
    return compiled


def encoder(cls: type[T], version: int) -> Encoder[T]:
    """The compiled encoder: appends a message to a bytearray; see `encode`."""
    compiled = _encoders.get((cls, version))
    if compiled is None:
        schema = schema_of(cls)
        if version not in schema.versions:
            raise EncodeError(f"{schema.name} has no version {version}")
        compiled = _encoders[cls, version] = compile_encoder(schema, version)
    return compiled


def pieces_decoder(cls: type[T], version: int) -> PiecesDecoder[T]:
    """Return the decoder in pieces, which is compiled when it is first asked for."""
    compiled = _pieces_decoders.get((cls, version))
    if compiled is None:
        compiled = _pieces_decoders[cls, version] = compile_decoder(schema_of(cls), version, in_pieces=True)
    return compiled


def pieces_encoder(cls: type[T], version: int) -> PiecesEncoder[T]:
    """Return the encoder in pieces, which is compiled when it is first asked for."""
    compiled = _pieces_encoders.get((cls, version))
    if compiled is None:
        compiled = _pieces_encoders[cls, version] = compile_encoder(schema_of(cls), version, in_pieces=True)
    return compiled


def decode(cls: type[T], version: int, buffer: bytes | bytearray, position: int = 0) -> T:
    """The message at `position`. Bytes behind it are ignored, as Kafka ignores them in requests."""
    return decoder(cls, version)(buffer, position)[0]


def decode_prefix(cls: type[T], version: int, buffer: bytes | bytearray, position: int = 0) -> tuple[T, int]:
    """The message at `position`, and the position behind it."""
    return decoder(cls, version)(buffer, position)


def encode(value: object, version: int, out: bytearray, detached: Detached | None = None) -> None:
    """Append a message to `out`.

    With `detached`, record batches are not copied: their length prefix is written, and (len(out), buffer) noted, for a
    caller that hands the pieces to the socket one by one.
    """
    encoder(type(value), version)(value, out, detached)
