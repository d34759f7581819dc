"""Functions that compiled codecs call: variable-length integers, tag sections, UUIDs.

All readers take (buffer, position) and return the new position. None of them reads beyond the buffer: indexing and
Struct.unpack_from raise there, and kwire.protocol.codec converts that to a ProtocolError.

    unsigned varint   7 bits a byte, lowest first; the top bit says that more follow; at most 5 bytes for 32 bits
    tag section       unsigned varint count, then for each: unsigned varint tag, unsigned varint size, that many bytes
"""

from functools import lru_cache
from uuid import UUID

from librt.strings import BytesWriter

from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.primitives import Buffer

TAGS_MAX = 1024
"""Most tagged fields of a message; known messages have at most a dozen, the rest is room for unknown ones."""
EARLY_TAGS_MAX = 64
"""Most tagged fields of a message that is served before a client authenticates (CVE-2026-111115)."""
STRING_BYTES_MAX = 0x7FFF
"""Longest string; Kafka rejects longer ones in flexible versions too, although their length prefix allows them."""
_VARINT_SHIFT_MAX = 28


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 128:
        return byte, position + 1
    return read_rest(buffer, position + 1, byte)


def read_rest(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Return an unsigned varint of several bytes, whose first byte was already read, and the position after it."""
    value, shift = first & 0x7F, 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            break
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise ProtocolError("a varint has more than 5 bytes")
    if value > 0xFFFFFFFF:
        raise ProtocolError("a varint has more than 32 bits")
    return value, position


def read_string_length(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Do what read_rest does, for a compact string's length + 1. Raises ProtocolError for a string that is too long."""
    value, position = read_rest(buffer, position, first)
    if value > STRING_BYTES_MAX + 1:
        raise ProtocolError(f"a string claims {value - 1} bytes")
    return value, position


def read_tag_count(buffer: Buffer, position: int, first: int, tags_max: int = TAGS_MAX) -> tuple[int, int]:
    """Return a tag section's count, checked against the remaining bytes; also for counts of one byte."""
    count = first
    if first > 127:
        count, position = read_rest(buffer, position, first)
    if count > tags_max or count * 2 > len(buffer) - position:
        raise ProtocolError(f"{count} tagged fields are declared")
    return count, position


def read_tag(buffer: Buffer, position: int, previous: int) -> tuple[int, int, int]:
    """Return (tag, position of its value, position after its value). Raises ProtocolError unless tags ascend."""
    tag, position = read_unsigned_varint(buffer, position)
    size, position = read_unsigned_varint(buffer, position)
    if tag <= previous:
        raise ProtocolError(f"tag {tag} follows tag {previous}")
    if size > len(buffer) - position:
        raise ProtocolError(f"tag {tag} claims {size} bytes")
    return tag, position, position + size


def skip_tags(buffer: Buffer, position: int, first: int, tags_max: int = TAGS_MAX) -> int:
    """Return the position after a tag section whose first byte was already read."""
    count, position = read_tag_count(buffer, position, first, tags_max)
    previous = -1
    for _ in range(count):
        previous, _, position = read_tag(buffer, position, previous)
    return position


@lru_cache(maxsize=4096)
def uuid_from(raw: bytes) -> UUID:
    """Return the UUID of 16 bytes. Cached, because the same topics recur and creating a UUID takes longer."""
    return UUID(bytes=raw)


def write_unsigned_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def append_unsigned_varint(out: BytesWriter, value: int) -> None:
    """Like `write_unsigned_varint`, for a native type: compiled code calls its methods directly."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def write_string_length(out: bytearray, length_plus_one: int) -> None:
    if length_plus_one > STRING_BYTES_MAX + 1:
        raise ValueError(f"a string has {length_plus_one - 1} bytes, more than {STRING_BYTES_MAX}")
    write_unsigned_varint(out, length_plus_one)


def write_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    write_unsigned_varint(out, len(tags))
    for tag, value in tags:
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(value))
        out += value
