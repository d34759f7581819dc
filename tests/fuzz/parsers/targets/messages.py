"""Targets of compiled decoders: each request, each response, and the records of internal topics.

The first byte of an input chooses the version; the message follows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from kwire.coordinator.group.records import decode_group_record
from kwire.coordinator.share.records import decode_share_record
from kwire.coordinator.transaction.records import decode_transaction_record
from kwire.log.inspection import payloads
from kwire.protocol.codec import decode, encode, pieces_decoder
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_consumer_protocol,
    encode_consumer_protocol,
)
from kwire.protocol.messages.metadata_records import _RECORD_TYPES, decode_metadata_record
from kwire.protocol.schema import Schema, find_message, schema_of
from kwire.server.apis import SERVED
from tests.fuzz.parsers.target import Target, encoded_again
from tests.protocol.samples import sample_bytes

SEEDS_OF_VERSION: Final = 2


def bytes_of(message: Any, version: int) -> bytes:
    out = bytearray()
    encode(message, version, out)
    return bytes(out)


def _read_message(cls: type, data: bytes) -> None:
    """Decode a message of any version: the decoder in pieces gives the same value, which survives its encoding."""
    versions = schema_of(cls).versions
    version = versions.low + (data[0] if data else 0) % (versions.high - versions.low + 1)
    message: Any = decode(cls, version, data, 1)
    encoded = bytes_of(message, version)
    encoded_again(data, lambda: encoded, lambda again: bytes_of(decode(cls, version, again), version))
    pieces: Any = pieces_decoder(cls, version)(data, 1)
    try:
        while True:
            next(pieces)
    except StopIteration as ended:
        assert bytes_of(ended.value[0], version) == encoded, "the decoder in pieces gives another value"


def _seeds_of(schema: Schema) -> Callable[[], Sequence[bytes]]:
    def seeds() -> list[bytes]:
        random_source = random.Random(schema.name)
        low = schema.versions.low
        return [
            bytes([version - low]) + sample_bytes(schema, version, random_source)
            for version in range(low, schema.versions.high + 1)
            for _ in range(SEEDS_OF_VERSION)
        ]

    return seeds


def _target_of(schema: Schema) -> Target:
    cls = schema.cls

    def parse(data: bytes) -> None:
        _read_message(cls, data)

    return Target(schema.name, parse, (ProtocolError,), _seeds_of(schema))


def _responses() -> list[Schema]:
    found = [find_message("response", int(api.key)) for api in SERVED]
    return [schema for schema in found if schema is not None]


REQUESTS: Final = [_target_of(schema_of(api.request)) for api in SERVED]
RESPONSES: Final = [_target_of(schema) for schema in _responses()]


def _consumer_protocol(cls: type[Any]) -> Target:
    def parse(data: bytes) -> None:
        value = decode_consumer_protocol(cls, data)
        encoded = encode_consumer_protocol(value)
        encoded_again(
            data, lambda: encoded, lambda again: encode_consumer_protocol(decode_consumer_protocol(cls, again))
        )

    def seeds() -> list[bytes]:
        return [b"\0" + data for data in _seeds_of(schema_of(cls))()]

    return Target(cls.__name__, parse, (ProtocolError,), seeds)


def metadata_seeds() -> list[bytes]:
    random_source = random.Random("metadata records")
    return [
        bytes([1, key, version]) + sample_bytes(schema_of(cls), version, random_source)
        for key, cls in _RECORD_TYPES.items()
        for version in range(schema_of(cls).versions.low, schema_of(cls).versions.high + 1)
    ]


def _split(data: bytes) -> tuple[bytes, bytes | None]:
    """Return key and value of a record: the first byte is the size of the key; without a value it is a tombstone."""
    size = data[0] if data else 0
    return data[1 : 1 + size], data[1 + size :] or None


def _of_topic(topic: str, decode_record: Callable[[bytes, bytes | None], object]) -> Target:
    def seeds() -> list[bytes]:
        random_source = random.Random(topic)
        messages = payloads._COORDINATOR_MESSAGES[topic]
        found = []
        for (kind, suffix), cls in messages.items():
            if suffix == "Key" and (kind, "Value") in messages:
                value = schema_of(messages[kind, "Value"])
                key = kind.to_bytes(2) + sample_bytes(schema_of(cls), 0, random_source)
                for version in range(value.versions.low, value.versions.high + 1):
                    encoded = version.to_bytes(2) + sample_bytes(value, version, random_source)
                    found.append(bytes([len(key) % 256]) + key + encoded)
        return found

    return Target(f"records of {topic}", lambda data: decode_record(*_split(data)), (ProtocolError,), seeds)


RECORDS: Final = [
    _consumer_protocol(ConsumerProtocolSubscription),
    _consumer_protocol(ConsumerProtocolAssignment),
    Target("metadata record", decode_metadata_record, (ProtocolError,), metadata_seeds),
    _of_topic("__consumer_offsets", decode_group_record),
    _of_topic("__transaction_state", decode_transaction_record),
    _of_topic("__share_group_state", decode_share_record),
]
