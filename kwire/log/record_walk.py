"""Validation of a batch's records: the only loop over single records on the produce path.

walk_plain() visits each record of each uncompressed batch. Its time per record is a large part of the cost of a
produced byte. It accepts common layouts only, and creates no objects or messages. Any other batch, valid or not, is
passed to walk_records(), which validates it and reports the errors.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kwire.protocol.records import NO_TIMESTAMP, InvalidRecordsError, read_varint

RECORDS_AT_ONCE: Final = 512
"""Records that are validated in one step on the event loop, which takes about a millisecond."""
FAULTS_MAX: Final = 100
"""Most faulty records that one response lists; the batch is rejected in any case."""

_ONE_BYTE_DELTAS: Final = 64
_TWO_BYTE_DELTAS: Final = 8192
PLAIN_RECORDS_MAX: Final = _TWO_BYTE_DELTAS
"""Most records of a batch that are validated in one step on the event loop."""
_ALIKE_MIN: Final = 8 if __file__.endswith(".py") else _TWO_BYTE_DELTAS + 1
"""Number of records below which validation one by one is faster; in the compiled module it always is."""
_MIXED_MAX: Final = 64
"""Records that are validated one by one before the next check for a common layout."""

_FINAL: Final = bytes(range(128))
_CONTINUED: Final = bytes(range(128, 256))
"""Last bytes of varints, and bytes that are continued."""
_NARROW_DELTAS: Final = bytes(index << 1 for index in range(_ONE_BYTE_DELTAS))
_WIDE_DELTAS: Final = (
    bytes(index << 1 & 127 | 128 for index in range(_TWO_BYTE_DELTAS)),
    bytes(index >> 6 for index in range(_TWO_BYTE_DELTAS)),
)
"""Expected columns of offset deltas: record i has delta i."""

_Walked = tuple[int, int, int, int]
"""(next index, next position, smallest timestamp delta, largest timestamp delta)."""


class RecordFault(NamedTuple):
    """Record that the topic's configuration rejects."""

    batch_index: int
    message: str
    is_timestamp: bool


@dataclass(slots=True)
class WalkRules:
    """Rules of the topic's configuration for each record."""

    needs_key: bool
    oldest: int
    newest: int
    fixed_timestamp: int | None
    """Timestamp of all records of a LogAppendTime batch; None for other batches."""


def walk_plain(batch: bytes, record_count: int, needs_key: bool, *, start: int = 0) -> tuple[int, int] | None:
    """Return the (smallest, largest) timestamp delta if the batch contains record_count plain records, else None.

    Delta 0, the base timestamp, is always included: the range may be wider than that of the records. Records of the
    same layout are checked column by column, the others one by one.
    """
    if record_count > PLAIN_RECORDS_MAX:
        return None
    index = smallest = largest = 0
    position = start
    try:
        if record_count < _ALIKE_MIN:
            taken = _walk_mixed(batch, start, 0, record_count, needs_key)
            return taken[2:] if taken is not None and taken[1] == len(batch) else None
        while index < record_count:
            taken = _walk_alike(batch, position, index, record_count, needs_key)
            if taken is None:
                taken = _walk_mixed(batch, position, index, min(index + _MIXED_MAX, record_count), needs_key)
            if taken is None:
                return None
            index, position, low, high = taken
            smallest, largest = min(smallest, low), max(largest, high)
    except (IndexError, InvalidRecordsError):
        return None
    return (smallest, largest) if position == len(batch) else None


