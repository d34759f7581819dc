"""Hand-written encoder for the record of a committed offset, as every commit writes it.

A busy consumer group writes one of these for each batch it reads, so the encoder is compiled with the rest of the hot
path (docs/decisions/0006). kwire.protocol.messages.group_records declares the same layouts, and decodes them; tests
compare the two.

    key    int16 1, string group, string topic, int32 partition
    value  int16 4, int64 offset, int32 leader epoch, compact string metadata, int64 commit timestamp, tag section with
           the topic's id as tag 0 unless it is unknown
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from kwire.protocol.error_codes import EncodeError
from kwire.protocol.primitives import ZERO_UUID
from kwire.protocol.wire import STRING_BYTES_MAX, append_unsigned_varint

if TYPE_CHECKING:
    from uuid import UUID

KEY_TYPE: Final = 1
VALUE_VERSION: Final = 4
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
"""Prefix of a tag section: one tagged field, tag 0, 16 bytes."""


def encode_offset_commit_key(group: str, topic: str, partition: int) -> bytes:
    """Return the key of a commit. Raises EncodeError for a name longer than Kafka's strings may be."""
    out = BytesWriter()
    write_i16_be(out, KEY_TYPE)
    for name in (group, topic):
        encoded = _encoded(name)
        write_i16_be(out, len(encoded))
        out.write(encoded)
    write_i32_be(out, partition)
    return out.getvalue()


def encode_offset_commit_value(
    offset: int, leader_epoch: int, metadata: str, commit_timestamp_ms: int, topic_id: UUID
) -> bytes:
    """Return the value of a commit. Raises EncodeError for metadata longer than Kafka's strings may be."""
    out = BytesWriter()
    write_i16_be(out, VALUE_VERSION)
    write_i64_be(out, offset)
    write_i32_be(out, leader_epoch)
    encoded = _encoded(metadata)
    append_unsigned_varint(out, len(encoded) + 1)
    out.write(encoded)
    write_i64_be(out, commit_timestamp_ms)
    if topic_id == ZERO_UUID:
        out.append(0)
    else:
        out.write(_TOPIC_ID_TAG)
        out.write(topic_id.bytes)
    return out.getvalue()


def _encoded(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise EncodeError(f"a string has {len(encoded)} bytes, more than {STRING_BYTES_MAX}")
    return encoded
