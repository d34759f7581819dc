"""The walk over a batch's records: the broker's one loop per record.

It is one function with no calls for ordinary records, because it runs for each record of each uncompressed batch: its time
per record is a large part of what a produced byte costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kwire.protocol.records import NO_TIMESTAMP

FAULTS_MAX = 100
"""Faulty records that one answer lists; the batch is refused all the same."""


class MalformedRecordError(ValueError):
    """The batch's body is not the records that its header declares."""


class RecordFault(NamedTuple):
    """One record that the topic does not take."""

    batch_index: int
    message: str
    is_timestamp: bool


@dataclass(slots=True)
class WalkRules:
    """What the topic asks of each record."""

    needs_key: bool
    oldest: int
    newest: int
    fixed_timestamp: int | None
    """The timestamp of all records of a LogAppendTime batch."""


def walk_records(
    body: bytes, record_count: int, base_timestamp: int, rules: WalkRules, faults: list[RecordFault]
) -> int:
    """Check that body is exactly record_count well-formed records; returns the largest timestamp.

    Records that are well-formed but not taken are noted in faults.
    """
    needs_key, oldest, newest, fixed = rules.needs_key, rules.oldest, rules.newest, rules.fixed_timestamp
    max_timestamp = NO_TIMESTAMP
    position = index = 0
    size = len(body)
    try:
        while position < size:
            # Length of the record: one or two bytes for all but large ones. An odd first byte is a negative number.
            byte = body[position]
            position += 1
            if byte > 127:
                second = body[position]
                if second > 127:
                    length, position = _varint(body, position - 1)
                else:
                    position += 1
                    length = (byte & 127 | second << 7) >> 1
            else:
                length = byte >> 1
            end = position + length
            if end > size:
                raise MalformedRecordError(f"record {index} is longer than its batch")
            position += 1  # record attributes: no bit is in use

            byte = body[position]  # timestamp delta
            if byte < 128:
                timestamp = base_timestamp + (byte >> 1 if not byte & 1 else ~(byte >> 1))
                position += 1
            else:
                timestamp, position = _varint(body, position)
                timestamp += base_timestamp

            byte = body[position]  # offset delta
            position += 1
            if byte > 127:
                second = body[position]
                if second > 127:
                    delta, position = _varint(body, position - 1)
                else:
                    position += 1
                    delta = (byte & 127 | second << 7) >> 1
            else:
                delta = byte >> 1
            if delta != index or byte & 1:
                raise MalformedRecordError(f"record {index} has another offset delta")

            byte = body[position]  # key
            position += 1
            if byte == 1:
                if needs_key:
                    _note(faults, index, "Compacted topic cannot accept message without key", is_timestamp=False)
            elif byte < 128:
                if byte & 1:
                    raise MalformedRecordError(f"record {index} has a negative key length")
                position += byte >> 1
            else:
                length, position = _varint(body, position - 1)
                if length < 0:
                    raise MalformedRecordError(f"record {index} has a negative key length")
                position += length

            byte = body[position]  # value
            position += 1
            if byte > 127:
                second = body[position]
                if second > 127:
                    length, position = _varint(body, position - 1)
                    if length < 0:
                        raise MalformedRecordError(f"record {index} has a negative value length")
                    position += length
                else:
                    if byte & 1:
                        raise MalformedRecordError(f"record {index} has a negative value length")
                    position += 1 + ((byte & 127 | second << 7) >> 1)
            elif not byte & 1:
                position += byte >> 1
            elif byte != 1:
                raise MalformedRecordError(f"record {index} has a negative value length")

            byte = body[position]  # headers
            position += 1
            if byte:
                position = _walk_headers(body, position - 1, end, index)
            if position != end:
                raise MalformedRecordError(f"record {index}: its length and its fields differ")

            if fixed is not None:
                timestamp = fixed
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            if (timestamp < oldest or timestamp > newest) and timestamp != NO_TIMESTAMP:
                message = f"Timestamp {timestamp} is out of range: it should be within [{oldest}, {newest}]"
                _note(faults, index, message, is_timestamp=True)
            index += 1
    except IndexError as error:
        raise MalformedRecordError(f"record {index} ends early") from error
    if index != record_count:
        raise MalformedRecordError(f"the batch declares {record_count} records and holds {index}")
    return max_timestamp


def _note(faults: list[RecordFault], index: int, message: str, *, is_timestamp: bool) -> None:
    if len(faults) < FAULTS_MAX and not (faults and faults[-1].batch_index == index):
        faults.append(RecordFault(index, message, is_timestamp))


def _varint(body: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint of any length, and the position behind it."""
    result = shift = 0
    while True:
        byte = body[position]
        position += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return (result >> 1) ^ -(result & 1), position
        shift += 7
        if shift > 63:
            raise MalformedRecordError("a varint has more than ten bytes")


def _walk_headers(body: bytes, position: int, end: int, index: int) -> int:
    count, position = _varint(body, position)
    if count < 0 or count > end - position:
        raise MalformedRecordError(f"record {index} declares {count} headers")
    for _ in range(count):
        length, position = _varint(body, position)
        if length < 0:
            raise MalformedRecordError(f"record {index} has a header without a name")
        position += length
        length, position = _varint(body, position)
        if length < -1:
            raise MalformedRecordError(f"record {index} has a negative header value length")
        position += max(length, 0)
        if position > end:
            raise MalformedRecordError(f"record {index} has a header that is longer than itself")
    return position
