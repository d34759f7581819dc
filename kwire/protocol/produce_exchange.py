"""Produce as the broker handles it: what a client sends, and beside each batch what became of it.

Produce is what a broker does most, with a few bytes at a time. Its codec is therefore written by hand, reads into the
objects that the answer is written from, and is compiled where the rest of the hot path is (docs/decisions/0006). The
layout of every version is that of kwire.protocol.messages.produce, whose compiled codec says what must come out; the
tests hold the two against each other.

    request     transactional id, acks, timeout, topics: (name or id, partitions: (index, records))
    response    topics: (name or id, partitions: (index, error, base offset, append time, log start, record errors,
                message)), throttle time
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kwire.protocol.codec import Decoder, Detached, Encoder
from kwire.protocol.decoder_source import ELEMENTS_MAX
from kwire.protocol.error_codes import EncodeError, ProtocolError
from kwire.protocol.wire import (
    read_rest,
    read_string_length,
    skip_tags,
    uuid_from,
    write_string_length,
    write_unsigned_varint,
)

if TYPE_CHECKING:
    from uuid import UUID

LOG_START_SINCE: Final = 5
RECORD_ERRORS_SINCE: Final = 8
FLEXIBLE_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 13

_COUNTS: Final = tuple(number.to_bytes(4, "big") for number in range(64))
"""Small int32s, which most of an answer is made of."""
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_TWO_INT32: Final = struct.Struct(">ii")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_OUTCOME_V2: Final = struct.Struct(">ihqq")
_OUTCOME_V5: Final = struct.Struct(">ihqqq")
_UNDERFLOW: Final = (struct.error, IndexError, ValueError)


class ProducedPartition:
    """One partition's batch, and its outcome."""

    __slots__ = (
        "base_offset",
        "error_code",
        "error_message",
        "index",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "records",
    )

    def __init__(self, index: int, records: bytes | None) -> None:
        self.index = index
        self.records = records
        self.error_code = 0
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.log_start_offset = -1
        self.record_errors: Sequence[tuple[int, str | None]] = ()
        """(index in the batch, what is wrong) of single records."""
        self.error_message: str | None = None


class ProducedTopic:
    """One topic's partitions. From version 13 on the id counts and the name is not known, before the reverse."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[ProducedPartition] = []


class ProduceExchange:
    """A produce request and the answer to it."""

    __slots__ = ("acks", "throttle_time_ms", "timeout_ms", "topics", "transactional_id")

    def __init__(self, transactional_id: str | None, acks: int, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics: list[ProducedTopic] = []
        self.throttle_time_ms = 0


def exchange_decoder(version: int) -> Decoder[ProduceExchange]:
    """The decoder of a version: (frame, position) -> (exchange, position behind it)."""

    def decode(frame: bytes | bytearray, position: int) -> tuple[ProduceExchange, int]:
        return decode_exchange(bytes(frame), position, version)

    return decode


def exchange_encoder(version: int) -> Encoder[ProduceExchange]:
    """The encoder of a version; an answer to Produce has no record batches to leave out."""

    def encode(exchange: ProduceExchange, out: bytearray, _detached: Detached | None) -> None:
        encode_exchange(exchange, out, version)

    return encode


def decode_exchange(frame: bytes, position: int, version: int) -> tuple[ProduceExchange, int]:
    """Read a request's body: (exchange, position behind it). Raises ProtocolError."""
    try:
        if version < FLEXIBLE_SINCE:
            exchange, position = _decode(frame, position)
        else:
            exchange, position = _decode_flexible(frame, position, version)
    except _UNDERFLOW as error:
        raise ProtocolError(f"ProduceRequest v{version}: {error}") from error
    if position > len(frame):
        raise ProtocolError(f"ProduceRequest v{version} ends {position - len(frame)} bytes early")
    return exchange, position


def _decode(frame: bytes, position: int) -> tuple[ProduceExchange, int]:
    transactional_id, position = _string_or_null(frame, position)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, position)
    position += 6
    exchange = ProduceExchange(transactional_id, acks, timeout_ms)
    size: int
    index: int
    count: int
    topic_count: int = _INT32.unpack_from(frame, position)[0]
    position += 4
    elements = _count_elements(topic_count, 6, len(frame) - position, 0)
    for _ in range(topic_count):
        name, position = _string_or_null(frame, position)
        if name is None:
            raise ProtocolError("name has length -1")
        topic = ProducedTopic(name, None)
        exchange.topics.append(topic)
        count = _INT32.unpack_from(frame, position)[0]
        position += 4
        elements = _count_elements(count, 8, len(frame) - position, elements)
        for _ in range(count):
            index, size = _TWO_INT32.unpack_from(frame, position)
            position += 8
            if size >= 0:
                topic.partitions.append(ProducedPartition(index, frame[position : position + size]))
                position += size
            elif size == -1:
                topic.partitions.append(ProducedPartition(index, None))
            else:
                raise ProtocolError(f"records has length {size}")
    return exchange, position


def _string_or_null(frame: bytes, position: int) -> tuple[str | None, int]:
    size: int = _INT16.unpack_from(frame, position)[0]
    position += 2
    if size >= 0:
        return frame[position : position + size].decode(), position + size
    if size != -1:
        raise ProtocolError(f"a string has length {size}")
    return None, position


