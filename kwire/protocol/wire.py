"""The pieces that compiled codecs call: variable-length integers, tag sections, UUIDs.

All readers take (buffer, position) and give the new position back. None of them reads past the buffer: indexing and
Struct.unpack_from raise there, and kwire.protocol.codec turns that into a ProtocolError.

    unsigned varint   7 bits a byte, lowest first; the top bit says that more follow; at most 5 bytes for 32 bits
    tag section       unsigned varint count, then for each: unsigned varint tag, unsigned varint size, that many bytes
"""

from functools import lru_cache
from uuid import UUID

from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.primitives import Buffer

TAGS_MAX = 1024
"""No message has more than a dozen tagged fields; the rest is room for those that are not known here."""
STRING_BYTES_MAX = 0x7FFF
"""Kafka refuses longer strings in flexible versions too, though their length prefix could say more."""
_VARINT_SHIFT_MAX = 28


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 128:
        return byte, position + 1
    return read_rest(buffer, position + 1, byte)


def read_rest(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The value of an unsigned varint whose first byte is read already and says that more follow."""
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
    """As read_rest, for a compact string's length + 1."""
    value, position = read_rest(buffer, position, first)
    if value > STRING_BYTES_MAX + 1:
        raise ProtocolError(f"a string claims {value - 1} bytes")
    return value, position


def read_tag_count(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """As read_rest, but also for one-byte counts: a tag section's count, checked against what can follow."""
    count = first
    if first > 127:
        count, position = read_rest(buffer, position, first)
    if count > TAGS_MAX or count * 2 > len(buffer) - position:
        raise ProtocolError(f"{count} tagged fields are claimed")
    return count, position


def read_tag(buffer: Buffer, position: int, previous: int) -> tuple[int, int, int]:
    """(tag, position of its value, position behind its value); tags must ascend."""
    tag, position = read_unsigned_varint(buffer, position)
    size, position = read_unsigned_varint(buffer, position)
    if tag <= previous:
        raise ProtocolError(f"tag {tag} follows tag {previous}")
    if size > len(buffer) - position:
        raise ProtocolError(f"tag {tag} claims {size} bytes")
    return tag, position, position + size


def skip_tags(buffer: Buffer, position: int, first: int) -> int:
    """The position behind a tag section whose first byte is read already."""
    count, position = read_tag_count(buffer, position, first)
    previous = -1
    for _ in range(count):
        previous, _, position = read_tag(buffer, position, previous)
    return position


@lru_cache(maxsize=4096)
def uuid_from(raw: bytes) -> UUID:
    """The UUID of 16 bytes. The same topics are named again and again; remembering a UUID costs less than making it."""
    return UUID(bytes=raw)


def write_unsigned_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append((value & 0x7F) | 0x80)
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