def _walk_mixed(body: bytes, position: int, index: int, stop: int, needs_key: bool) -> _Walked | None:
    """Check the records from index to stop one by one; return None if one of them is not plain.

    The lowest bit of a length is its sign: the bits of all lengths are collected and checked once. Varints of one and
    two bytes are read in place: 1.7 times as fast as with read_varint, and 1.6 times in the compiled module.
    """
    signs = previous = smallest = largest = 0
    for expected in range(index, stop):
        byte = body[position]  # length
        signs |= byte
        if byte > 127:
            second = body[position + 1]
            if second > 127:
                return None
            end = position + 2 + ((byte & 127 | second << 7) >> 1)
            position += 3
        else:
            end = position + 1 + (byte >> 1)
            position += 2
        byte = body[position]  # timestamp delta, after the attributes
        if byte != previous or byte > 127:
            delta = byte
            if byte > 127:
                position += 1
                second = body[position]
                if second > 127:
                    return None
                delta = byte & 127 | second << 7
            previous = byte
            delta = (delta >> 1) ^ -(delta & 1)
            if delta > largest:
                largest = delta
            elif delta < smallest:
                smallest = delta
        if expected < _ONE_BYTE_DELTAS:  # offset delta
            if body[position + 1] != expected << 1:
                return None
            position += 2
        elif body[position + 2] != expected >> 6 or body[position + 1] != expected << 1 & 127 | 128:
            return None
        else:
            position += 3
        byte = body[position]  # key
        if byte > 127 or (byte == 1 and needs_key):
            return None
        if byte == 1:
            position += 1
        else:
            signs |= byte
            position += 1 + (byte >> 1)
        byte = body[position]  # value
        if byte > 127:
            second = body[position + 1]
            if second > 127:
                return None
            signs |= byte
            position += 2 + ((byte & 127 | second << 7) >> 1)
        elif byte == 1:
            position += 1
        else:
            signs |= byte
            position += 1 + (byte >> 1)
        if body[position] or position + 1 != end:  # no headers
            return None
        position = end
    return None if signs & 1 else (stop, position, smallest, largest)