def _decode_flexible(frame: bytes, position: int, version: int) -> tuple[ProduceExchange, int]:
    transactional_id, position = _compact_string_or_null(frame, position)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, position)
    position += 6
    exchange = ProduceExchange(transactional_id, acks, timeout_ms)
    topic_count, position = _compact_length(frame, position)
    smallest = 18 if version >= TOPIC_IDS_SINCE else 3
    elements = _count_elements(topic_count, smallest, len(frame) - position, 0)
    for _ in range(topic_count):
        if version >= TOPIC_IDS_SINCE:
            topic = ProducedTopic("", uuid_from(frame[position : position + 16]))
            position += 16
        else:
            name, position = _compact_string_or_null(frame, position)
            if name is None:
                raise ProtocolError("name has length -1")
            topic = ProducedTopic(name, None)
        exchange.topics.append(topic)
        count, position = _compact_length(frame, position)
        elements = _count_elements(count, 6, len(frame) - position, elements)
        for _ in range(count):
            index: int = _INT32.unpack_from(frame, position)[0]
            size, position = _compact_length(frame, position + 4)
            records: bytes | None = None
            if size >= 0:
                records = frame[position : position + size]
                position += size
            topic.partitions.append(ProducedPartition(index, records))
            position = _skip_tags(frame, position)
        position = _skip_tags(frame, position)
    return exchange, _skip_tags(frame, position)


def _compact_string_or_null(frame: bytes, position: int) -> tuple[str | None, int]:
    size = frame[position]
    position += 1
    if size > 127:
        size, position = read_string_length(frame, position, size)
    if size == 0:
        return None, position
    end = position + size - 1
    return frame[position:end].decode(), end


def _compact_length(frame: bytes, position: int) -> tuple[int, int]:
    """A length or count; -1 is null."""
    size = frame[position]
    position += 1
    if size > 127:
        size, position = read_rest(frame, position, size)
    return size - 1, position


def _skip_tags(frame: bytes, position: int) -> int:
    count = frame[position]
    return position + 1 if count == 0 else skip_tags(frame, position + 1, count)


def _count_elements(count: int, smallest: int, rest: int, elements: int) -> int:
    """Elements so far with these; what cannot be there is refused before anything is made of it."""
    if count < 0:
        raise ProtocolError(f"an array has length {count}")
    if count * smallest > rest:
        raise ProtocolError(f"an array claims {count} elements")
    if elements + count > ELEMENTS_MAX:
        raise ProtocolError(f"an array brings the request to {elements + count} elements")
    return elements + count


def encode_exchange(exchange: ProduceExchange, out: bytearray, version: int) -> None:
    """Append the body of the answer."""
    if version < FLEXIBLE_SINCE:
        _encode(exchange, out, version)
    else:
        _encode_flexible(exchange, out, version)


def _encode(exchange: ProduceExchange, out: bytearray, version: int) -> None:
    out += _int32(len(exchange.topics))
    for topic in exchange.topics:
        _append_string(out, topic.name)
        out += _int32(len(topic.partitions))
        for partition in topic.partitions:
            _append_outcome(out, partition, version)
            if version >= RECORD_ERRORS_SINCE:
                out += _int32(len(partition.record_errors))
                for index, message in partition.record_errors:
                    out += _INT32.pack(index)
                    _append_string(out, message)
                _append_string(out, partition.error_message)
    out += _int32(exchange.throttle_time_ms)


def _int32(value: int) -> bytes:
    return _COUNTS[value] if 0 <= value < len(_COUNTS) else _INT32.pack(value)


def _append_outcome(out: bytearray, partition: ProducedPartition, version: int) -> None:
    if version >= LOG_START_SINCE:
        out += _OUTCOME_V5.pack(
            partition.index,
            partition.error_code,
            partition.base_offset,
            partition.log_append_time_ms,
            partition.log_start_offset,
        )
    else:
        out += _OUTCOME_V2.pack(
            partition.index, partition.error_code, partition.base_offset, partition.log_append_time_ms
        )


def _append_string(out: bytearray, text: str | None) -> None:
    if text is None:
        out += b"\xff\xff"
        return
    data = text.encode()
    try:
        out += _INT16.pack(len(data))
    except struct.error as error:
        raise EncodeError(f"a string has {len(data)} bytes") from error
    out += data


def _encode_flexible(exchange: ProduceExchange, out: bytearray, version: int) -> None:
    write_unsigned_varint(out, len(exchange.topics) + 1)
    for topic in exchange.topics:
        if version >= TOPIC_IDS_SINCE:
            assert topic.topic_id is not None
            out += topic.topic_id.bytes
        else:
            _append_compact_string(out, topic.name)
        write_unsigned_varint(out, len(topic.partitions) + 1)
        for partition in topic.partitions:
            _append_outcome(out, partition, version)
            write_unsigned_varint(out, len(partition.record_errors) + 1)
            for index, message in partition.record_errors:
                out += _INT32.pack(index)
                _append_compact_string(out, message)
                out += b"\x00"
            _append_compact_string(out, partition.error_message)
            out += b"\x00"
        out += b"\x00"
    out += _int32(exchange.throttle_time_ms)
    out += b"\x00"


def _append_compact_string(out: bytearray, text: str | None) -> None:
    if text is None:
        out += b"\x00"
        return
    data = text.encode()
    write_string_length(out, len(data) + 1)
    out += data
