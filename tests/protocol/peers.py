"""The same value through other codecs: kio and kafka-python.

Both declare Kafka's messages independently, so a mistake in the order, type or version of a field in kwire gives other
bytes. Fields are matched by their place among the version's fields, and their names must agree.
"""

import dataclasses
import datetime as dt
import importlib
import importlib.resources
import io
import re
import typing
import warnings
from functools import cache
from pathlib import Path
from typing import Any, cast

import kio.schema.errors
import kio.serial

from kwire.protocol import messages
from kwire.protocol.primitives import ZERO_UUID
from kwire.protocol.schema import FieldSchema, Schema, schema_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas through a deprecated function
    import kafka.protocol.admin
    import kafka.protocol.api_header
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl
    from kafka.protocol.schemas.fields.codecs import BitField

_KAFKA_PYTHON = (
    kafka.protocol.admin,
    kafka.protocol.api_header,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)


_UNKNOWN_TO_KIO = frozenset(
    f"{messages.__name__}.{module}"
    for module in (
        "consumer_group_records",
        "group_records",
        "metadata_records",
        "producer_snapshot",
        "quorum_state",
        "remote_log_records",
        "share_group_records",
        "share_state_records",
        "streams_group_records",
        "transaction_records",
    )
)


def known_to_kio(schema: Schema) -> bool:
    """Return True if kio has the schema: all except records of internal topics and of files."""
    return schema.cls.__module__ not in _UNKNOWN_TO_KIO


def module_of_kio(schema: Schema, version: int) -> str:
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", re.sub(r"(Request|Response)$", "", schema.name)).lower()
    return f"kio.schema.{package}.v{version}.{schema.kind}"


def modules_of_kio() -> set[str]:
    """Return the modules of kio, one for each message and version."""
    (folder,) = map(Path, kio.schema.__path__)
    paths = (path.relative_to(folder).with_suffix("") for path in folder.glob("*/v*/*.py"))
    return {".".join(("kio.schema", *path.parts)) for path in paths if path.name != "__init__"}


def encode_with_kio(value: Any, version: int) -> bytes:
    schema = schema_of(type(value))
    entity = getattr(importlib.import_module(module_of_kio(schema, version)), schema.name)
    buffer = io.BytesIO()
    kio.serial.entity_writer(entity)(buffer, _to_kio(value, entity, version))
    return buffer.getvalue()


def _to_kio(value: Any, entity: Any, version: int) -> Any:
    hints = typing.get_type_hints(entity)
    ours = _present(schema_of(type(value)), version)
    theirs = dataclasses.fields(entity)
    assert len(ours) == len(theirs), (entity, [spec.name for spec in ours], [spec.name for spec in theirs])
    arguments = {}
    for mine, other in zip(ours, theirs, strict=True):
        assert _plain(mine.name).startswith(_plain(other.name)), (mine.name, other.name)
        kafka_type = other.metadata.get("kafka_type", "")
        if other.default is None and getattr(value, mine.name) == ZERO_UUID:
            continue  # kio uses None where Kafka uses zero
        arguments[other.name] = _kio_value(getattr(value, mine.name), hints[other.name], kafka_type, version)
    return entity(**arguments)


def _kio_value(value: Any, hint: Any, kafka_type: str, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        inner = _entity_in(hint)
        return tuple(_kio_value(item, inner, kafka_type, version) for item in value)
    if dataclasses.is_dataclass(value):
        return _to_kio(value, _entity_in(hint), version)
    if kafka_type == "error_code":
        return kio.schema.errors.ErrorCode(value)
    if kafka_type.startswith("timedelta"):
        return dt.timedelta(milliseconds=value)
    if kafka_type.startswith("datetime"):
        return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=value)
    return value


def _entity_in(hint: Any) -> Any:
    """Return the struct inside `X | None`, `tuple[X, ...]` or both."""
    for argument in typing.get_args(hint):
        if argument not in (type(None), ...):
            return _entity_in(argument)
    return hint


def known_to_kafka_python(schema: Schema) -> bool:
    """Return True if kafka-python has the schema: messages that its clients send and read."""
    return schema.name in names_in_kafka_python()


@cache
def names_in_kafka_python() -> frozenset[str]:
    """Return the names of all messages in kafka-python."""
    resources = importlib.resources.files("kafka.protocol.schemas.resources")
    return frozenset(path.name.removesuffix(".json") for path in resources.iterdir() if path.name.endswith(".json"))


def encode_with_kafka_python(value: Any, version: int) -> bytes:
    name = type(value).__name__
    cls = next(getattr(module, name) for module in _KAFKA_PYTHON if hasattr(module, name))
    theirs = _to_kafka_python(value, cls, version)
    if schema_of(type(value)).kind == "header":
        return cast("bytes", theirs.encode(flexible=version in schema_of(type(value)).flexible))
    encoded = cast("bytes", theirs.encode(version=version))
    return encoded[2:] if name.startswith("ConsumerProtocol") else encoded  # these messages begin with their version


def _to_kafka_python(value: Any, cls: Any, version: int) -> Any:
    ours = _present(schema_of(type(value)), version)
    theirs = [spec for spec in cls._struct._fields if spec.for_version_q(version)]
    assert len(ours) == len(theirs), (cls, [spec.name for spec in ours], [spec.name for spec in theirs])
    arguments = {}
    for mine, other in zip(ours, theirs, strict=True):
        assert _plain(mine.name).endswith(_plain(other.name)), (mine.name, other.name)
        if mine.in_tags(version) and getattr(value, mine.name) == mine.default:
            continue  # kafka-python writes each tagged field that is set
        struct = getattr(cls, other.type_str, None) if other.is_struct() or other.is_struct_array() else None
        arguments[other.name] = _kafka_python_value(getattr(value, mine.name), struct, version)
        if getattr(other, "_type", None) is BitField:
            arguments[other.name] = _bits(arguments[other.name])
    return cls(version=version, **arguments)


def _kafka_python_value(value: Any, struct: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_kafka_python_value(item, struct, version) for item in value]
    if dataclasses.is_dataclass(value):
        return _to_kafka_python(value, struct, version)
    return value


def _bits(value: int) -> set[int]:
    """Return the set of bits that kafka-python uses for a set of operations."""
    return {bit for bit in range(32) if value >> bit & 1}


def _present(schema: Schema, version: int) -> list[FieldSchema]:
    return [spec for spec in schema.fields if spec.present(version)]


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
