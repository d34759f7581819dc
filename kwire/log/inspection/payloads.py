"""Records as plain values: text where bytes are UTF-8, and decoded fields for records that brokers write."""

from __future__ import annotations

import base64
import dataclasses
import struct
from enum import Enum
from types import ModuleType
from typing import Any
from uuid import UUID

from kwire.protocol.codec import decode
from kwire.protocol.control_records import ControlRecordType, control_record_type
from kwire.protocol.error_codes import ProtocolError, UnknownRecordTypeError
from kwire.protocol.messages import (
    consumer_group_records,
    group_records,
    share_group_records,
    share_state_records,
    streams_group_records,
    transaction_records,
)
from kwire.protocol.messages.control_records import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kwire.protocol.messages.metadata_records import decode_metadata_record
from kwire.protocol.records import BatchHeader, InvalidRecordsError, Record
from kwire.protocol.schema import schema_of
from kwire.protocol.uuids import uuid_to_text

METADATA_TOPIC = "__cluster_metadata"
OFFSETS_TOPIC = "__consumer_offsets"
DECODING_ERRORS = (ProtocolError, InvalidRecordsError, IndexError, ValueError, OverflowError, struct.error)
"""Exceptions raised when bytes are decoded that are not such a record."""

_CONTROL_VALUES: dict[int, type] = {
    ControlRecordType.ABORT: EndTxnMarker,
    ControlRecordType.COMMIT: EndTxnMarker,
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}
_MARKERS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)


_PREFIX_BYTES = 2
"""Bytes of the prefix: a key begins with its record type, a value with its version."""


def _messages(*modules: ModuleType) -> dict[tuple[int, str], type]:
    """Return the message classes by (record type, "Key" or "Value")."""
    return {
        (schema_of(cls).key or 0, suffix): cls
        for module in modules
        for name, cls in vars(module).items()
        for suffix in ("Key", "Value")
        if isinstance(cls, type) and cls.__module__ == module.__name__ and name.endswith(suffix)
    }


_COORDINATOR_MESSAGES = {
    OFFSETS_TOPIC: _messages(group_records, consumer_group_records, share_group_records, streams_group_records),
    "__transaction_state": _messages(transaction_records),
    "__share_group_state": _messages(share_state_records),
}


def plain(value: Any) -> Any:
    """Convert a value for JSON: messages to fields, bytes to text or {"base64": ...}, uuids to Kafka's text form."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes_as_text(bytes(value))
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, Enum):
        return value.name
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def bytes_as_text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def payload(topic: str | None, header: BatchHeader, record: Record) -> dict[str, Any]:
    """Return the record's content: decoded if a broker wrote it for itself, else key and value."""
    try:
        decoded = decoded_payload(topic, header, record)
    except DECODING_ERRORS as error:
        return {**_key_and_value(record), "undecodable": str(error)}
    return _key_and_value(record) if decoded is None else decoded


def _key_and_value(record: Record) -> dict[str, Any]:
    return {"key": bytes_as_text(record.key), "value": bytes_as_text(record.value)}


def decoded_payload(topic: str | None, header: BatchHeader, record: Record) -> dict[str, Any] | None:
    """Return the decoded record, None for a client's record. Raises one of DECODING_ERRORS for invalid content."""
    if header.is_control:
        return _control(record)
    if topic == METADATA_TOPIC:
        message = decode_metadata_record(record.value or b"")
        return {"record": type(message).__name__, **_fields(message)}
    messages = _COORDINATOR_MESSAGES.get(topic or "")
    return None if messages is None else _coordinator(messages, record)


def _fields(message: Any) -> dict[str, Any]:
    fields: dict[str, Any] = plain(message)
    return {"fields": fields}


def _coordinator(messages: dict[tuple[int, str], type], record: Record) -> dict[str, Any]:
    data = record.key or b""
    key_type = _prefix(data)
    key_class, value_class = messages.get((key_type, "Key")), messages.get((key_type, "Value"))
    if key_class is None or value_class is None:
        raise UnknownRecordTypeError(f"unknown record type {key_type}")
    key: Any = decode(key_class, 0, data, _PREFIX_BYTES)
    value: Any = None
    if record.value is not None:
        value = decode(value_class, _prefix(record.value), record.value, _PREFIX_BYTES)
    return {"record": key_class.__name__.removesuffix("Key"), "key": plain(key), "value": plain(value)}


def _prefix(data: bytes) -> int:
    if len(data) < _PREFIX_BYTES:
        raise ProtocolError(f"a record's {len(data)} bytes hold no type")
    return int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)


def _control(record: Record) -> dict[str, Any]:
    kind = control_record_type(record.key)
    cls = _CONTROL_VALUES.get(kind)
    if cls is None:
        return {"control": str(kind), **_key_and_value(record)}
    # A marker's version precedes its message; the other control records also have it as their first field.
    data = record.value or b""
    if len(data) < 2:
        raise InvalidRecordsError("a control record has no value")
    version = int.from_bytes(data[:2], "big", signed=True)
    version = max(0, min(version, schema_of(cls).versions.high))
    message: Any = decode(cls, version, data, 2 if kind in _MARKERS else 0)
    return {"control": ControlRecordType(kind).name, **_fields(message)}