def _walk_alike(body: bytes, start: int, index: int, record_count: int, needs_key: bool) -> _Walked | None:
    """Check the next records that have the layout of the first one; return None if they are too few.

    Each column is a slice with the record's size as its step, so that one comparison covers all records.
    """
    is_narrow = index < _ONE_BYTE_DELTAS
    layout = _layout(body, start, needs_key, 1 if is_narrow else 2)
    if layout is None:
        return None
    stride, timestamp_at, delta_at, constants = layout
    count = min(_ONE_BYTE_DELTAS if is_narrow else record_count, record_count) - index
    count = min(count, (len(body) - start) // stride)
    for at in constants:
        # Sizes come first: while they are equal, the next record begins at the expected position.
        column = body[at : at + count * stride : stride]
        count = len(column) - len(column.lstrip(column[:1]))
        if count < _ALIKE_MIN:
            return None
    is_wide = delta_at - timestamp_at == 2
    low = body[timestamp_at : timestamp_at + count * stride : stride]
    count = len(low) - len(low.lstrip(_CONTINUED if is_wide else _FINAL))
    if is_wide:
        high = body[timestamp_at + 1 : timestamp_at + 1 + count * stride : stride]
        count = len(high) - len(high.lstrip(_FINAL))
        zigzag = {byte & 127 | second << 7 for byte, second in set(zip(low[:count], high[:count], strict=True))}
    else:
        zigzag = set(low[:count])
    for at, table in zip((delta_at, delta_at + 1), (_NARROW_DELTAS,) if is_narrow else _WIDE_DELTAS, strict=False):
        if body[at : at + count * stride : stride] != table[index : index + count]:
            return None
    if not zigzag:
        return None
    deltas = [(value >> 1) ^ -(value & 1) for value in zigzag]
    return index + count, start + count * stride, min(deltas), max(deltas)


def _layout(body: bytes, start: int, needs_key: bool, delta_bytes: int) -> tuple[int, int, int, list[int]] | None:
    """Return (size, position of timestamp, position of offset delta, positions of lengths) of a plain record."""
    length, attributes_at = read_varint(body, start)
    timestamp_at = attributes_at + 1
    _, delta_at = read_varint(body, timestamp_at)
    key_at = delta_at + delta_bytes
    key_length, position = _length(body, key_at)
    value_at = position + max(key_length, 0)
    value_length, value_start = _length(body, value_at)
    header_count_at = value_start + max(value_length, 0)
    if (
        body[header_count_at]
        or header_count_at + 1 != attributes_at + length
        or key_length < (0 if needs_key else -1)
        or value_length < -1
        or delta_at - timestamp_at > 2
    ):
        return None
    lengths = [*range(start, attributes_at), *range(key_at, position), *range(value_at, value_start)]
    return header_count_at + 1 - start, timestamp_at, delta_at, [*lengths, header_count_at]


def walk_records(
    body: bytes, record_count: int, base_timestamp: int, rules: WalkRules, faults: list[RecordFault]
) -> Generator[None, None, int]:
    """Check that the body is exactly record_count well-formed records; return the largest timestamp.

    Well-formed records that the topic rejects are added to `faults`. Yields after every RECORDS_AT_ONCE records.
    """
    max_timestamp = NO_TIMESTAMP
    position = index = 0
    try:
        while position < len(body):
            length, position = read_varint(body, position)
            end = position + length
            if length < 0 or end > len(body):
                raise InvalidRecordsError(f"record {index} is longer than its batch")
            delta, has_key, position = _walk_record(body, position, end, index)
            timestamp = base_timestamp + delta if rules.fixed_timestamp is None else rules.fixed_timestamp
            max_timestamp = max(max_timestamp, timestamp)
            _check_record(index, timestamp, has_key, rules, faults)
            index += 1
            if index % RECORDS_AT_ONCE == 0:
                yield
    except IndexError as error:
        raise InvalidRecordsError(f"record {index} ends early") from error
    if index != record_count:
        raise InvalidRecordsError(f"the batch declares {record_count} records and holds {index}")
    return max_timestamp


def _walk_record(body: bytes, position: int, end: int, index: int) -> tuple[int, bool, int]:
    """Return (timestamp delta, True if there is a key, end of the record)."""
    timestamp_delta, position = read_varint(body, position + 1)  # after the attributes, of which no bit is in use
    offset_delta, position = read_varint(body, position)
    if offset_delta != index:
        raise InvalidRecordsError(f"record {index} has offset delta {offset_delta}")
    key_length, position = _length(body, position)
    position += max(key_length, 0)
    value_length, position = _length(body, position)
    position += max(value_length, 0)
    if key_length < -1 or value_length < -1:
        raise InvalidRecordsError(f"record {index} has a negative length")
    if position >= end:
        raise InvalidRecordsError(f"record {index} has a field that is longer than itself")
    position = _walk_headers(body, position, end, index)
    if position != end:
        raise InvalidRecordsError(f"record {index}: its length and its fields differ")
    return timestamp_delta, key_length >= 0, position


def _walk_headers(body: bytes, position: int, end: int, index: int) -> int:
    count, position = read_varint(body, position)
    if count < 0 or count > end - position:
        raise InvalidRecordsError(f"record {index} declares {count} headers")
    for _ in range(count):
        length, position = _length(body, position)
        if length < 0:
            raise InvalidRecordsError(f"record {index} has a header without a name")
        position += length
        length, position = _length(body, position)
        if length < -1:
            raise InvalidRecordsError(f"record {index} has a negative header value length")
        position += max(length, 0)
        if position > end:
            raise InvalidRecordsError(f"record {index} has a header that is longer than itself")
    return position


def _check_record(index: int, timestamp: int, has_key: bool, rules: WalkRules, faults: list[RecordFault]) -> None:
    if len(faults) >= FAULTS_MAX:
        return
    if rules.needs_key and not has_key:
        faults.append(RecordFault(index, "Compacted topic cannot accept message without key", False))
    elif timestamp != NO_TIMESTAMP and not rules.oldest <= timestamp <= rules.newest:
        message = f"Timestamp {timestamp} is out of range: it should be within [{rules.oldest}, {rules.newest}]"
        faults.append(RecordFault(index, message, True))


def _length(body: bytes, position: int) -> tuple[int, int]:
    """Return a field's length. Raises IndexError if it exceeds the body, since a huge position may be no index."""
    length, position = read_varint(body, position)
    if length > len(body):
        raise IndexError(length)
    return length, position
