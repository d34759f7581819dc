"""Hypothesis strategies for every declared message, derived from its schema.

A value for a version sets only that version's fields: all others have their defaults, as after decoding.
"""

import importlib
import pkgutil
from typing import Any

from hypothesis import strategies as st

import kwire.protocol.messages
from kwire.protocol.primitives import Primitive
from kwire.protocol.schema import Array, FieldSchema, Schema, declared_messages

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def all_messages() -> list[Schema]:
    """Return every message of kwire.protocol.messages."""
    for module in pkgutil.iter_modules(kwire.protocol.messages.__path__):
        importlib.import_module(f"{kwire.protocol.messages.__name__}.{module.name}")
    return sorted(declared_messages(), key=lambda schema: schema.name)


def all_versions() -> list[tuple[Schema, int]]:
    return [(schema, version) for schema in all_messages() for version in schema.versions]


def name_of(case: object) -> str:
    """Return the pytest id of a schema or a version."""
    return case.name if isinstance(case, Schema) else f"v{case}"


def values(schema: Schema, version: int) -> st.SearchStrategy[Any]:
    fields = {spec.name: _field(spec, version) for spec in schema.fields if spec.present(version)}
    return st.builds(schema.cls, **fields)


def _field(spec: FieldSchema, version: int) -> st.SearchStrategy[Any]:
    strategy = _type(spec.type, version)
    return st.none() | strategy if version in spec.nullable else strategy


def _type(wire_type: Primitive | Schema | Array, version: int) -> st.SearchStrategy[Any]:
    if isinstance(wire_type, Array):
        return st.lists(_type(wire_type.element, version), max_size=3)
    if isinstance(wire_type, Schema):
        return values(wire_type, version)
    return _primitive(wire_type)


def _primitive(primitive: Primitive) -> st.SearchStrategy[Any]:
    if primitive.name in _INTEGERS:
        low, high = _INTEGERS[primitive.name]
        return st.integers(low, high)
    if primitive.name == "boolean":
        return st.booleans()
    if primitive.name == "float64":
        return st.floats(allow_nan=False)
    if primitive.name == "uuid":
        return st.uuids(allow_nil=True)
    if primitive.name == "string":
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.just("x" * 200)
    return st.binary(max_size=12) | st.just(b"y" * 200)
