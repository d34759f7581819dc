"""Produce requests with their results, as the broker processes them.

Produce is the most frequent request, often with few bytes. Its codec is therefore written by hand, and compiled with
the rest of the hot path (docs/decisions/0006). It decodes into the objects from which the response is encoded. The
layout of every version is that of kwire.protocol.messages.produce; tests compare this codec with the generated one.

    request     transactional id, acks, timeout, topics: (name or id, partitions: (index, records))
    response    topics: (name or id, partitions: (index, error, base offset, append time, log start, record errors,
                message)), throttle time
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be, write_i64_be

from kwire.protocol.codec import Decoder
from kwire.protocol.error_codes import EncodeError, ProtocolError
from kwire.protocol.framing import Framer, PiecesFramer
from kwire.protocol.primitives import Buffer
from kwire.protocol.records import CODEC_MASK
from kwire.protocol.wire import (
    STRING_BYTES_MAX,
    append_unsigned_varint,
    read_rest,
    read_string_length,
    skip_tags,
    uuid_from,
)

if TYPE_CHECKING:
    from uuid import UUID

SMALL_BYTES_MAX: Final = 8 * 1024
"""Size of a request whose batches, if uncompressed, are appended within one or two milliseconds."""
ATTRIBUTES_LOW_BYTE_POSITION: Final = 22
"""Position of the byte of a batch that contains its codec and the transactional flag."""
PRODUCED_ELEMENTS_MAX: Final = 10_000
"""Most topics and partitions of a request. They are fewer than `kwire.protocol.schema.ELEMENTS_MAX`, which limits other
requests: this decoder creates all of them in one step."""
FRAMED_AT_ONCE: Final = 128
"""Partitions of a response that are encoded in one step, if it is encoded in pieces."""
LOG_START_SINCE: Final = 5
RECORD_ERRORS_SINCE: Final = 8
FLEXIBLE_SINCE: Final = 9
LEADERS_SINCE: Final = 10
TOPIC_IDS_SINCE: Final = 13

_UNDERFLOW: Final = (IndexError, ValueError)


class ProducedPartition:
    """Batch for one partition, and its result."""

    __slots__ = (
        "base_offset",
        "current_leader",
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
        """(index in the batch, message) of single records."""
        self.error_message: str | None = None
        self.current_leader: tuple[int, int] | None = None
        """(leader id, leader epoch), if this broker does not lead the partition and the leader is known."""


class ProducedTopic:
    """Partitions of one topic, identified by id from version 13 on, before by name; the other one is unset."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[ProducedPartition] = []


