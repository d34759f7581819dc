"""Compression codecs of record batches, with a limit on the decompressed size.

A length field inside compressed data is never used as the size of an allocation. Output buffers start small and grow up
to the caller's limit. A few bytes from a peer therefore cannot allocate more memory than the limit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

Data = bytes | bytearray | memoryview

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit for callers without a configured one."""

ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
"""Largest window size: RFC 8878 recommends that decoders support 8 MiB.

For a larger one, the decoder would allocate it before any output.
"""

_ZSTD_BLOCKS_MAX: Final = 8192
"""Most blocks of zstd data. A full block has 128 KiB decompressed; the limit is for many tiny ones."""
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50
"""First of 16 numbers that mark a frame without content."""
_ZSTD_RLE_BLOCK: Final = 1

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = struct.Struct(">i")


class Codec(IntEnum):
    """Compression codec: bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_NAMES: Final[dict[str, Codec]] = {
    "uncompressed": Codec.NONE,
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class CompressionError(Exception):
    """Data that are not a valid stream of their codec."""


class DecompressedTooLargeError(CompressionError):
    """Data that exceed the limit when decompressed."""


def compress(codec: Codec, data: Data, level: int | None = None) -> bytes:
    """Compress data with the framing that Java clients write and every client reads."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, wbits=31)
        return packer.compress(data) + packer.flush()
    if codec is Codec.SNAPPY:
        return _compress_snappy(data)
    if codec is Codec.LZ4:
        return _compress_lz4(data, level)
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def decompress(codec: Codec, data: Data, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return the decompressed bytes. Raises DecompressedTooLargeError if they exceed bytes_max."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        return _decompress_gzip(data, bytes_max)
    if codec is Codec.SNAPPY:
        return _decompress_snappy(data, bytes_max)
    if codec is Codec.LZ4:
        return _decompress_growing(cramjam.lz4.decompress_into, data, bytes_max)
    _check_zstd_frames(memoryview(data), bytes_max)
    return _decompress_growing(cramjam.zstd.decompress_into, data, bytes_max)


def _compress_snappy(data: Data) -> bytes:
    """Compress with Xerial's framing: a header, then blocks with their compressed lengths."""
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _compress_lz4(data: Data, level: int | None) -> bytes:
    # Java's reader rejects linked blocks.
    packer = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    packer.compress(bytes(data))
    return bytes(packer.finish())


def _decompress_gzip(data: Data, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    room = bytes_max
    rest: Data = data
    while rest:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(rest, room + 1)
        except zlib.error as error:
            raise CompressionError(f"invalid gzip data: {error}") from error
        room -= len(part)
        if room < 0:
            raise DecompressedTooLargeError(f"more than {bytes_max} bytes once decompressed")
        if not member.eof:
            raise CompressionError("gzip data ends early")
        parts.append(part)
        rest = member.unused_data
    return b"".join(parts)


def _decompress_snappy(data: Data, bytes_max: int) -> bytes:
    """Decompress Xerial's framing, as Java writes it, or one raw block, as librdkafka may write it."""
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _snappy_block(view, bytes_max, bytes_max)
    parts: list[bytes] = []
    room = bytes_max
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + 4 > len(view):
            raise CompressionError("snappy data ends inside a block length")
        size = _INT32.unpack_from(view, position)[0]
        position += 4
        if size < 0 or position + size > len(view):
            raise CompressionError("snappy block length is larger than the data")
        part = _snappy_block(view[position : position + size], room, bytes_max)
        room -= len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _snappy_block(block: memoryview, room: int, bytes_max: int) -> bytes:
    try:
        declared = cramjam.snappy.decompress_raw_len(block)
        # A block of n bytes cannot expand beyond 64 n/3: a copy element of 3 bytes yields at most 64.
        if declared > max(64, 22 * len(block)):
            raise CompressionError("snappy block declares more than it can hold")
        if declared > room:
            raise DecompressedTooLargeError(f"more than {bytes_max} bytes once decompressed")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CompressionError(f"invalid snappy data: {error}") from error


def _check_zstd_frames(data: memoryview, bytes_max: int) -> None:
    """Reject frames with a window above the limit, before the decoder allocates it (RFC 8878, 3.1.1).

    Data that are no zstd frames are left to the decoder.
    """
    position, blocks = 0, 0
    while position + 5 < len(data):
        magic = _uint(data, position, 4)
        if magic & ~15 == _ZSTD_SKIPPABLE_MAGIC:
            position += 8 + _uint(data, position + 4, 4)
            continue
        if magic != _ZSTD_MAGIC:
            return
        descriptor = data[position + 4]
        position = _check_zstd_header(data, position + 5, descriptor, bytes_max)
        is_last = False
        while not is_last and position + 3 <= len(data):
            header = _uint(data, position, 3)
            is_last = bool(header & 1)
            position += 3 + (1 if header >> 1 & 3 == _ZSTD_RLE_BLOCK else header >> 3)
            blocks += 1
            if blocks > _ZSTD_BLOCKS_MAX:
                raise CompressionError(f"zstd data have more than {_ZSTD_BLOCKS_MAX} blocks")
        position += 4 if descriptor & 4 else 0  # the checksum


def _check_zstd_header(data: memoryview, position: int, descriptor: int, bytes_max: int) -> int:
    """Return the position after a frame's header, whose fields begin at `position`."""
    is_single_segment = bool(descriptor & 0x20)  # its window is its content
    size_bytes = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    if is_single_segment:
        window = _uint(data, position + dictionary_bytes, size_bytes) + (256 if size_bytes == 2 else 0)
        window_max = bytes_max
    else:
        exponent, mantissa = data[position] >> 3, data[position] & 7
        window = (1 << (10 + exponent)) * (8 + mantissa) // 8
        window_max = max(ZSTD_WINDOW_BYTES_MAX, bytes_max)
        position += 1
    if window > window_max:
        raise DecompressedTooLargeError(f"the zstd frame requires a window of {window} bytes")
    return position + dictionary_bytes + size_bytes


def _uint(data: memoryview, position: int, size: int) -> int:
    return int.from_bytes(data[position : position + size], "little")


def _decompress_growing(decompress_into: Callable[[Data, bytearray], int], data: Data, bytes_max: int) -> bytes:
    capacity = min(bytes_max, max(4096, 6 * len(data)))
    while True:
        output = bytearray(capacity)
        try:
            return bytes(memoryview(output)[: decompress_into(data, output)])
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise CompressionError(f"invalid compressed data: {error}") from error
        if capacity >= bytes_max:
            raise DecompressedTooLargeError(f"more than {bytes_max} bytes once decompressed")
        capacity = min(bytes_max, capacity * 4)