class ProduceExchange:
    """Produce request with its response."""

    __slots__ = (
        "acks",
        "codecs",
        "is_small",
        "node_endpoints",
        "throttle_time_ms",
        "timeout_ms",
        "topics",
        "transactional_id",
    )

    def __init__(self, transactional_id: str | None, acks: int, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics: list[ProducedTopic] = []
        self.codecs = 0
        """Codec bits of all batches; 0 if none is compressed."""
        self.is_small = False
        """True if the whole request has at most SMALL_BYTES_MAX bytes."""
        self.throttle_time_ms = 0
        self.node_endpoints: Sequence[tuple[int, str, int, str | None]] = ()
        """(node id, host, port, rack) of the current leaders in the response."""


def exchange_decoder(version: int) -> Decoder[ProduceExchange]:
    """Return the decoder of a version: (frame, position) -> (exchange, position after it)."""

    def decode(frame: bytes | bytearray, position: int) -> tuple[ProduceExchange, int]:
        return decode_exchange(bytes(frame), position, version)

    return decode


def exchange_framer(version: int) -> Framer:
    """Return the framer for responses of a version: (correlation id, exchange) -> the buffers to write."""

    def frame(correlation_id: int, exchange: ProduceExchange) -> list[Buffer]:
        return [frame_exchange(correlation_id, exchange, version)]

    return frame


def decode_exchange(frame: bytes, position: int, version: int) -> tuple[ProduceExchange, int]:
    """Decode a request's body: (exchange, position after it). Raises ProtocolError."""
    try:
        if version < FLEXIBLE_SINCE:
            exchange, position = _decode(frame, position)
        else:
            exchange, position = _decode_flexible(frame, position, version)
    except _UNDERFLOW as error:
        raise ProtocolError(f"ProduceRequest v{version}: {error}") from error
    if position > len(frame):
        raise ProtocolError(f"ProduceRequest v{version} ends {position - len(frame)} bytes early")
    exchange.is_small = len(frame) <= SMALL_BYTES_MAX
    return exchange, position


def _decode(frame: bytes, position: int) -> tuple[ProduceExchange, int]:
    transactional_id, position = _string_or_null(frame, position)
    exchange = ProduceExchange(transactional_id, read_i16_be(frame, position), read_i32_be(frame, position + 2))
    topic_count: int = read_i32_be(frame, position + 6)
    position += 10
    elements = _count_elements(topic_count, 6, len(frame) - position, 0)
    for _ in range(topic_count):
        name, position = _string_or_null(frame, position)
        if name is None:
            raise ProtocolError("name has length -1")
        topic = ProducedTopic(name, None)
        exchange.topics.append(topic)
        count: int = read_i32_be(frame, position)
        position += 4
        elements = _count_elements(count, 8, len(frame) - position, elements)
        for _ in range(count):
            index: int = read_i32_be(frame, position)
            size: int = read_i32_be(frame, position + 4)
            position += 8
            if size >= 0:
                topic.partitions.append(ProducedPartition(index, frame[position : position + size]))
                if size > ATTRIBUTES_LOW_BYTE_POSITION:
                    exchange.codecs |= frame[position + ATTRIBUTES_LOW_BYTE_POSITION] & CODEC_MASK
                position += size
            elif size == -1:
                topic.partitions.append(ProducedPartition(index, None))
            else:
                raise ProtocolError(f"records has length {size}")
    return exchange, position


def _string_or_null(frame: bytes, position: int) -> tuple[str | None, int]:
    size: int = read_i16_be(frame, position)
    position += 2
    if size >= 0:
        return frame[position : position + size].decode(), position + size
    if size != -1:
        raise ProtocolError(f"a string has length {size}")
    return None, position


def _decode_flexible(frame: bytes, position: int, version: int) -> tuple[ProduceExchange, int]:
    transactional_id, position = _compact_string_or_null(frame, position)
    exchange = ProduceExchange(transactional_id, read_i16_be(frame, position), read_i32_be(frame, position + 2))
    position += 6
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
            index: int = read_i32_be(frame, position)
            size, position = _compact_length(frame, position + 4)
            records: bytes | None = None
            if size >= 0:
                records = frame[position : position + size]
                if size > ATTRIBUTES_LOW_BYTE_POSITION:
                    exchange.codecs |= frame[position + ATTRIBUTES_LOW_BYTE_POSITION] & CODEC_MASK
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
    """Return a length or count, -1 for null, and the position after it.

    One byte is read in place, here and below: 1.6 times as fast as with a call of read_unsigned_varint.
    """
    size = frame[position]
    position += 1
    if size > 127:
        size, position = read_rest(frame, position, size)
    return size - 1, position


def _skip_tags(frame: bytes, position: int) -> int:
    count = frame[position]
    return position + 1 if count == 0 else skip_tags(frame, position + 1, count)


def _count_elements(count: int, smallest: int, rest: int, elements: int) -> int:
    """Return the number of elements so far; reject impossible counts before any object is created."""
    if count < 0:
        raise ProtocolError(f"an array has length {count}")
    if count * smallest > rest:
        raise ProtocolError(f"an array claims {count} elements")
    if elements + count > PRODUCED_ELEMENTS_MAX:
        raise ProtocolError(f"an array brings the request to {elements + count} elements")
    return elements + count


def exchange_pieces_framer(version: int) -> PiecesFramer:
    """Return the framer in pieces for responses of a version."""
    return partial(_frame_in_pieces, version)


def _frame_in_pieces(
    version: int, correlation_id: int, exchange: ProduceExchange
) -> Generator[None, None, list[Buffer]]:
    out = _begun(correlation_id, exchange, version)
    for topic in exchange.topics:
        _begin_topic(out, topic, version)
        for number, partition in enumerate(topic.partitions, 1):
            _append_partition(out, partition, version)
            if number % FRAMED_AT_ONCE == 0:
                yield
        _end_topic(out, version)
        yield
    return [_finished(out, exchange, version)]


def frame_exchange(correlation_id: int, exchange: ProduceExchange, version: int) -> bytes:
    """Return the response with its size and header."""
    out = _begun(correlation_id, exchange, version)
    for topic in exchange.topics:
        _begin_topic(out, topic, version)
        for partition in topic.partitions:
            _append_partition(out, partition, version)
        _end_topic(out, version)
    return _finished(out, exchange, version)


def _begun(correlation_id: int, exchange: ProduceExchange, version: int) -> BytesWriter:
    """Return a writer with the header and the number of topics."""
    out = BytesWriter()
    write_i32_be(out, 0)  # placeholder for the size
    write_i32_be(out, correlation_id)
    if version < FLEXIBLE_SINCE:
        write_i32_be(out, len(exchange.topics))
    else:
        out.append(0)
        append_unsigned_varint(out, len(exchange.topics) + 1)
    return out


def _begin_topic(out: BytesWriter, topic: ProducedTopic, version: int) -> None:
    if version >= TOPIC_IDS_SINCE:
        assert topic.topic_id is not None
        out.write(topic.topic_id.bytes)
    elif version >= FLEXIBLE_SINCE:
        _append_compact_string(out, topic.name)
    else:
        _append_string(out, topic.name)
    if version < FLEXIBLE_SINCE:
        write_i32_be(out, len(topic.partitions))
    else:
        append_unsigned_varint(out, len(topic.partitions) + 1)


def _append_partition(out: BytesWriter, partition: ProducedPartition, version: int) -> None:
    write_i32_be(out, partition.index)
    write_i16_be(out, partition.error_code)
    write_i64_be(out, partition.base_offset)
    write_i64_be(out, partition.log_append_time_ms)
    if version >= LOG_START_SINCE:
        write_i64_be(out, partition.log_start_offset)
    if version >= FLEXIBLE_SINCE:
        _append_errors_flexible(out, partition, version)
    elif version >= RECORD_ERRORS_SINCE:
        write_i32_be(out, len(partition.record_errors))
        for index, message in partition.record_errors:
            write_i32_be(out, index)
            _append_string(out, message)
        _append_string(out, partition.error_message)


def _append_errors_flexible(out: BytesWriter, partition: ProducedPartition, version: int) -> None:
    append_unsigned_varint(out, len(partition.record_errors) + 1)
    for index, message in partition.record_errors:
        write_i32_be(out, index)
        _append_compact_string(out, message)
        out.append(0)
    _append_compact_string(out, partition.error_message)
    if partition.current_leader is None or version < LEADERS_SINCE:
        out.append(0)
    else:
        _append_leader(out, partition.current_leader)


def _end_topic(out: BytesWriter, version: int) -> None:
    if version >= FLEXIBLE_SINCE:
        out.append(0)


def _finished(out: BytesWriter, exchange: ProduceExchange, version: int) -> bytes:
    """Write the end and the size, and return the bytes."""
    write_i32_be(out, exchange.throttle_time_ms)
    if version >= FLEXIBLE_SINCE:
        if not exchange.node_endpoints or version < LEADERS_SINCE:
            out.append(0)
        else:
            _append_endpoints(out, exchange.node_endpoints)
    size = len(out) - 4
    out[0], out[1], out[2], out[3] = size >> 24 & 255, size >> 16 & 255, size >> 8 & 255, size & 255
    return out.getvalue()


def _append_string(out: BytesWriter, text: str | None) -> None:
    if text is None:
        write_i16_be(out, -1)
        return
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise EncodeError(f"a string has {len(data)} bytes")
    write_i16_be(out, len(data))
    out.write(data)


def _append_leader(out: BytesWriter, leader: tuple[int, int]) -> None:
    """Write a tag section with one tag, 0: two numbers and no tags."""
    out.append(1)
    out.append(0)
    out.append(9)
    write_i32_be(out, leader[0])
    write_i32_be(out, leader[1])
    out.append(0)


def _append_endpoints(out: BytesWriter, endpoints: Sequence[tuple[int, str, int, str | None]]) -> None:
    """Write a tag section with one tag, 0: an array of nodes."""
    nodes = BytesWriter()
    append_unsigned_varint(nodes, len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        write_i32_be(nodes, node_id)
        _append_compact_string(nodes, host)
        write_i32_be(nodes, port)
        _append_compact_string(nodes, rack)
        nodes.append(0)
    out.append(1)
    out.append(0)
    append_unsigned_varint(out, len(nodes))
    out.write(nodes.getvalue())


def _append_compact_string(out: BytesWriter, text: str | None) -> None:
    if text is None:
        out.append(0)
        return
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise EncodeError(f"a string has {len(data)} bytes")
    append_unsigned_varint(out, len(data) + 1)
    out.write(data)
